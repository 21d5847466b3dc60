// The page of one item, a job, a row or a mapping: where it is, what it waits for, and when it is worked on. `#/item/NAME`.

import { commandLine } from "./actions.js";
import { whyItem } from "./api.js";
import { causeBanner } from "./causes.js";
import { el, setText } from "./dom.js";
import { clock, duration, local, moment, words } from "./format.js";
import { state } from "./live.js";
import { link } from "./router.js";

/** Time between two questions. */
const AGAIN_MS = 2000;

/** Returns when an item is worked on, in words; "" if nothing is to come. */
function chance(next) {
  if (next?.kind === "at") return `Next chance: about ${moment(next.at_ms)}`;
  if (next?.kind === "not_before") return `Next chance: not before ${moment(next.at_ms)}`;
  return next?.kind === "unknown" ? `Next chance: unknown, ${local(next.reason)}` : "";
}

function banner(causes) {
  const { node, update } = causeBanner();
  update(causes);
  return node;
}

/** Returns what an item waits for on healthy days, too. */
function routine(cause) {
  return [el("p", { text: local(cause.text) }), ...cause.evidence.map(fact), commandLine("Do", cause.help, words(cause.kind))];
}

function fact(text) {
  return el("li", { text: local(text) });
}

function parts(item) {
  const since = item.since_ms ? `Since ${moment(item.since_ms)}, for ${duration(state.tree.captured_at_ms - item.since_ms)}` : "";
  const job = item.kind === "job" ? el("p", {}, el("a", { href: link("queue", `job/${item.name.replace(/^queue\//, "")}`), text: "All rows and attempts of this job" })) : null;
  const lines = [since, chance(item.next)].filter((line) => line !== "");
  return [
    el("h2", { text: `${words(item.kind)} ${item.name}` }),
    el("p", { class: "item-state", text: local(item.text) }),
    ...lines.map((line) => el("p", { class: "quiet", text: line })),
    banner(item.causes.filter((cause) => !cause.routine)),
    ...item.causes.filter((cause) => cause.routine).flatMap(routine),
    item.evidence.length === 0 ? null : el("ul", { class: "facts" }, item.evidence.map(fact)),
    job,
  ];
}

/** Returns what was asked about an item that is unknown, or known elsewhere. */
function asked(answer) {
  const names = answer.nearest.map((name) => el("li", {}, el("a", { href: link("item", name), text: name })));
  return [
    answer.found.length > 0 ? null : el("p", { class: "item-state", text: `${answer.asked.some((one) => one.no_answer !== null) ? "No answer about" : "Nothing is known of"} ${answer.item}.` }),
    names.length === 0 ? null : el("p", { text: "Did you mean one of these?" }),
    names.length === 0 ? null : el("ul", {}, names),
    ...answer.asked.flatMap((one) => {
      const name = one.path.split("/").slice(1).join("/");
      const text = one.no_answer === null ? `${name} searched ${one.searched}` : `${name} gave no answer: ${one.no_answer}`;
      return [el("p", { class: one.no_answer === null ? "quiet" : "problem", text }), banner(one.causes)];
    }),
  ];
}

/** Creates the page of the item of this name. */
export function itemPage(name) {
  const at = el("span", { class: "quiet" });
  const body = el("div", { class: "view" }, el("p", { class: "quiet", text: "Asking all subsystems…" }));
  const node = el("section", { class: "subsystem item-page", "aria-label": "Item" },
    el("div", { class: "tools" }, el("h1", { text: name }), at), body);
  let last = -Infinity;
  let shown = "";

  async function ask() {
    try {
      const answer = await whyItem(name);
      // Kept while nothing changes, so that a selection or the focus is.
      const key = JSON.stringify({ ...answer, at_ms: 0 });
      if (key !== shown) body.replaceChildren(...[...answer.found.flatMap(parts), ...asked(answer)].filter((part) => part !== null));
      shown = key;
    } catch (error) {
      shown = "";
      body.replaceChildren(el("p", { class: "problem", text: error.message }));
    }
    setText(at, `at ${clock(Date.now())}`);
  }

  return {
    node,
    update() {
      if (document.hidden || performance.now() - last < AGAIN_MS || state.status !== "live") return;
      last = performance.now();
      ask();
    },
  };
}

/** Makes a search field open the page of the item that it names. */
export function searchField(form) {
  const field = form.querySelector("input");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const name = field.value.trim();
    if (name === "") return;
    location.hash = link("item", name);
    field.value = "";
    field.blur();
  });
}
