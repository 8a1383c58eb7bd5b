// Uploads a file; jobs.js shows its progress.
import { follow } from "./jobs.js";
import { byId, request, ServerError, visible } from "./api.js";

export function startUpload(chosen) {
  byId("upload").addEventListener("submit", (event) => {
    event.preventDefault();
    upload(chosen());
  });
  byId("file").addEventListener("change", () => showColumns(byId("file").files[0]));
  takeDrops(byId("drop"), (file) => {
    const list = new DataTransfer();
    list.items.add(file);
    byId("file").files = list.files;
    showColumns(file);
  });
}

// Accept files that are dropped on an element.
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

const HEAD_BYTES = 65536; // read to find the columns

// List the columns and suggest them; the server checks them.
async function showColumns(file) {
  const found = file ? columnsIn(file.name.toLowerCase(), await file.slice(0, HEAD_BYTES).text()) : [];
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
  byId("upload-status").textContent = "Uploading and checking all rows …";
  try {
    const response = await request(`/v1/models/${encodeURIComponent(model.value)}/jobs`, { method: "POST", body: form });
    follow(await response.json());
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    tell(withLabels(error.message));
  } finally {
    byId("explain-all").disabled = false;
    byId("upload-status").textContent = "";
  }
}

// Show fields of the API by their labels on the page.
function withLabels(message) {
  const labelled = (id) => `“${byId(id).labels[0].textContent.trim()}”`;
  return message
    .replace(/\bskip_bad(=True)?/g, () => labelled("skip-bad"))
    .replace(/`(text|query|id)`/g, (_, field) => labelled(`column-${field}`));
}

function tell(problem) {
  byId("batch-problem").textContent = problem;
  byId("batch-problem").hidden = !problem;
}
