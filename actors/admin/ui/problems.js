// Children with problems, and the reasons.

import { el } from "./dom.js";
import { duration, local, moment, words } from "./format.js";
import { link } from "./router.js";
import { hasNoPeer, stateOf } from "./states.js";

/** Number of children that are named with a problem that they share. */
const NAMED = 3;
/** What a peer does that answers, by the kind of the failure. */
const FAILURES = { blocked: "takes no messages", disk_full: "has no space left", refused: "refuses", unusable: "cannot be used" };

/** Returns the problem of a child, in words without and with the reason, or null. */
function problem(node, blockers) {
  const state = stateOf(node);
  if (node.link?.state === "unanswered") return [`${node.link.kind} does not answer`, node.link.reason];
  if (node.stuck) return [node.in_progress ? `is stuck in ${node.in_progress.name} for ${duration(node.in_progress.for_ms)}` : "is stuck"];
  if (state === "paused") return [node.paused_until_ms === undefined ? "is paused" : `is paused until ${moment(node.paused_until_ms)}`];
  if (state !== "running") {
    if (state === "stopped" && node.restart !== "permanent") return null;
    const again = node.retry_in_ms === undefined ? "" : `, tried again in ${duration(node.retry_in_ms)}`;
    return [`${words(state)}${again}`, node.last_exit?.reason];
  }
  if (hasNoPeer(node)) return [`${node.link.kind} ${FAILURES[node.link.failure] ?? `is ${node.link.state}`}`, node.link.reason];
  const full = node.mailboxes.find((mailbox) => mailbox.capacity > 0 && mailbox.depth >= mailbox.capacity);
  if (full) return [`${full.name} is full`];
  return blockers && node.blocker ? [node.blocker.text] : null;
}

/**
 * Returns `{path, name, text}` of each problem in a branch; with `blockers` also of what running children report. The reason is left
 * out for children in `told`, whose reason is shown elsewhere.
 */
export function problems(branch, { blockers = false, told = [] } = {}) {
  const found = [];
  const visit = (node) => {
    const [text, reason] = problem(node, blockers) ?? [];
    const full = reason && !told.includes(node.path) ? `${text}: ${reason}` : text;
    if (text) found.push({ path: node.path, name: node.path.slice(branch.path.length + 1) || node.id, text: local(full) });
    // The children of a supervisor that is stopped or given up are stopped, too.
    if (!["stopped", "given_up"].includes(stateOf(node))) node.children.forEach(visit);
  };
  visit(branch);
  return found;
}

/** Shows problems in a list, up to `most`: each text once, with the children that have it. */
export function problemItems(list, found, most) {
  const key = JSON.stringify(found);
  if (list.dataset.key === key) return;
  list.dataset.key = key;
  const byText = new Map();
  for (const one of found) byText.set(one.text, [...(byText.get(one.text) ?? []), one]);
  const items = [...byText].map(([text, children]) => {
    const named = children.slice(0, NAMED).flatMap((one, i) => [i ? ", " : "", el("a", { href: link("tree", one.path), text: one.name })]);
    return el("li", {}, named, `${children.length > NAMED ? ` and ${children.length - NAMED} more` : ""} ${text}`);
  });
  list.replaceChildren(...items.slice(0, most), ...(items.length > most ? [el("li", { class: "quiet", text: `and ${items.length - most} more` })] : []));
}
