// Documents as they lie in the page. Places count as strings count here: in UTF-16 units.
const { labels: LABELS, documents: PACKED } = JSON.parse(byId("data").textContent);
const DOCUMENTS = PACKED.map(unpack);

function byId(id) {
  return document.getElementById(id);
}

function unpack(packed, place) {
  const sure = packed.probabilities.find(([label]) => label === packed.label)[1];
  const read = packed.kept.reduce((count, run) => count + run.length / 2, 0);
  const outcome = packed.gold === packed.label ? "right" : "wrong";
  return { ...packed, place, sure, read, outcome, name: packed.id || `document ${place + 1}` };
}

// Stretches of text with the places of their words: [{ start, end, words: [[start, end], ...] }, ...].
function keptRuns(one) {
  let at = 0;
  return one.kept.map((run) => {
    const words = [];
    for (let i = 0; i < run.length; i += 2) {
      words.push([at + run[i], at + run[i] + run[i + 1]]);
      at = words.at(-1)[1];
    }
    return { start: words[0][0], end: at, words };
  });
}

function humanRuns(one) {
  const packed = one.human ?? [];
  const runs = [];
  let at = 0;
  for (let i = 0; i < packed.length; i += 2) {
    runs.push({ start: at + packed[i], end: at + packed[i] + packed[i + 1] });
    at = runs.at(-1).end;
  }
  return runs;
}

// What the predictor read: its words in reading order, with single spaces.
function onlyRead(one) {
  const words = keptRuns(one).flatMap((run) => run.words);
  return words.map(([start, end]) => one.text.slice(start, end)).join(" ");
}

// What is searched for: in upper or lower case, with any white space between its words; null for nothing.
function pattern(sought) {
  const words = sought.trim().split(/\s+/).map((word) => word.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return words[0] ? new RegExp(words.join("\\s+"), "giu") : null;
}

function percent(share) {
  return `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)} %`;
}
