// Icons of states, which differ by colour and by shape.

import { el, setAttr, svg } from "./dom.js";
import { words } from "./format.js";

const SHAPES = {
  running: ["circle", { cx: 8, cy: 8, r: 5 }],
  paused: ["path", { d: "M4 3h3v10H4zM9 3h3v10H9z" }],
  starting: ["path", { d: "M8 2l6 6-6 6-6-6z" }],
  stopping: ["path", { d: "M2 5h12l-6 8z" }],
  stopped: ["path", { d: "M3 3h10v10H3zM5 5v6h6V5z", "fill-rule": "evenodd" }],
  blocked: ["path", { d: "M8 2l7 12H1zM7 6v4h2V6zM7 11v2h2v-2z", "fill-rule": "evenodd" }],
  backing_off: ["path", { d: "M8 2l7 12H1z" }],
  given_up: ["path", { d: "M3 3h10v10H3z" }],
  stuck: ["path", { d: "M3 5l2-2 3 3 3-3 2 2-3 3 3 3-2 2-3-3-3 3-2-2 3-3z" }],
};

/** Order of states from the worst to the best. */
export const ORDER = ["given_up", "stuck", "backing_off", "stopped", "stopping", "starting", "blocked", "paused", "running"];

/** Returns the state that the program shows for a child: also `paused` by a command of a subsystem, and `blocked`. */
export function stateOf(node) {
  return node.shown;
}

/** Returns true if the link of a child is not up, so that the child is not ready. An idle link needs no peer. */
export function hasNoPeer(node) {
  return Boolean(node.link) && !["up", "idle"].includes(node.link.state);
}

/** Creates the icon of a state. */
export function glyph(state) {
  const [tag, shape] = SHAPES[state] ?? SHAPES.stopped;
  return svg("svg", { class: `glyph state-${state}`, viewBox: "0 0 16 16", "aria-hidden": "true" }, svg(tag, shape));
}

/** Creates an icon whose `update(state)` changes it. */
export function liveGlyph() {
  const node = el("span", { class: "glyphs" });
  let shown = "";
  return {
    node,
    update(state) {
      if (state === shown) return;
      shown = state;
      node.replaceChildren(glyph(state));
    },
  };
}

/** Says how many of `children` are in each state, the worst first. */
function countsOf(children) {
  const counts = ORDER.map((state) => [state, children.filter((one) => stateOf(one) === state).length]);
  return counts.filter(([, many]) => many > 0).map(([state, many]) => `${many} ${words(state)}`).join(", ");
}

/** Says how many children of a branch are in each state. Supervisors and transient children that have ended do not count. */
export function summaryOf(branch) {
  const leaves = (node) => (node.children.length ? node.children.flatMap(leaves) : [node]);
  const counted = leaves(branch).filter((one) => one.restart === "permanent" || one.state !== "stopped");
  return counted.every((one) => stateOf(one) === "running") ? `All ${counted.length} children are running` : `Children: ${countsOf(counted)}`;
}

/** Creates a strip with one cell for each child. */
export function strip(children) {
  const cells = children.map((one, i) =>
    svg("rect", { class: `state-${stateOf(one)}`, x: (i % 40) * 6, y: Math.floor(i / 40) * 8, width: 5, height: 7 }));
  const wide = Math.min(40, children.length) * 6;
  const high = Math.ceil(children.length / 40) * 8;
  const node = svg("svg", { class: "strip", viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: "img" }, cells);
  setAttr(node, "aria-label", countsOf(children));
  return node;
}

/** Creates a badge with the state of a link. */
export function linkBadge(link) {
  const text = link.reason ? `${link.state}: ${link.reason}` : link.state;
  return el("span", { class: `link link-${link.state}`, title: `${link.kind} ${link.endpoint}: ${text}` }, `${link.kind} ${link.state}`);
}
