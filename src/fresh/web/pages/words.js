// Shows a text as words that can be edited. Texts become text nodes only, never markup.
import { element, visible } from "./api.js";

// Positions of the words: in code units, for slices of strings, and in code points, as the server counts.
export function placesOf(text, words) {
  const places = [];
  let at = 0;
  let points = 0;
  for (const word of words) {
    const start = text.indexOf(word, at);
    points += [...text.slice(at, start)].length;
    places.push({ start, end: start + word.length, point: points });
    at = start + word.length;
    points += [...word].length;
  }
  return places;
}

// The words that were read begin inside a span of the rationale.
export function keptOf(places, rationale) {
  let next = 0;
  return places.map(({ point }) => {
    while (next < rationale.length && rationale[next].end <= point) next++;
    return next < rationale.length && rationale[next].start <= point;
  });
}

export const isEdited = ({ words, first }) => words.some((word, number) => word !== first[number]);

// The state with one word replaced.
export function withWord(state, number, word) {
  const { start, end } = state.places[number];
  const text = state.text.slice(0, start) + word + state.text.slice(end);
  const words = state.words.with(number, word);
  return { ...state, text, words, places: placesOf(text, words), at: number };
}

// The spans of words that were read, as the server returns them.
export function spansOf({ text, places, words, kept }) {
  const runs = [];
  places.forEach(({ start, end, point }, number) => {
    if (!kept[number]) return;
    const till = point + [...words[number]].length;
    if (number > 0 && kept[number - 1]) Object.assign(runs.at(-1), { last: end, till });
    else runs.push({ first: start, last: end, point, till });
  });
  return runs.map(({ first, last, point, till }) => ({ start: point, end: till, text: text.slice(first, last) }));
}

const ONE = ["The predictor did not read this word, so its input is the same", "The predictor read this word"];
const SEVERAL = ["The predictor read none of these words, so its input is the same", "The predictor read some of these words"];

// Describe which words were changed, and whether the predictor read any of them.
export function changeOf(before, after) {
  const numbers = [...after.words.keys()].filter((number) => after.words[number] !== before.words[number]);
  const read = numbers.some((number) => after.kept[number]);
  const words = numbers.map((number) => `“${before.words[number]}” was changed to “${after.words[number]}”`).join(", ");
  return { read, text: `${words}. ${(numbers.length === 1 ? ONE : SEVERAL)[Number(read)]}` };
}

export function drawWords(parent, state, edit) {
  const { text, places, kept, words, first } = state;
  const whole = document.createDocumentFragment();
  let mark = null;
  let at = 0;
  places.forEach(({ start, end }, number) => {
    const joined = mark !== null && kept[number];
    if (!joined) mark = null;
    (mark ?? whole).append(visible(text.slice(at, start)));
    if (kept[number] && !mark) whole.append((mark = element("mark")));
    const word = element("span", words[number] === first[number] ? "word" : "word changed", visible(words[number]));
    word.dataset.number = number;
    word.tabIndex = number === state.at ? 0 : -1;
    word.setAttribute("role", "button");
    (mark ?? whole).append(word);
    at = end;
  });
  whole.append(visible(text.slice(at)));
  parent.replaceChildren(whole);
  parent.onclick = (event) => {
    const word = event.target.closest(".word");
    if (word) openWord(word, state, edit);
  };
  parent.onkeydown = (event) => onKey(event, parent, state, edit);
}

export function drawRead(parent, state) {
  const read = state.words.filter((_, number) => state.kept[number]);
  parent.replaceChildren(read.length ? visible(read.join(" ")) : element("span", "muted", "No words were read."));
  parent.onclick = parent.onkeydown = null;
}

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

function onKey(event, parent, state, edit) {
  const word = event.target.closest(".word");
  if (!word) return;
  const number = Number(word.dataset.number);
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    openWord(word, state, edit);
    return;
  }
  const last = state.words.length - 1;
  const to = { Home: 0, End: last }[event.key] ?? Math.min(last, Math.max(0, number + (STEPS[event.key] ?? 0)));
  if (!(event.key in STEPS || event.key === "Home" || event.key === "End")) return;
  event.preventDefault();
  focusWord(parent, state, to);
}

export function focusWord(parent, state, number) {
  state.at = number;
  for (const other of parent.querySelectorAll('.word[tabindex="0"]')) other.tabIndex = -1;
  const word = parent.querySelector(`.word[data-number="${number}"]`);
  if (!word) return;
  word.tabIndex = 0;
  word.focus();
}

function openWord(word, state, edit) {
  const number = Number(word.dataset.number);
  const field = element("input", "edit");
  field.value = state.words[number];
  field.size = Math.max(4, field.value.length);
  field.setAttribute("aria-label", `Replace ${state.words[number]}`);
  let over = false;
  const close = (value, byKey) => {
    if (over) return;
    over = true;
    const parent = field.closest("#document");
    field.replaceWith(word);
    if (byKey) focusWord(parent, state, number);
    edit(number, value?.trim());
  };
  field.onkeydown = (event) => {
    event.stopPropagation();
    if (event.key === "Enter") close(field.value, true);
    if (event.key === "Escape") close(null, true);
  };
  field.onblur = () => close(field.value, false);
  word.replaceWith(field);
  field.select();
}
