// Explains one text: shows the answer, changes the length of the rationale, edits words, shares.
import { startUpload, takeDrops } from "./upload.js";
import { drawCurve } from "./curve.js";
import { startJobs } from "./jobs.js";
import { openTab, startTheme } from "./theme.js";
import { leaveLink, linkTo, readLink, recordOf, saveCertificate } from "./share.js";
import { byId, copy, element, percent, post, ServerError, svg, visible } from "./api.js";
import { changeOf, drawRead, drawWords, focusWord, isEdited, keptOf, placesOf, withWord } from "./words.js";

const MOST_LABELS = 6; // shown at once

let state = null; // what is shown: always an answer of the server
let wanted = null; // what is shown next, while its request runs
let running = null; // the request that runs
let stale = false; // whether the page shows older words than the state

const chosen = () => byId("model").selectedOptions[0];

// place: position of the slider; original: the text before edits. Returns whether it succeeded; null if aborted.
async function explain({ text = byId("text").value, place = null, original = null } = {}) {
  const model = byId("model").value;
  const query = chosen().dataset.asks ? byId("query").value : null;
  wanted = null;
  byId("result").inert = true; // until the request ends
  return during("Explaining …", async (signal) => {
    const record = await json(post(model, "explain", { text, query, scores: true }, signal));
    const curve = chosen().dataset.lengths ? await json(post(model, "curve", { text, query }, signal)) : null;
    const places = placesOf(text, record.words);
    const kept = keptOf(places, record.rationale);
    state = { model, query, text, record, curve, places, kept, words: record.words, first: [...record.words], at: 0 };
    Object.assign(state, { own: record, chosenFrom: text, original: original ?? text });
    if (curve) prepareLengths(place);
    byId("text").value = text;
    byId("result").hidden = false;
    show();
  });
}

const json = async (answer) => (await answer).json();

// One request at a time: a newer one aborts the last, and only errors of the newest are shown.
async function during(what, work) {
  running?.abort();
  const mine = (running = new AbortController());
  byId("status").textContent = what;
  byId("result").classList.add("old");
  tell("");
  try {
    await work(mine.signal);
    return true;
  } catch (error) {
    if (error.name === "AbortError") return null;
    if (!(error instanceof ServerError)) throw error;
    goBack();
    tell(error.message);
    return false;
  } finally {
    if (running === mine) byId("status").textContent = "";
  }
}

// After an error, the last answer stays. If text or model have changed, it cannot be used.
function goBack() {
  wanted = null;
  if (state && byId("text").value === state.chosenFrom && byId("model").value === state.model) show();
  else byId("result").inert = true;
}

function tell(problem) {
  byId("problem").textContent = problem;
  byId("problem").hidden = !problem;
}

const count = (flags) => flags.filter(Boolean).length;

function prepareLengths(wanted) {
  state.masks = state.curve.points.map((point) => keptOf(state.places, point.rationale));
  state.counts = state.masks.map(count);
  const own = count(state.kept);
  const near = state.counts.reduce((best, n, place, all) => (Math.abs(n - own) < Math.abs(all[best] - own) ? place : best), 0);
  const last = state.counts.length - 1;
  state.place = wanted === null ? near : Math.min(wanted, last);
  byId("length").max = last;
  byId("length").value = state.place;
  state.kept = state.masks[state.place];
  state.record = state.curve.points[state.place];
}

// Show other words, or another selection, once the model has answered.
async function hold(next) {
  wanted = next;
  byId("actions").inert = true;
  return during("Explaining …", async (signal) => {
    const { model, words, kept, query, curve, place, own } = next;
    if (isEdited(next)) next.record = await json(post(model, "explain", { words, kept, query }, signal));
    else next.record = curve ? curve.points[place] : own;
    [state, wanted] = [next, null];
    show();
  });
}

function slide() {
  const place = Number(byId("length").value);
  const now = wanted ?? state;
  return hold({ ...now, place, kept: now.masks[place] });
}

