// Children that an operator should look at, with the reason. Pure.

import { span, words } from "./format.js";
import { stateOf } from "./states.js";

function trouble(node) {
  const state = stateOf(node);
  if (node.stuck) return node.in_progress ? `works on ${node.in_progress.name} for ${span(node.in_progress.for_ms)}` : "hangs";
  if (state === "paused") return "is paused";
  if (state !== "running") {
    if (state === "stopped" && node.restart !== "permanent") return null;
    return `${words(state)}${node.last_exit ? `: ${node.last_exit.reason}` : ""}`;
  }
  if (node.link?.state === "down") return `${node.link.kind} is down${node.link.reason ? `: ${node.link.reason}` : ""}`;
  const full = node.mailboxes.find((mailbox) => mailbox.capacity > 0 && mailbox.depth >= mailbox.capacity);
  return full ? `${full.name} is full` : null;
}

/** `{path, name, text}` of each child below a branch, and of the branch itself. */
export function troubles(branch) {
  const found = [];
  const visit = (node) => {
    const text = trouble(node);
    if (text) found.push({ path: node.path, name: node.path.slice(branch.path.length + 1) || node.id, text });
    // What is stopped or about to come back took its children along.
    if (stateOf(node) !== "stopped") node.children.forEach(visit);
  };
  visit(branch);
  return found;
}
