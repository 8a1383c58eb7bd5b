// What is passed on of an answer: a link, the JSON, a certificate.
import { element, post } from "./talk.js";
import { isEdited, spansOf } from "./words.js";

// What is passed on stands behind the # of the address, which browsers never send. Words that were edited while the
// choice was held are told one by one, so that the same choice is made again.
export function linkTo({ model, chosenFrom, query, curve, place, words, first }) {
  const parts = new URLSearchParams({ model, text: chosenFrom });
  if (query) parts.set("query", query);
  if (curve) parts.set("length", place);
  const edits = words.flatMap((word, number) => (word === first[number] ? [] : [[number, word]]));
  if (edits.length) parts.set("edits", JSON.stringify(edits));
  return `${location.origin}${location.pathname}#${parts}`;
}

// What a link asks for; whatever in it cannot be is left out.
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

// What was asked by hand is not what the link in the address asks for.
export function leaveLink() {
  const tab = new URLSearchParams(location.hash.slice(1)).get("tab");
  history.replaceState(null, "", tab ? `#tab=${tab}` : location.pathname);
}

// As `fresh explain` writes it, with places in the text as it stands here.
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