// word: empty to leave it as it is.
async function edit(number, word) {
  const [before, now] = [state, wanted ?? state];
  if (!word || word === now.words[number]) {
    if (stale) draw();
  } else if (byId("hold").checked) {
    if (!(await hold(withWord(now, number, word))) || state.kept !== before.kept) return;
    const { read, text } = changeOf(before, state);
    tellChange(`${text}: ${effect(before, state)}.`, !read);
  } else {
    const { text, original, place = null } = withWord(now, number, word);
    let again = "";
    let base = before;
    // The answer on the page may be for kept words or another length. Explain the text before the edit first, so that
    // the edit is not blamed for an effect of selecting the words again.
    if (isEdited(now) || now !== before) {
      if (!(await explain({ text: now.text, place, original }))) return;
      base = state;
      if (now === before) again = `After selecting the words again, ${effect(before, base)}. `;
    }
    if (!(await explain({ text, place, original }))) return;
    tellChange(`${again}“${now.words[number]}” was changed to “${word}”, and the words were selected again: ${effect(base, state)}.`);
    focusWord(byId("document"), state, Math.min(number, state.words.length - 1));
  }
}

function effect({ record: before }, { record: after }) {
  const [one, other] = [before, after].map(({ label, probability }) => `${label} ${percent(probability)}`);
  const same = Object.keys(after.probabilities).every(
    (label) => Math.abs(before.probabilities[label] - after.probabilities[label]) < 1e-5, // the batch may change that much
  );
  return same ? `the answer is still ${other}` : `the answer changed from ${one} to ${other}`;
}

function tellChange(message, same = false) {
  byId("change").textContent = visible(message);
  byId("change").classList.toggle("same", same);
  byId("change").hidden = false;
}

function undo() {
  const now = wanted ?? state;
  const { original, chosenFrom, first, place = null } = now;
  if (original !== chosenFrom) return explain({ text: original, place });
  return hold({ ...now, words: [...first], text: original, places: placesOf(original, first) });
}

function show() {
  const { record, kept, query } = state;
  const n_read = count(kept);
  byId("answer").replaceChildren(element("bdi", "", visible(record.label)), ` ${percent(record.probability)}`);
  const whose = byId("model").options.length > 1 ? `, by ${state.model}` : "";
  byId("share").textContent = `from ${n_read} of ${kept.length} words (${percent(n_read / kept.length)})${whose}`;
  byId("result").classList.remove("old");
  byId("result").inert = byId("actions").inert = false;
  byId("change").hidden = true;
  byId("done").textContent = "";
  byId("bars").replaceChildren(...bars(record.probabilities));
  byId("asked").hidden = !query;
  byId("asked").textContent = query ? `Query: ${visible(query)}` : "";
  byId("undo").hidden = !isEdited(state) && state.original === state.chosenFrom;
  byId("lengths").hidden = !state.curve;
  if (state.curve) showLengths();
  draw();
}

// While a word is being edited, wait with drawing.
function draw() {
  stale = byId("document").querySelector(".edit") !== null;
  if (stale) return;
  const number = document.activeElement?.closest("#document .word")?.dataset.number;
  const only = byId("only").checked;
  byId("document").classList.toggle("only", only);
  byId("edit-hint").hidden = only;
  (only ? drawRead : drawWords)(byId("document"), state, edit);
  if (number !== undefined) focusWord(byId("document"), state, Number(number));
}

function showLengths() {
  const { curve, counts, place } = state;
  const label = curve.points.at(-1).label;
  drawCurve(byId("curve"), curve.points, label, counts, place);
  byId("length").value = place;
  byId("length").setAttribute("aria-valuetext", `${counts[place]} words: ${state.record.label} ${percent(state.record.probability)}`);
  const enough = counts[curve.minimal];
  const stays = `From ${enough} word${enough === 1 ? "" : "s"} on, the answer stays ${visible(label)}.`;
  byId("curve-says").textContent = `Probability of ${visible(label)}. ${stays}${isEdited(state) ? " The curve shows the text before your edits." : ""}`;
}

