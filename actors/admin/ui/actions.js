// Commands: which a child takes now, asking for a reason, carrying them out, and the same as lines to copy.

import { commandUrl, consoleUrl, hasToken, post } from "./api.js";
import { el, setText } from "./dom.js";
import { refresh } from "./live.js";

const EFFECTS = {
  restart: "It ends and begins anew; its supervisor's strategy says what goes with it.",
  stop: "It ends and stays away until it is started.",
  start: "It begins again.",
  pause: "It takes nothing new until it is resumed.",
  resume: "It takes messages again.",
};

/** The verbs that make sense in this state. */
export function verbsFor(child) {
  if (child.state === "stopped") return ["start"];
  const pauses = child.pausable ? [child.state === "paused" ? "resume" : "pause"] : [];
  return [...pauses, "restart", "stop"];
}

function quoted(text) {
  return `'${String(text).replaceAll("'", "'\\''")}'`;
}

/** The command as lines for a shell: of the CLI, where it has one, and of curl. */
export function shellLines({ path, verb, body, console }) {
  const url = `${location.origin}${console ? consoleUrl(path, verb) : commandUrl(path, verb)}`;
  const token = hasToken() ? ' -H "Authorization: Bearer $TOKEN"' : "";
  const lines = [["curl", `curl -X POST${token} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))} ${quoted(url)}`]];
  if (!console) {
    const name = path.split("/").slice(1).join("/") || path;
    const why = body.reason ? ` --reason ${quoted(body.reason)}` : "";
    const plain = /^[\w/.-]+$/.test(name) ? name : quoted(name);
    lines.unshift(["CLI", `orchestrator ${verb} ${plain}${why}`]);
  }
  return lines;
}

/** The same as elements with buttons that copy. */
export function commandLines(command) {
  return el("div", { class: "lines" }, shellLines(command).map(([name, line]) => {
    const copy = el("button", { type: "button", text: "Copy", "aria-label": `Copy the ${name} command`, on: { click: async () => {
      await navigator.clipboard.writeText(line);
      setText(copy, "Copied");
    } } });
    return el("div", { class: "line" }, el("span", { class: "line-name", text: name }), el("code", { text: line }), copy);
  }));
}

/** Asks for a reason and carries a command out. `done` gets the answer. */
export function confirmAction({ path, verb, body = {}, console = false, done }) {
  const why = el("input", { id: "reason", maxlength: "500", autocomplete: "off", placeholder: "disk was full" });
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const lines = el("div");
  // Other verbs of consoles have arguments of their own and refuse what they do not know.
  const reasoned = !console || verb === "pause" || verb === "resume";
  const go = el("button", { class: "main", text: `${verb[0].toUpperCase()}${verb.slice(1)}` });
  const given = () => (why.value.trim() ? { ...body, reason: why.value.trim() } : body);
  const tell = () => lines.replaceChildren(commandLines({ path, verb, body: given(), console }));
  why.addEventListener("input", tell);
  tell();

  async function submit(event) {
    event.preventDefault();
    go.disabled = true;
    problem.hidden = true;
    try {
      const answer = await post(console ? consoleUrl(path, verb) : commandUrl(path, verb), given());
      dialog.close();
      done?.(answer);
    } catch (error) {
      problem.hidden = false;
      setText(problem, error.message);
    }
    go.disabled = false;
    refresh();
  }

  const dialog = el("dialog", { "aria-labelledby": "action-title", on: { close: () => dialog.remove() } },
    el("form", { on: { submit } },
      el("h2", { id: "action-title", text: `${verb} ${path}` }),
      EFFECTS[verb] && !console ? el("p", { class: "quiet", text: EFFECTS[verb] }) : null,
      reasoned ? [el("label", { for: "reason", text: "Reason, for the audit log" }), why] : null,
      problem,
      el("p", { class: "buttons" }, go, el("button", { type: "button", text: "Cancel", on: { click: () => dialog.close() } })),
      el("h3", { text: "The same in a shell" }), lines));
  document.getElementById("dialogs").append(dialog);
  dialog.showModal();
  (reasoned ? why : go).focus();
}

/** Buttons for what a child takes now. */
export function actionButtons(child) {
  return verbsFor(child).map((verb) =>
    el("button", { "data-verb": verb, text: verb, on: { click: () => confirmAction({ path: child.path, verb }) } }));
}
