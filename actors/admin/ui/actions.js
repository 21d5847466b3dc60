// Commands to children: available verbs, the confirmation dialog, and equivalent shell commands.

import { commandUrl, consoleUrl, hasToken, post } from "./api.js";
import { el, setText } from "./dom.js";
import { refresh, state } from "./live.js";

const EFFECTS = {
  restart: "The child is stopped and started again. The supervisor's strategy decides which siblings restart with it.",
  stop: "The child is stopped until it is started again.",
  start: "The child is started.",
  pause: "The child takes in no new work until it is resumed.",
  resume: "The child takes in work again.",
};

/** Returns the verbs that are possible in the child's state. */
export function verbsFor(child) {
  if (child.state === "stopped") return ["start"];
  if (child.state === "given_up") return ["start", "stop"];
  const pauses = child.pausable ? [child.state === "paused" ? "resume" : "pause"] : [];
  return [...pauses, "restart", "stop"];
}

function quoted(text) {
  return `'${String(text).replaceAll("'", "'\\''")}'`;
}

/** Returns the command as shell lines for curl and, for commands to children, the CLI. */
export function shellLines({ path, verb, body, console }) {
  const url = `${location.origin}${console ? consoleUrl(path, verb) : commandUrl(path, verb)}`;
  const token = hasToken() ? ' -H "Authorization: Bearer $TOKEN"' : "";
  const lines = [["curl", `curl -X POST${token} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))} ${quoted(url)}`]];
  if (!console) {
    const name = path.split("/").slice(1).join("/") || path;
    const reason = body.reason ? ` --reason ${quoted(body.reason)}` : "";
    const until = body.until ? ` --until ${quoted(body.until)}` : "";
    const plain = /^[\w/.-]+$/.test(name) ? name : quoted(name);
    lines.unshift(["CLI", `orchestrator ${verb} ${plain}${until}${reason}`]);
  }
  return lines;
}

/** Returns the shell lines as elements with copy buttons. */
export function commandLines(command) {
  return el("div", { class: "lines" }, shellLines(command).map(([name, line]) => commandLine(name, line, name)));
}

/** Returns a line with a name before it and a button that copies it; `what` names the command for the button. */
export function commandLine(name, line, what) {
  const copy = el("button", { type: "button", text: "Copy", "aria-label": `Copy the ${what} command`, on: { click: async () => {
    await navigator.clipboard.writeText(line);
    setText(copy, "Copied");
    copy.setAttribute("aria-label", `Copied the ${what} command`);
  } } });
  return el("div", { class: "line" }, el("span", { class: "line-name", text: name }), el("code", { text: line }), copy);
}

/** Says how the end of a pause is written, and in which time zones it is read and shown. */
function untilHint() {
  const zone = state.info?.time_zone ?? "UTC";
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const shown = own === zone ? "" : ` This page shows times in ${own}.`;
  return `A duration such as 90m, 1d or 2w, or a time in ${zone}, such as 18:00 or 2026-11-30 08:00. Empty: until it is resumed.${shown}`;
}

/** Opens the confirmation dialog with a reason, and sends the command. `about` says what it does; `done` receives the response. */
export function confirmAction({ path, verb, body = {}, about = "", console = false, done }) {
  const reason = el("input", { id: "reason", maxlength: "500", autocomplete: "off", placeholder: "disk was full" });
  const until = el("input", { id: "until", maxlength: "50", autocomplete: "off", placeholder: "30m", "aria-describedby": "until-hint" });
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const lines = el("div");
  // `console` is true, or the declaration of the verb.
  const declared = console.requestBody?.content["application/json"].schema.properties;
  const takesReason = !declared || "reason" in declared;
  const takesUntil = verb === "pause" && (!declared || "until" in declared);
  const go = el("button", { class: "main", text: `${verb[0].toUpperCase()}${verb.slice(1).replaceAll("-", " ")}` });
  const filled = () => [reason, until].filter((field) => field.value.trim()).map((field) => [field.id, field.value.trim()]);
  const fullBody = () => ({ ...body, ...Object.fromEntries(filled()) });
  const updateLines = () => lines.replaceChildren(commandLines({ path, verb, body: fullBody(), console }));
  [reason, until].forEach((field) => field.addEventListener("input", updateLines));
  updateLines();

  async function submit(event) {
    event.preventDefault();
    go.disabled = true;
    problem.hidden = true;
    try {
      const answer = await post(console ? consoleUrl(path, verb) : commandUrl(path, verb), fullBody());
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
      about ? el("p", { text: about }) : null,
      takesReason ? [el("label", { for: "reason", text: "Reason, for the audit log" }), reason] : null,
      takesUntil ? [el("label", { for: "until", text: "Resume then" }), until, el("p", { id: "until-hint", class: "quiet", text: untilHint() })] : null,
      problem,
      el("p", { class: "buttons" }, go, el("button", { type: "button", text: "Cancel", on: { click: () => dialog.close() } })),
      el("h3", { text: "Shell command" }), lines));
  document.getElementById("dialogs").append(dialog);
  dialog.showModal();
  (takesReason ? reason : go).focus();
}

/** Returns a button for each possible verb. */
export function actionButtons(child) {
  return verbsFor(child).map((verb) =>
    el("button", { "data-verb": verb, text: verb, on: { click: () => confirmAction({ path: child.path, verb }) } }));
}
