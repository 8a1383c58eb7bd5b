// Draws the probability of the answer for growing rationales, with a mark at the slider.
import { percent, svg } from "./api.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [560, 190, 44, 548, 12, 150];

export function drawCurve(parent, points, label, counts, at) {
  const x = (place) => (points.length === 1 ? (LEFT + RIGHT) / 2 : LEFT + ((RIGHT - LEFT) * place) / (points.length - 1));
  const y = (share) => BOTTOM - (BOTTOM - TOP) * share;
  const share = (point) => point.probabilities[label];
  const parts = [];
  for (const tick of [0, 0.5, 1]) {
    parts.push(svg("line", { class: "grid", x1: LEFT, x2: RIGHT, y1: y(tick), y2: y(tick) }));
    parts.push(svg("text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, String(tick)));
  }
  parts.push(svg("line", { class: "now", x1: x(at), x2: x(at), y1: TOP, y2: BOTTOM }));
  const path = points.map((point, place) => `${x(place).toFixed(1)},${y(share(point)).toFixed(1)}`).join(" ");
  parts.push(svg("polyline", { class: "curve", points: path }));
  points.forEach((point, place) => {
    const kind = place === at ? "dot here" : point.label === label ? "dot" : "dot other";
    parts.push(svg("circle", { class: kind, cx: x(place), cy: y(share(point)), r: place === at ? 6 : 4 }));
  });
  const ends = [0, points.length - 1].filter((place, number) => number === 0 || place > 0);
  for (const place of ends) {
    const anchor = points.length === 1 ? "middle" : place === 0 ? "start" : "end";
    const words = `${counts[place]} word${counts[place] === 1 ? "" : "s"}`;
    parts.push(svg("text", { x: x(place), y: BOTTOM + 22, "text-anchor": anchor }, words));
  }
  const message = `Probability of ${label} from ${percent(share(points[0]))} to ${percent(share(points.at(-1)))}`;
  const viewBox = `0 0 ${WIDTH} ${HEIGHT - 12}`;
  parent.replaceChildren(svg("svg", { class: "picture", viewBox, role: "img", "aria-label": message }, ...parts));
}
