// A file, uploaded; what becomes of it is shown by jobs.js.
import { follow } from "./jobs.js";
import { ask, byId, Refused, visible } from "./talk.js";

export function startBatch(chosen) {
  byId("upload").addEventListener("submit", (event) => {
    event.preventDefault();
    upload(chosen());
  });
  byId("file").addEventListener("change", () => showColumns(byId("file").files[0]));
  takeDrops(byId("drop"), (file) => {
    byId("file").files = asList(file);
    showColumns(file);
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

const MOST = 65536; // of a file that is looked at for its columns

// Say which columns there are, and offer them; the server has the last word on them.
async function showColumns(file) {
  const found = file ? columnsIn(file.name.toLowerCase(), await file.slice(0, MOST).text()) : [];
  byId("columns").replaceChildren(...found.map((name) => new Option(name, name)));
  byId("columns-found").textContent = found.length ? `Columns: ${found.map(visible).join(", ")}` : "";
}

function columnsIn(name, text) {
  const [line] = text.replace(/^\ufeff/, "").split(/\r?\n/, 1);
  if (/\.jsonl?$/.test(name)) {
    try {
      const first = [JSON.parse(name.endsWith("l") ? line : text)].flat()[0];
      return first !== null && typeof first === "object" ? Object.keys(first) : [];
    } catch {
      return [];
    }
  }
  return line.split(name.endsWith(".tsv") ? "\t" : ",").map((cell) => cell.trim().replace(/^"(.*)"$/, "$1")).filter(Boolean);
}

async function upload(model) {
  const [file] = byId("file").files;
  tell("");
  if (!file) return tell("Choose a file first.");
  const form = new FormData();
  form.append("file", file);
  form.append("text", byId("column-text").value);
  form.append("query", model.dataset.asks ? byId("column-query").value : "");
  form.append("id", byId("column-id").value);
  if (model.dataset.lengths && byId("ratio").value) form.append("ratio", byId("ratio").value);
  form.append("skip_bad", byId("skip-bad").checked);
  byId("explain-all").disabled = true;
  byId("upload-status").textContent = "Uploading, and reading all rows …";
  try {
    const answer = await ask(`/v1/models/${encodeURIComponent(model.value)}/jobs`, { method: "POST", body: form });
    follow(await answer.json());
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    tell(asOnPage(error.message));
  } finally {
    byId("explain-all").disabled = false;
    byId("upload-status").textContent = "";
  }
}

// Fields of the interface are called by their names on the page.
function asOnPage(told) {
  const labelled = (id) => `“${byId(id).labels[0].textContent.trim()}”`;
  return told
    .replace(/\bwith skip_bad\b/g, () => `with ${labelled("skip-bad")}`)
    .replace(/ with (text|query|id)\.$/, (_, field) => ` in ${labelled(`column-${field}`)}.`);
}

function tell(problem) {
  byId("batch-problem").textContent = problem;
  byId("batch-problem").hidden = !problem;
}
