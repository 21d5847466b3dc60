// What holds up work: the banner at the top of a page, and a quiet line for what happens on healthy days, too.

import { commandLine, confirmAction } from "./actions.js";
import { why } from "./api.js";
import { el, keyed, setText } from "./dom.js";
import { duration, local, moment, words } from "./format.js";
import { canCommand, state } from "./live.js";
import { link } from "./router.js";
import { liveGlyph, stateOf } from "./states.js";

const WHY_MS = 2000;
/** Number of causes that the banner shows. */
const SHOWN = 6;

/** Asks every few seconds what holds up work in the branch `path`, or in the whole tree if it is empty. */
export function causesOf(path) {
  let last = -Infinity;
  let branches = [];
  return {
    tick() {
      if (document.hidden || performance.now() - last < WHY_MS || state.status !== "live") return;
      last = performance.now();
      why(path).then((answer) => {
        branches = answer.subsystems;
      }, () => {
        branches = [];
      });
    },
    /** Causes that stop work, without the routine ones. */
    severe: () => branches.flatMap((branch) => branch.causes).filter((cause) => !cause.routine),
    /** Returns what a branch does, in a sentence, or "" if the banner says more about it. */
    quiet(of) {
      const { causes: [cause], activity } = branches.find((branch) => branch.path === of) ?? { causes: [{}] };
      if (!cause) return activity ? `Nothing holds up work: ${activity}` : "Nothing holds up work";
      return cause.routine ? local(`${named(cause.path)}: ${cause.text}. Do: ${cause.help}`) : "";
    },
  };
}

function named(path) {
  return path.split("/").slice(1).join("/") || path;
}

/** Asks for confirmation, and ends a pause: that of a child, or that of what its console pauses. */
function resume(path) {
  confirmAction({ path, verb: "resume", console: state.nodes.get(path)?.state !== "paused" });
}

function row(first) {
  const { path } = first;
  const sign = liveGlyph();
  const [what, text, facts] = [el("span", { class: "word" }), el("span"), el("p", { class: "hold-facts" })];
  const button = el("button", { "data-verb": "resume", text: "Resume", "aria-label": `Resume ${named(path)}`, on: { click: () => resume(path) } });
  const help = el("div", { class: "hold-help" });
  let shown = null;
  return {
    node: el("li", {}, el("p", {}, sign.node, " ", what, " ", el("a", { href: link("tree", path), text: named(path) }), ": ", text), facts, help),
    update(cause) {
      // A cause may be newer than the tree.
      const node = state.nodes.get(path);
      const word = cause.kind === "paused" ? "paused" : node ? stateOf(node) : "blocked";
      sign.update(word === "running" ? "blocked" : word);
      setText(what, words(word === "running" ? "blocked" : word));
      setText(text, local(cause.text));
      const evidence = cause.evidence.map(local);
      const begun = moment(cause.since_ms);
      const since = evidence.some((fact) => fact.includes(begun)) ? "" : `since ${begun}, `;
      const age = cause.since_ms ? [`${since}for ${duration(state.tree.captured_at_ms - cause.since_ms)}`] : [];
      const others = cause.affects?.length ? [cause.affects.length === 1 ? "1 other child waits" : `${cause.affects.length} other children wait`] : [];
      setText(facts, [...evidence, ...age, ...others].join(" · "));
      const key = `${cause.help} ${cause.kind} ${canCommand()}`;
      if (key === shown) return;
      shown = key;
      help.replaceChildren(commandLine("Do", cause.help, named(path)), ...(cause.kind === "paused" && canCommand() ? [button] : []));
    },
  };
}

/** Creates the banner. `update` shows causes: who, why, since, until, and the command that helps. */
export function causeBanner() {
  const list = el("ul");
  const more = el("p", { class: "quiet", hidden: true });
  const node = el("section", { class: "hold", "aria-label": "What holds up work", hidden: true }, list, more);
  const known = new Map();
  return {
    node,
    update(causes) {
      node.hidden = causes.length === 0;
      more.hidden = causes.length <= SHOWN;
      setText(more, `and ${causes.length - SHOWN} more`);
      keyed(list, known, causes.slice(0, SHOWN), (cause) => `${cause.kind} ${cause.path}`, row);
    },
  };
}
