// One text: asked, shown, pruned and expanded, edited, passed on.
import { startBatch, takeDrops } from "./batch.js";
import { drawCurve } from "./curve.js";
import { startJobs } from "./jobs.js";
import { openTab, startLook } from "./look.js";
import { byId, copy, element, percent, post, Refused, svg, visible } from "./talk.js";
import { drawRead, drawWords, focusWord, keptOf, placesOf } from "./words.js";

const MOST_LABELS = 6; // that are shown

let state = null; // what is shown
let running = null; // the request under way

const chosen = () => byId("model").selectedOptions[0];

// place: where the slider shall stand; original: the text before edits.
async function explain({ place = null, original = null } = {}) {
  const [model, text] = [byId("model").value, byId("text").value];
  const query = chosen().dataset.asks ? byId("query").value : null;
  byId("result").classList.add("old");
  await during("Reading …", async (signal) => {
    const record = await json(post(model, "explain", { text, query, scores: true }, signal));
    const curve = chosen().dataset.lengths ? await json(post(model, "curve", { text, query }, signal)) : null;
    const places = placesOf(text, record.words);
    const kept = keptOf(places, record.rationale);
    state = { model, query, text, record, curve, places, kept, words: record.words, first: [...record.words], at: 0 };
    [state.chosenFrom, state.original] = [text, original ?? text];
    if (curve) prepareLengths(place);
    byId("change").hidden = true;
    byId("done").textContent = "";
    byId("result").hidden = false;
    show();
  });
}

const json = async (answer) => (await answer).json();

// One request at a time: a newer one ends the one before, and only what goes wrong with the newest is told.
async function during(what, work) {
  running?.abort();
  const mine = (running = new AbortController());
  byId("status").textContent = what;
  tell("");
  try {
    await work(mine.signal);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof Refused)) throw error;
    tell(error.message);
  } finally {
    if (running === mine) byId("status").textContent = "";
  }
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

async function slide() {
  state.place = Number(byId("length").value);
  state.kept = state.masks[state.place];
  byId("change").hidden = true;
  if (!isEdited()) {
    state.record = state.curve.points[state.place];
    show();
    return;
  }
  show();
  await during("Reading …", async (signal) => {
    state.record = await reread(signal);
    show();
  });
}

const reread = (signal) => {
  const { model, words, kept, query } = state;
  return json(post(model, "explain", { words, kept, query }, signal));
};

const isEdited = () => state.words.some((word, number) => word !== state.first[number]);

async function edit(number, word) {
  const [before, old, wasRead] = [state.record, state.words[number], state.kept[number]];
  const { start, end } = state.places[number];
  if (!byId("hold").checked) {
    const { original, place = null } = state;
    byId("text").value = state.text.slice(0, start) + word + state.text.slice(end);
    await explain({ place, original });
    return tellChange(`“${old}” became “${word}”, and the words were chosen anew: ${became(before, state.record)}.`);
  }
  state.text = state.text.slice(0, start) + word + state.text.slice(end);
  state.words = state.words.with(number, word);
  state.places = placesOf(state.text, state.words);
  state.at = number;
  await during("Reading …", async (signal) => {
    state.record = await reread(signal);
    show();
    focusWord(byId("document"), state, number);
    const read = wasRead ? "The model read this word" : "The model did not read this word, so it was given the same as before";
    tellChange(`“${old}” became “${word}”. ${read}: ${became(before, state.record)}.`, !wasRead);
  });
}

function became(before, after) {
  const [one, other] = [before, after].map(({ label, probability }) => `${label} ${percent(probability)}`);
  const same = Object.keys(after.probabilities).every(
    (label) => Math.abs(before.probabilities[label] - after.probabilities[label]) < 1e-5, // what other company may change
  );
  return same ? `nothing changed, it is still ${other}` : `${one} became ${other}`;
}

function tellChange(told, same = false) {
  byId("change").textContent = visible(told);
  byId("change").classList.toggle("same", same);
  byId("change").hidden = false;
}

function undo() {
  if (state.original !== state.chosenFrom) {
    byId("text").value = state.original;
    return explain({ place: state.place ?? null });
  }
  state.words = [...state.first];
  state.text = state.original;
  state.places = placesOf(state.text, state.words);
  byId("change").hidden = true;
  if (state.curve) return slide();
  return during("Reading …", async (signal) => {
    state.record = await reread(signal);
    show();
  });
}

