// The console tab of a child: a form for the verbs that the child defines.

import { consoleUrl, post } from "./api.js";
import { commandLines, confirmAction } from "./actions.js";
import { el, setText, table } from "./dom.js";
import { count, words } from "./format.js";

/** Verbs that change nothing. Other verbs open the confirmation dialog. */
const READ_ONLY = new Set(["status", "stats", "ls", "peek", "get", "find-first", "find-all", "dead-letters", "help"]);

/** Formats a response: a list of objects or an object with plain values as a table, else as JSON. */
export function answerView(answer) {
  const plain = (value) => value === null || typeof value !== "object";
  const shown = (value) => (typeof value === "number" ? count(value) : plain(value) ? String(value ?? "–") : JSON.stringify(value));
  if (Array.isArray(answer) && answer.length && answer.every((one) => one && !plain(one))) {
    const keys = [...new Set(answer.flatMap(Object.keys))];
    return table("Answer", keys.map(words), answer.map((one) => keys.map((key) => shown(one[key]))));
  }
  if (answer && !Array.isArray(answer) && typeof answer === "object" && Object.values(answer).every(plain)) {
    return el("dl", { class: "pairs" }, Object.entries(answer).flatMap(([key, value]) => [el("dt", { text: words(key) }), el("dd", { text: shown(value) })]));
  }
  return el("pre", { class: "reason", text: JSON.stringify(answer, null, 2) });
}

export function consolePanel(child) {
  const path = child.path;
  const verb = el("input", { id: "console-verb", required: true, placeholder: "status", autocomplete: "off", spellcheck: "false" });
  const args = el("textarea", { id: "console-args", rows: "2", spellcheck: "false", value: "{}" });
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const answer = el("div", { role: "status" });
  const lines = el("div");

  async function send(name, given) {
    problem.hidden = true;
    try {
      answer.replaceChildren(answerView(await post(consoleUrl(path, name), given)));
    } catch (error) {
      problem.hidden = false;
      setText(problem, error.message);
    }
    lines.replaceChildren(commandLines({ path, verb: name, body: given, console: true }));
  }

  function submit(event) {
    event.preventDefault();
    let given;
    try {
      given = JSON.parse(args.value || "{}");
    } catch (error) {
      problem.hidden = false;
      setText(problem, `The arguments are not JSON: ${error.message}`);
      return;
    }
    const name = verb.value.trim();
    if (READ_ONLY.has(name)) send(name, given);
    else confirmAction({ path, verb: name, body: given, console: true, done: (got) => answer.replaceChildren(answerView(got)) });
  }

  const list = el("button", { type: "button", text: "List verbs", on: { click: () => send("help", {}) } });
  return {
    node: el("form", { class: "console", on: { submit } },
      el("label", { for: "console-verb", text: "Verb" }), verb,
      el("label", { for: "console-args", text: "Arguments, JSON" }), args,
      el("p", { class: "buttons" }, el("button", { class: "main", text: "Send" }), list),
      el("p", { class: "quiet", text: "Requests that change something are recorded in the audit log." }),
      problem, answer, lines),
    update() {},
  };
}
