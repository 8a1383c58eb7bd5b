// The list of documents: what the filters leave, in the order asked for.
const FILTERS = ["search", "outcome", "gold", "predicted", "shortest", "longest", "order"];
const ORDERS = {
  "": (a, b) => a.place - b.place,
  unsure: (a, b) => a.sure - b.sure || a.place - b.place,
  long: (a, b) => b.words - a.words || a.place - b.place,
  short: (a, b) => a.words - b.words || a.place - b.place,
};
const ROWS = DOCUMENTS.map(listRow);

function listRow(one) {
  const sign = one.outcome === "right" ? "✓" : "✗";
  const row = element(
    "li",
    "",
    element("span", one.outcome, sign),
    element("span", "name", element("bdi", "", one.name)),
    element("span", "sure", element("bdi", "", LABELS[one.label]), ` ${percent(one.sure)}`),
    element("span", "snippet", element("bdi", "", snippet(one, null))),
  );
  row.id = `row-${one.place}`;
  row.setAttribute("role", "option");
  row.setAttribute("aria-selected", "false");
  row.firstChild.setAttribute("aria-label", one.outcome);
  row.firstChild.setAttribute("role", "img");
  row.dataset.place = one.place;
  return row;
}

function snippet(one, sought) {
  const at = sought ? one.text.search(sought) : 0;
  const from = at > 18 ? one.text.slice(0, at - 18).search(/\S*$/) : 0; // where a word begins
  return (from > 0 ? "… " : "") + one.text.slice(from, from + 110).replace(/\s+/g, " ").trim();
}

function wanted() {
  const value = Object.fromEntries(FILTERS.map((name) => [name, byId(name).value]));
  const sought = pattern(value.search);
  const [shortest, longest] = [Number(value.shortest || 0), Number(value.longest || Infinity)];
  const fits = (one) =>
    (!value.outcome || one.outcome === value.outcome) &&
    (!value.gold || one.gold === Number(value.gold)) &&
    (!value.predicted || one.label === Number(value.predicted)) &&
    one.words >= shortest &&
    one.words <= longest &&
    (!sought || one.text.search(sought) >= 0 || one.name.search(sought) >= 0);
  return { fits, sought, order: value.order };
}

function filtersSet() {
  return FILTERS.some((name) => name !== "order" && byId(name).value);
}

// Show the rows that fit, and return their documents in order.
function fillList() {
  const { fits, sought, order } = wanted();
  const fitting = DOCUMENTS.filter(fits).sort(ORDERS[order]);
  for (const one of fitting) {
    const text = snippet(one, sought);
    const line = ROWS[one.place].lastChild.firstChild;
    if (line.textContent !== text) line.textContent = text;
  }
  byId("list").replaceChildren(...fitting.map((one) => ROWS[one.place]));
  return { fitting, sought };
}

function fillChoices() {
  const choices = { gold: "gold", predicted: "label" };
  for (const [id, field] of Object.entries(choices)) {
    const there = new Set(DOCUMENTS.map((one) => one[field]));
    LABELS.forEach((label, place) => {
      if (there.has(place)) byId(id).append(new Option(label, place));
    });
  }
  const lengths = DOCUMENTS.map((one) => one.words);
  byId("shortest").placeholder = lengths.reduce((a, b) => Math.min(a, b));
  byId("longest").placeholder = lengths.reduce((a, b) => Math.max(a, b));
}