function show() {
  const { record, kept, query } = state;
  const n_read = count(kept);
  byId("answer").replaceChildren(element("bdi", "", visible(record.label)), ` ${percent(record.probability)}`);
  const whose = byId("model").options.length > 1 ? `, by ${state.model}` : "";
  byId("share").textContent = `from ${n_read} of ${kept.length} words (${percent(n_read / kept.length)})${whose}`;
  byId("result").classList.remove("old");
  byId("bars").replaceChildren(...bars(record.probabilities));
  byId("asked").hidden = !query;
  byId("asked").textContent = query ? `Asked: ${visible(query)}` : "";
  byId("undo").hidden = !isEdited() && state.original === state.chosenFrom;
  byId("lengths").hidden = !state.curve;
  if (state.curve) showLengths();
  const only = byId("only").checked;
  byId("document").classList.toggle("only", only);
  byId("edit-hint").hidden = only;
  (only ? drawRead : drawWords)(byId("document"), state, edit);
}

function showLengths() {
  const { curve, counts, place } = state;
  const label = curve.points.at(-1).label;
  drawCurve(byId("curve"), curve.points, label, counts, place);
  byId("length").setAttribute("aria-valuetext", `${counts[place]} words: ${state.record.label} ${percent(state.record.probability)}`);
  const enough = counts[curve.minimal];
  const stays = `From ${enough} word${enough === 1 ? "" : "s"} on the answer stays ${visible(label)}.`;
  byId("curve-says").textContent = `Probability of ${visible(label)}. ${stays}${isEdited() ? " The curve is that of the text before your edits." : ""}`;
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

// What is passed on stands behind the # of the address, which browsers never send.
function link() {
  const parts = new URLSearchParams({ model: state.model, text: state.text });
  if (state.query) parts.set("query", state.query);
  if (state.curve) parts.set("length", state.place);
  return `${location.origin}${location.pathname}#${parts}`;
}

async function certificate() {
  await during("Certifying …", async (signal) => {
    const { model, words, kept, query } = state;
    const answer = await post(model, "certificate", { words, kept, query }, signal);
    const place = URL.createObjectURL(await answer.blob());
    const anchor = element("a");
    [anchor.href, anchor.download] = [place, "certificate.jsonl"];
    anchor.click();
    URL.revokeObjectURL(place);
    done("Downloaded. Check it with: fresh verify certificate.jsonl MODEL");
  });
}

const done = (told) => (byId("done").textContent = told);

function fitModel() {
  byId("query-box").hidden = !chosen().dataset.asks;
  byId("column-query-box").hidden = !chosen().dataset.asks;
  byId("ratio-box").hidden = !chosen().dataset.lengths;
  byId("ratio-range").textContent = chosen().dataset.lengths;
  const labels = JSON.parse(chosen().dataset.labels).map(visible);
  const more = labels.length > MOST_LABELS ? `, and ${labels.length - MOST_LABELS} more` : "";
  byId("answers").textContent = `Possible answers: ${labels.slice(0, MOST_LABELS).join(", ")}${more}`;
}

function follow() {
  const given = new URLSearchParams(location.hash.slice(1));
  const names = [...byId("model").options].map((option) => option.value);
  if (names.includes(given.get("model"))) byId("model").value = given.get("model");
  fitModel();
  openTab(byId(given.get("tab") === "file" ? "tab-batch" : "tab-text"));
  if (!given.get("text")) return;
  byId("text").value = given.get("text");
  byId("query").value = given.get("query") ?? "";
  explain({ place: /^\d{1,4}$/.test(given.get("length") ?? "") ? Number(given.get("length")) : null });
}

// Explain the text of a file, if it is text and not too long; nothing of it is lost without a word.
async function takeFile(file) {
  const most = byId("text").maxLength;
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    text = "\0";
  }
  if (text.includes("\0")) return tell(`${file.name} is not text in UTF-8. Save it as that, or paste the text.`);
  if (text.length > most) {
    return tell(`${file.name} has ${text.length.toLocaleString("en")} characters; ${most.toLocaleString("en")} can be read at once. Take a part of it.`);
  }
  byId("text").value = text;
  explain();
}

function start() {
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    explain();
  });
  byId("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) explain();
  });
  takeDrops(byId("text"), takeFile);
  byId("model").addEventListener("change", () => {
    fitModel();
    if (state && !byId("panel-text").hidden) explain();
  });
  byId("length").addEventListener("input", slide);
  byId("only").addEventListener("change", show);
  byId("undo").addEventListener("click", undo);
  byId("copy-link").addEventListener("click", () => copy(link()).then(() => done("Link copied; the text stands in it.")));
  byId("copy-json").addEventListener("click", () => copy(JSON.stringify(state.record, null, 2)).then(() => done("JSON copied.")));
  byId("certificate").addEventListener("click", certificate);
  addEventListener("hashchange", follow);
  startBatch(chosen);
  startJobs();
  startLook();
  follow();
}

start();