function bars(probabilities) {
  const likeliest = Object.entries(probabilities).sort((one, other) => other[1] - one[1]);
  const rows = likeliest.slice(0, MOST_LABELS).flatMap(([label, share]) => [
    element("bdi", "", visible(label)),
    svg("svg", { "aria-hidden": "true" }, svg("rect", { width: `${100 * share}%`, height: "100%" })),
    element("span", "", percent(share)),
  ]);
  const more = likeliest.length - MOST_LABELS;
  if (more > 0) rows.push(element("span", "more", `and ${more} more label${more === 1 ? "" : "s"}`));
  return rows;
}

async function certificate() {
  const saved = await during("Certifying …", (signal) => saveCertificate(state, signal));
  if (!saved) return;
  byId("result").classList.remove("old");
  done("Downloaded. To check it, run: fresh verify certificate.jsonl MODEL");
}

const done = (message) => (byId("done").textContent = message);

function fitModel() {
  for (const id of ["query-box", "and-query", "given-query"]) byId(id).hidden = !chosen().dataset.asks;
  byId("column-query-box").hidden = !chosen().dataset.asks;
  byId("ratio-box").hidden = !chosen().dataset.lengths;
  byId("ratio-range").textContent = chosen().dataset.lengths;
  const labels = JSON.parse(chosen().dataset.labels).map(visible);
  const more = labels.length > MOST_LABELS ? `, and ${labels.length - MOST_LABELS} more` : "";
  byId("answers").textContent = `Labels: ${labels.slice(0, MOST_LABELS).join(", ")}${more}`;
}

async function follow() {
  const { model, tab, text, query, place, edits } = readLink();
  const known = [...byId("model").options].some((option) => option.value === model);
  if (known) byId("model").value = model;
  fitModel();
  openTab(byId(tab === "file" ? "tab-batch" : "tab-text"));
  if (!text) return;
  [byId("text").value, byId("query").value] = [text, query];
  if (model && !known) return tell(`The link is for the model “${visible(model)}”, which this server does not have. Choose another model and press Explain.`);
  if (!(await explain({ place }))) return;
  const fitting = edits.filter(([number]) => number < state.words.length);
  if (fitting.length) hold(fitting.reduce((now, [number, word]) => withWord(now, number, word.trim()), state));
}

// Explain the text of a file, if it is UTF-8 and not too long; it is never cut.
async function takeFile(file) {
  const most = Number(byId("text").dataset.most);
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    text = "\0";
  }
  if (text.includes("\0")) return tell(`${file.name} is not UTF-8 text. Save it as UTF-8, or paste the text.`);
  if (text.length > most) {
    return tell(`${file.name} has ${text.length.toLocaleString("en")} characters; the limit is ${most.toLocaleString("en")}. Use a part of it.`);
  }
  byId("text").value = text;
  askAnew();
}

function askAnew() {
  leaveLink();
  explain();
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  askAnew();
});
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) askAnew();
});
takeDrops(byId("text"), takeFile);
byId("model").addEventListener("change", () => {
  fitModel();
  if (state && !byId("panel-text").hidden) explain();
  else if (state) goBack();
});
byId("length").addEventListener("input", slide);
byId("only").addEventListener("change", draw);
byId("undo").addEventListener("click", undo);
byId("copy-link").addEventListener("click", () => copy(linkTo(state)).then(() => done("Link copied. It contains the text.")));
byId("copy-json").addEventListener("click", () => copy(JSON.stringify(recordOf(state), null, 2)).then(() => done("JSON copied.")));
byId("certificate").addEventListener("click", certificate);
addEventListener("hashchange", follow);
startUpload(chosen);
startJobs();
startTheme();
follow();
