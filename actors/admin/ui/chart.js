// Line charts of the last hour as SVG. Texts are HTML, so that they keep their proportions.

import { el, setAttr, setText, svg } from "./dom.js";
import { clock } from "./format.js";

const WIDTH = 600;
const HEIGHT = 100;

/** Returns the rates per second of a counter. A counter that decreases was reset to 0. */
export function perSecond(at, values) {
  return values.map((value, i) => {
    if (i === 0 || value === null || values[i - 1] === null) return null;
    const increase = value >= values[i - 1] ? value - values[i - 1] : value;
    return (increase * 1000) / Math.max(1, at[i] - at[i - 1]);
  });
}

/** Returns the sum of series with the same times; null where all values are null. */
export function total(many) {
  if (many.length === 0) return [];
  return many[0].map((_, i) => many.reduce((sum, values) => (values[i] === null ? sum : (sum ?? 0) + values[i]), null));
}

/** Returns the upper end of the scale, or 0 if all values are 0 or unknown. */
function top(values) {
  const most = values.reduce((max, value) => Math.max(max, value ?? 0), 0);
  if (most === 0) return 0;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((step) => step * power).find((bound) => bound >= most) ?? most;
}

function paths(at, values, from, until, max) {
  const x = (ms) => (((ms - from) / Math.max(1, until - from)) * WIDTH).toFixed(1);
  const y = (value) => (HEIGHT - (Math.max(0, value) / (max || 1)) * (HEIGHT - 4)).toFixed(1);
  let line = "";
  let area = "";
  let start = null;
  const end = (ms) => {
    if (start !== null) area += `L${x(ms)} ${HEIGHT}L${x(start)} ${HEIGHT}Z`;
    start = null;
  };
  values.forEach((value, i) => {
    if (value === null || value === undefined) return end(at[Math.max(0, i - 1)]);
    // A value alone is a dot.
    line += `${start === null ? "M" : "L"}${x(at[i])} ${y(value)}${start === null ? "h0" : ""}`;
    area += `${start === null ? "M" : "L"}${x(at[i])} ${y(value)}`;
    if (start === null) start = at[i];
  });
  end(at.at(-1));
  return { line, area };
}

/** Creates a picture of a series above a baseline at 0. `draw(data)` returns the upper end of its scale. */
export function plot(...more) {
  const area = svg("path", { class: "chart-area" });
  const line = svg("path", { class: "chart-line" });
  const base = svg("line", { class: "chart-base", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT });
  return {
    node: svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" }, more, base, area, line),
    draw(data) {
      const max = top(data.values);
      const drawn = data.at.length ? paths(data.at, data.values, data.from, data.until, max) : { line: "", area: "" };
      line.setAttribute("d", drawn.line);
      area.setAttribute("d", drawn.area);
      return max;
    },
  };
}

/** Returns the last known value of a series as text. */
export function latest(data, show) {
  const last = data?.values.findLast((value) => value !== null && value !== undefined);
  return last === undefined ? "–" : show(last);
}

/** Creates a chart. `show` formats a value, and `update({at, values, from, until})` draws the data. */
export function chart(title, show, options = {}) {
  const now = el("span", { class: "chart-now" });
  const [high, zero] = ["chart-top", "chart-zero"].map((name) => el("span", { class: name }));
  const left = el("span");
  const right = el("span");
  const cursor = svg("line", { class: "chart-cursor", y1: 0, y2: HEIGHT, visibility: "hidden" });
  const grid = [0.25, 0.5, 0.75].map((part) => svg("line", { class: "chart-grid", x1: 0, x2: WIDTH, y1: HEIGHT * part, y2: HEIGHT * part }));
  const { node: picture, draw } = plot(...grid, cursor);
  picture.setAttribute("role", "img");
  const node = el("figure", { class: `chart ${options.small ? "chart-small" : ""}` },
    el("figcaption", {}, el("span", { class: "chart-title", text: title }), now),
    el("div", { class: "chart-field" }, picture, high, zero),
    el("div", { class: "chart-times" }, left, right));
  let data = null;
  picture.addEventListener("pointermove", (event) => {
    if (!data || data.at.length === 0) return;
    const box = picture.getBoundingClientRect();
    const ms = data.from + ((event.clientX - box.left) / box.width) * (data.until - data.from);
    const i = nearest(data.at, ms);
    const value = data.values[i];
    const x = ((data.at[i] - data.from) / Math.max(1, data.until - data.from)) * WIDTH;
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.setAttribute("visibility", "visible");
    setText(now, `${clock(data.at[i])}  ${value === null ? "–" : show(value)}`);
  });
  picture.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    setText(now, latest(data, show));
  });
  return {
    node,
    update(next) {
      data = next;
      const max = draw(next);
      // What is idle or was not measured has no scale.
      setText(high, max ? show(max) : "");
      setText(zero, max ? "0" : "");
      setText(left, clock(next.from));
      setText(right, clock(next.until));
      setText(now, latest(next, show));
      setAttr(picture, "aria-label", `${title}, now ${now.textContent}${max ? `, scale up to ${show(max)}` : ""}`);
    },
  };
}

function nearest(at, ms) {
  let best = 0;
  at.forEach((time, i) => {
    if (Math.abs(time - ms) < Math.abs(at[best] - ms)) best = i;
  });
  return best;
}
