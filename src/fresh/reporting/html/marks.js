// A document drawn with what was read in it. Only text nodes are made of texts, so none of them can be more.
function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

// All parts of a stretch in order, and whether a run covers them.
function* stretches(runs, start, end) {
  let at = start;
  for (const run of runs) {
    if (run.end <= start) continue;
    if (run.start >= end) break;
    if (at < run.start) yield [at, run.start, false];
    yield [Math.max(at, run.start), Math.min(run.end, end), true];
    at = Math.min(run.end, end);
  }
  if (at < end) yield [at, end, false];
}

function marked(one) {
  const human = humanRuns(one);
  const whole = document.createDocumentFragment();
  for (const [start, end, read] of stretches(keptRuns(one), 0, one.text.length)) {
    const parent = read ? element("mark") : whole;
    for (const [from, to, byPeople] of stretches(human, start, end)) {
      const text = one.text.slice(from, to);
      parent.append(byPeople ? element("u", "", text) : text);
    }
    if (read) whole.append(parent);
  }
  return whole;
}

function bars(one) {
  const likeliest = [...one.probabilities].sort((a, b) => b[1] - a[1]);
  const rows = likeliest.slice(0, 6).flatMap(([label, share]) => [
    element("span", "", element("bdi", "", LABELS[label])),
    bar(share),
    element("span", "", percent(share)),
  ]);
  const more = likeliest.length - 6;
  if (more > 0) rows.push(element("span", "more", `and ${more} more label${more === 1 ? "" : "s"}`));
  return rows;
}

function bar(share) {
  const svg = (name) => document.createElementNS("http://www.w3.org/2000/svg", name);
  const [drawing, filled] = [svg("svg"), svg("rect")];
  drawing.setAttribute("aria-hidden", "true");
  filled.setAttribute("width", `${100 * share}%`);
  filled.setAttribute("height", "100%");
  drawing.append(filled);
  return drawing;
}

// Words that were searched for, colored where the browser can do so without touching the text.
function colorFound(parent, sought) {
  if (!("highlights" in CSS)) return;
  CSS.highlights.delete("found");
  if (!sought) return;
  const nodes = [];
  let length = 0;
  const walk = document.createTreeWalker(parent, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    nodes.push({ node, start: length });
    length += node.data.length;
  }
  const place = (at) => {
    const { node, start } = nodes.findLast((each) => each.start <= at);
    return [node, at - start];
  };
  const found = new Highlight();
  for (const match of parent.textContent.matchAll(sought)) {
    const range = new Range();
    range.setStart(...place(match.index));
    range.setEnd(...place(match.index + match[0].length));
    found.add(range);
  }
  CSS.highlights.set("found", found);
}
