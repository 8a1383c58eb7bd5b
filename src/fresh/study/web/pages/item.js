// One text a page: keys that answer, and the time that somebody spends reading.
const form = document.getElementById("answer");
const fieldsets = [...form.querySelectorAll("fieldset")];
const radios = (fieldset) => [...fieldset.querySelectorAll("input")];
const chosen = (fieldset) => radios(fieldset).find((radio) => radio.checked);

// The question that a digit answers: the focused one, otherwise the first without an answer.
function current() {
  return document.activeElement.closest("fieldset") ?? fieldsets.find((one) => !chosen(one)) ?? fieldsets.at(-1);
}

function mark() {
  const open = document.activeElement.closest("fieldset") ?? fieldsets.find((one) => !chosen(one));
  for (const fieldset of fieldsets) fieldset.classList.toggle("now", fieldset === open);
}

function choose(number) {
  const fieldset = current();
  const radio = radios(fieldset)[number - 1];
  if (!radio) return;
  radio.checked = true;
  const next = fieldsets[fieldsets.indexOf(fieldset) + 1];
  (next ? (chosen(next) ?? radios(next)[0]) : form.querySelector("button")).focus();
}

function back() {
  const at = document.activeElement.closest("fieldset");
  const before = fieldsets[(at ? fieldsets.indexOf(at) : fieldsets.length) - 1] ?? fieldsets[0];
  (chosen(before) ?? radios(before)[0]).focus();
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (/^[1-9]$/.test(event.key)) choose(Number(event.key));
  else if (event.key === "Backspace") back();
  else if (event.key === "Enter" && document.activeElement === document.body) form.requestSubmit();
  else return;
  event.preventDefault();
});
form.addEventListener("change", mark);
document.addEventListener("focusin", mark);
document.addEventListener("focusout", () => queueMicrotask(mark));

// Time counts while the page is visible and focused, and somebody did something within the last two minutes.
const IDLE = 120_000;
const TICK = 250;
const storageKey = `time-${form.dataset.ticket}`;
let spent = Number(sessionStorage.getItem(storageKey) ?? 0);
let last = performance.now();
let active = last;

function tick() {
  const now = performance.now();
  const here = document.visibilityState === "visible" && document.hasFocus() && now - active < IDLE;
  if (here) spent += Math.min(now - last, 4 * TICK);
  last = now;
  sessionStorage.setItem(storageKey, Math.round(spent));
}

for (const kind of ["keydown", "pointermove", "pointerdown", "scroll", "touchstart", "focus"]) {
  addEventListener(kind, () => (active = performance.now()), { passive: true });
}
setInterval(tick, TICK);
addEventListener("pagehide", tick);

let sent = false;
form.addEventListener("submit", (event) => {
  if (sent) return event.preventDefault();
  sent = true;
  tick();
  form.elements.milliseconds.value = Math.round(spent);
});
addEventListener("pageshow", () => (sent = false));
form.querySelector(".keys-help").hidden = false;
mark();
