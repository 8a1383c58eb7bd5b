// Shares an answer: as a link, JSON, or a certificate.
import { element, post } from "./api.js";
import { isEdited, spansOf } from "./words.js";

// Everything is in the fragment of the URL, which browsers never send. Words that were edited while the selection was
// kept are listed one by one, so that the link selects the same words.
export function linkTo({ model, chosenFrom, query, curve, place, words, first }) {
  const parts = new URLSearchParams({ model, text: chosenFrom });
  if (query) parts.set("query", query);
  if (curve) parts.set("length", place);
  const edits = words.flatMap((word, number) => (word === first[number] ? [] : [[number, word]]));
  if (edits.length) parts.set("edits", JSON.stringify(edits));
  return `${location.origin}${location.pathname}#${parts}`;
}

// Read the link in the address; invalid parts are ignored.
export function readLink() {
  const given = new URLSearchParams(location.hash.slice(1));
  const length = given.get("length") ?? "";
  return {
    model: given.get("model"),
    tab: given.get("tab"),
    text: given.get("text"),
    query: given.get("query") ?? "",
    place: /^\d{1,4}$/.test(length) ? Number(length) : null,
    edits: editsIn(given.get("edits")),
  };
}

function editsIn(written) {
  try {
    return JSON.parse(written ?? "[]").filter(
      ([number, word]) => Number.isInteger(number) && number >= 0 && typeof word === "string" && word.trim(),
    );
  } catch {
    return [];
  }
}

// After a request by hand, the link in the address is out of date.
export function leaveLink() {
  const tab = new URLSearchParams(location.hash.slice(1)).get("tab");
  history.replaceState(null, "", tab ? `#tab=${tab}` : location.pathname);
}

// The record of `fresh explain`, with offsets in the text as it is on the page.
export function recordOf(state) {
  const { words: _words, scores: _scores, ...record } = state.record;
  return isEdited(state) ? { ...record, rationale: spansOf(state) } : record;
}

export async function saveCertificate({ model, words, kept, query }, signal) {
  const answer = await post(model, "certificate", { words, kept, query }, signal);
  const place = URL.createObjectURL(await answer.blob());
  const anchor = element("a");
  [anchor.href, anchor.download] = [place, "certificate.jsonl"];
  anchor.click();
  URL.revokeObjectURL(place);
}
