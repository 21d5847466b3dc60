// Parts of the views of a subsystem. A view has `node` and `update(branch, now, options)`, which returns true if there is something to show.

import { confirmAction } from "./actions.js";
import { consoleUrl, post } from "./api.js";
import { answerView, timesOf, verbsOf } from "./console_panel.js";
import { el, setText, svg } from "./dom.js";
import { clock } from "./format.js";

/** Returns a node and its descendants. */
export function all(branch) {
  return [branch, ...branch.children.flatMap(all)];
}

/** Returns the value of a metric without a label, or null. */
export function metric(node, name) {
  return node.metrics.find((one) => one.name === name && !one.label)?.value ?? null;
}

/** Returns the sum of a metric over a branch, or null if no child has it. */
export function sum(branch, name) {
  const found = all(branch).flatMap((node) => node.metrics.filter((one) => one.name === name));
  return found.length === 0 ? null : found.reduce((total, one) => total + one.value, 0);
}

/** Returns the head of a column of long texts. */
export const wide = (name) => ({ name, wide: true });

/** Returns the head of a column of numbers. */
export const number = (name) => ({ name, number: true });

/** Creates a section whose content is rebuilt when its key changes. */
export function section(title) {
  const body = el("div");
  const node = el("section", { class: "view", "aria-label": title }, el("h2", { text: title }), body);
  let key = "";
  return {
    node,
    draw(next, make) {
      if (next !== key) body.replaceChildren(...make());
      key = next;
    },
  };
}

/** Creates a view of two, the second below the first, shown if there is something to show in the first. */
export function pair(first, second) {
  const node = el("div", {}, first.node, second.node);
  return {
    ...first,
    node,
    update(...given) {
      second.node.hidden = !second.update(...given);
      return first.update(...given);
    },
  };
}

/** Creates a progress bar. */
export function progressBar(part, whole) {
  const wide = whole > 0 ? Math.min(100, (100 * part) / whole) : 0;
  return svg("svg", { class: "progress", viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": `${Math.floor(wide)} percent` },
    svg("rect", { class: "progress-back", width: 100, height: 6 }), svg("rect", { class: "progress-done", width: wide, height: 6 }));
}

/** Creates a pace of reads that no user asks for: together they take a hundredth of the time at most, so that many pages are no load. */
export function pace() {
  let next = 0;
  return {
    isDue: () => performance.now() >= next,
    /** Reads, and waits the longer for the next time the longer this takes. */
    async read(work) {
      const began = performance.now();
      try {
        return await work();
      } finally {
        next = performance.now() + 100 * (performance.now() - began);
      }
    },
  };
}

/**
 * Creates a section with the answer of each console in the branch to a verb that changes nothing. It is asked for when the page is
 * opened, by a button, and when `changed(branch)` returns another value. `make(answer, node)` returns the content; `when(branch)` hides
 * the section.
 */
export function answered(title, verb, make, { args = {}, when = () => true, changed = () => "" } = {}) {
  const at = el("span", { class: "quiet" });
  const body = el("div", { role: "status" });
  const reads = pace();
  let [paths, shown] = ["", ""];
  let found = [];
  const ask = async () => {
    const parts = await Promise.all(found.map(async (node) => {
      const head = found.length > 1 ? el("h3", { text: node.path.split("/").slice(2, -1).join("/") }) : null;
      try {
        return [head, make(await reads.read(() => post(consoleUrl(node.path, verb), args)), node)];
      } catch (error) {
        return [head, el("p", { class: "problem", text: error.message })];
      }
    }));
    body.replaceChildren(...parts.flat(2).filter(Boolean));
    setText(at, `at ${clock(Date.now())}`);
  };
  const button = el("button", { text: "Refresh", "aria-label": `Refresh ${title}`, on: { click: ask } });
  const node = el("section", { class: "view", "aria-label": title }, el("div", { class: "view-head" }, el("h2", { text: title }), at, button), body);
  return {
    node,
    update(branch) {
      found = when(branch) ? all(branch).filter((one) => one.console) : [];
      const next = found.map((one) => one.path).join();
      const state = `${next} ${changed(branch)}`;
      // A row that has the focus stays.
      const isDue = next !== paths || (state !== shown && reads.isDue() && !body.contains(document.activeElement));
      if (next === "" || !isDue) return found.length > 0;
      [paths, shown] = [next, state];
      ask();
      return true;
    },
  };
}

/** Creates buttons for requests to the subsystem's consoles. */
export function consoles(verbs) {
  const buttons = el("p", { class: "buttons" });
  const answer = el("div", { role: "status" });
  const node = el("section", { class: "view", "aria-label": "Console" }, el("div", { class: "view-head" }, el("h2", { text: "Console" }), buttons), answer);
  let key = "";
  const send = async (path, verb, args) => {
    try {
      const declared = (await verbsOf(path)).get(verb);
      answer.replaceChildren(answerView(await post(consoleUrl(path, verb), args), timesOf(declared)));
    } catch (error) {
      answer.replaceChildren(el("p", { class: "problem", text: error.message }));
    }
  };
  const change = (path, verb) => confirmAction({ path, verb, console: true, done: (got) => answer.replaceChildren(answerView(got)) });
  return {
    node,
    update(branch, now, { commands }) {
      const found = all(branch).filter((one) => one.console);
      const next = `${commands} ${found.map((one) => one.path).join()}`;
      if (next !== key) {
        buttons.replaceChildren(...found.flatMap((one) => [
          found.length > 1 ? el("span", { class: "quiet", text: one.path.split("/").slice(2, -1).join("/") }) : "",
          ...verbs.map(([verb, args]) => el("button", { text: verb, on: { click: () => send(one.path, verb, args) } })),
          ...(commands ? ["pause", "resume"] : []).map((verb) => el("button", { "data-verb": verb, text: `${verb} …`, on: { click: () => change(one.path, verb) } })),
        ]));
      }
      key = next;
      return found.length > 0;
    },
  };
}
