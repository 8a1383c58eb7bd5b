// A file, uploaded and explained in the background.
import { ask, byId, Refused } from "./talk.js";

let job = null;
let chosen = null;

export function startBatch(modelName) {
  byId("upload").addEventListener("submit", (event) => {
    event.preventDefault();
    upload(modelName());
  });
  byId("file").addEventListener("change", () => (chosen = null));
  byId("delete").addEventListener("click", remove);
  takeDrops(byId("drop"), (file) => {
    chosen = file;
    byId("file").files = asList(file);
  });
}

function asList(file) {
  const list = new DataTransfer();
  list.items.add(file);
  return list.files;
}

// Have a place take a file that is dropped on it.
export function takeDrops(place, take) {
  place.addEventListener("dragover", (event) => {
    event.preventDefault();
    place.classList.add("dropping");
  });
  place.addEventListener("dragleave", () => place.classList.remove("dropping"));
  place.addEventListener("drop", (event) => {
    place.classList.remove("dropping");
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    take(file);
  });
}

async function upload(model) {
  const file = byId("file").files[0] ?? chosen;
  tell("");
  if (!file) return tell("Choose a file first.");
  const form = new FormData();
  form.append("file", file);
  form.append("text", byId("column-text").value);
  form.append("query", byId("column-query").value);
  form.append("id", byId("column-id").value);
  form.append("skip_bad", byId("skip-bad").checked);
  byId("job").hidden = true;
  try {
    const answer = await ask(`/v1/models/${encodeURIComponent(model)}/jobs`, { method: "POST", body: form });
    await follow(await answer.json());
  } catch (error) {
    tell(error);
  }
}

async function follow(about) {
  job = about.id;
  for (;;) {
    show(about);
    if (about.state === "done" || about.state === "failed") return;
    await new Promise((resolve) => setTimeout(resolve, 300));
    if (job !== about.id) return;
    about = await (await ask(`/v1/jobs/${about.id}`)).json();
  }
}

function show(about) {
  byId("job").hidden = false;
  byId("job-name").textContent = about.file;
  byId("progress").max = about.rows;
  byId("progress").value = about.done;
  const count = `${about.done.toLocaleString("en")} of ${about.rows.toLocaleString("en")} texts`;
  const texts = about.rows === 1 ? count.replace("texts", "text") : count;
  byId("job-status").textContent = about.state === "done" ? `Done: ${texts} explained.` : `${texts} explained.`;
  byId("left-out").hidden = !about.left_out;
  byId("left-out").textContent = about.left_out;
  byId("downloads").hidden = about.state !== "done" && about.state !== "failed";
  byId("get-jsonl").href = `/v1/jobs/${about.id}/results?format=jsonl`;
  byId("get-csv").href = `/v1/jobs/${about.id}/results?format=csv`;
  if (about.state === "failed") tell(about.problem);
}

async function remove() {
  try {
    await ask(`/v1/jobs/${job}`, { method: "DELETE" });
    byId("job").hidden = true;
    job = null;
  } catch (error) {
    tell(error);
  }
}

function tell(problem) {
  if (problem instanceof Error && !(problem instanceof Refused)) throw problem;
  byId("batch-problem").textContent = problem instanceof Error ? problem.message : problem;
  byId("batch-problem").hidden = !problem;
}
