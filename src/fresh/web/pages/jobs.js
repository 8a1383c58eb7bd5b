// Shows the progress of uploaded files. The browser stores their ids, to find them again.
import { byId, recall, remember, request, ServerError, visible } from "./api.js";

const KEPT = "fresh-jobs";
const cards = new Map();
const gone = new Set(); // deleted, though a response about them may still arrive

const kept = () => (recall(KEPT) ?? "").split(" ").filter((id) => /^[\w-]{1,64}$/.test(id));

const keep = (ids) => remember(KEPT, ids.join(" "));

export async function startJobs() {
  for (const id of kept()) await poll(id);
}

export function follow(about) {
  keep([...kept(), about.id]);
  show(about);
  wait(about.id, 300);
}

const wait = (id, time) => setTimeout(() => poll(id), time);

async function poll(id) {
  try {
    const about = await (await request(`/v1/jobs/${id}`)).json();
    if (gone.has(id)) return;
    show(about);
    if (about.state === "waiting" || about.state === "running") wait(id, 500);
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    if (error.status === 404) return lose(id);
    if (cards.has(id)) tell(id, error.message);
    wait(id, 3000);
  }
}

function forget(id) {
  gone.add(id);
  keep(kept().filter((each) => each !== id));
  cards.get(id)?.remove();
  cards.delete(id);
  count();
}

// The server no longer has the file: say so if it is shown.
function lose(id) {
  if (!cards.has(id)) return forget(id);
  gone.add(id);
  for (const name of ["progress", "jsonl", "csv", "status"]) part(id, name).hidden = true;
  part(id, "delete").textContent = "Remove";
  tell(id, "The server no longer has this file: it was restarted, or the time limit has passed. Upload the file again.");
}

function count() {
  byId("tab-batch").textContent = cards.size ? `File (${cards.size})` : "File";
}

const part = (id, name) => cards.get(id).querySelector(`.job-${name}`);

function tell(id, problem) {
  part(id, "problem").textContent = problem;
  part(id, "problem").hidden = !problem;
}

function make(about) {
  const card = byId("job").content.cloneNode(true).firstElementChild;
  cards.set(about.id, card);
  part(about.id, "name").textContent = visible(about.file);
  part(about.id, "model").textContent = `by ${about.model}${about.ratio === null ? "" : `, ratio ${about.ratio}`}`;
  for (const format of ["jsonl", "csv"]) {
    part(about.id, format).href = `/v1/jobs/${about.id}/results?format=${format}`;
    part(about.id, format).addEventListener("click", () => poll(about.id)); // does the server still have it?
  }
  part(about.id, "delete").addEventListener("click", () => remove(about.id));
  byId("jobs").prepend(card);
  count();
}

function show(about) {
  if (!cards.has(about.id)) make(about);
  const over = about.state === "done" || about.state === "failed";
  part(about.id, "progress").max = about.rows;
  part(about.id, "progress").value = about.done;
  part(about.id, "progress").hidden = about.state === "done";
  part(about.id, "status").textContent = statusOf(about);
  part(about.id, "left-out").textContent = about.left_out;
  part(about.id, "left-out").hidden = !about.left_out;
  for (const format of ["jsonl", "csv"]) part(about.id, format).hidden = !over || !about.done;
  part(about.id, "delete").textContent = over ? "Delete from the server" : "Cancel";
  tell(about.id, about.problem);
}

function statusOf({ state, done, rows }) {
  const texts = `${done.toLocaleString("en")} of ${rows.toLocaleString("en")} text${rows === 1 ? "" : "s"} explained`;
  if (state === "waiting") return "Waiting for other files.";
  return { done: `Done: ${texts}.`, failed: `Stopped: ${texts}.` }[state] ?? `${texts} …`;
}

async function remove(id) {
  if (gone.has(id)) return forget(id);
  try {
    await request(`/v1/jobs/${id}`, { method: "DELETE" });
    forget(id);
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    if (error.status === 404) return lose(id);
    tell(id, error.message);
  }
}
