// One document at a time, and the way from one to the next.
let fitting = DOCUMENTS;
let sought = null;
let current = null;

const number = (count) => count.toLocaleString("en");
const link = (one) => `#document-${encodeURIComponent(one.name)}`;

function show(one) {
  if (current) ROWS[current.place].setAttribute("aria-selected", "false");
  current = one;
  const row = ROWS[one.place];
  row.setAttribute("aria-selected", "true");
  byId("list").setAttribute("aria-activedescendant", row.id);
  keepInSight(row);
  byId("detail-id").replaceChildren(element("bdi", "", one.name));
  byId("answer").replaceChildren(...answer(one));
  byId("bars").replaceChildren(...bars(one));
  byId("query").hidden = !one.query;
  byId("query").replaceChildren(element("b", "", "Asked: "), element("bdi", "", one.query ?? ""));
  const at = fitting.indexOf(one);
  byId("before").disabled = at <= 0;
  byId("after").disabled = at < 0 || at === fitting.length - 1;
  drawText();
}

function answer(one) {
  const label = (place) => element("bdi", "", LABELS[place]);
  const sign = one.outcome === "right" ? "✓ right" : "✗ wrong";
  const words = one.words === 1 ? "word" : "words";
  const share = one.words ? ` (${percent(one.read / one.words)})` : "";
  return [
    element("span", "", "predicted ", element("b", "", label(one.label))),
    element("span", "", "gold ", element("b", "", label(one.gold))),
    element("span", one.outcome, sign),
    element("span", "muted", `${number(one.read)} of ${number(one.words)} ${words} read${share}`),
  ];
}

function drawText() {
  const only = byId("only").checked;
  const text = byId("text");
  text.classList.toggle("only", only);
  byId("legend").hidden = only;
  byId("only-note").hidden = !only;
  byId("human-legend").hidden = !current.human;
  text.replaceChildren(only ? onlyRead(current) : marked(current));
  if (only && !current.read) text.replaceChildren(element("i", "", "No word was read."));
  colorFound(text, sought);
}

function keepInSight(row) {
  const list = byId("list");
  if (!row.isConnected) return;
  const [box, at] = [list.getBoundingClientRect(), row.getBoundingClientRect()];
  if (at.top < box.top) list.scrollTop -= box.top - at.top + 6;
  if (at.bottom > box.bottom) list.scrollTop += at.bottom - box.bottom + 6;
}

// Move through what the filters leave; the top of the document comes back into sight.
function step(by) {
  const at = fitting.indexOf(current);
  const next = fitting[Math.min(Math.max(at + by, 0), fitting.length - 1)];
  if (!next || next === current) return;
  open(next);
}

function open(one) {
  show(one);
  history.replaceState(null, "", link(one));
  const top = byId("detail").getBoundingClientRect().top;
  if (top < 0 || top > innerHeight * 0.8) byId("detail").scrollIntoView({ block: "start" });
}

function filter() {
  ({ fitting, sought } = fillList());
  const none = fitting.length === 0;
  document.querySelector(".panes").classList.toggle("empty", none);
  byId("none").hidden = !none;
  const all = number(DOCUMENTS.length);
  byId("count").textContent =
    fitting.length === DOCUMENTS.length
      ? `${all} document${DOCUMENTS.length === 1 ? "" : "s"}`
      : `${number(fitting.length)} of ${all} documents`;
  byId("clear").hidden = !filtersSet();
  if (!none) show(fitting.includes(current) ? current : fitting[0]);
}

function clearFilters() {
  for (const name of FILTERS) if (name !== "order") byId(name).value = "";
  filter();
}

// A link names a document; filters that hide it give way.
function follow() {
  if (!location.hash.startsWith("#document-")) return false;
  let name;
  try {
    name = decodeURIComponent(location.hash.slice("#document-".length));
  } catch {
    return false; // not written by this page
  }
  const one = DOCUMENTS.find((each) => each.name === name);
  if (!one) return false;
  if (!fitting.includes(one)) clearFilters();
  show(one);
  byId("detail").scrollIntoView({ block: "start" });
  return true;
}
