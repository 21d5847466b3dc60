// Children with problems, and the reasons. No side effects.

import { duration, words } from "./format.js";
import { hasNoPeer, stateOf } from "./states.js";

function problem(node, blockers) {
  const state = stateOf(node);
  if (node.link?.state === "unanswered") return `${node.link.kind} ${node.link.reason}`;
  if (node.stuck) return node.in_progress ? `is stuck in ${node.in_progress.name} for ${duration(node.in_progress.for_ms)}` : "is stuck";
  if (state === "paused") return "is paused";
  if (state !== "running") {
    if (state === "stopped" && node.restart !== "permanent") return null;
    const again = node.retry_in_ms === undefined ? "" : `, tried again in ${duration(node.retry_in_ms)}`;
    return `${words(state)}${again}${node.last_exit ? `: ${node.last_exit.reason}` : ""}`;
  }
  if (hasNoPeer(node)) return `${node.link.kind} is down${node.link.reason ? `: ${node.link.reason}` : ""}`;
  const full = node.mailboxes.find((mailbox) => mailbox.capacity > 0 && mailbox.depth >= mailbox.capacity);
  if (full) return `${full.name} is full`;
  return blockers ? (node.blocker?.text ?? null) : null;
}

/** Returns `{path, name, text}` of each problem in a branch; with `blockers` also of what running children report. */
export function problems(branch, { blockers = false } = {}) {
  const found = [];
  const visit = (node) => {
    const text = problem(node, blockers);
    if (text) found.push({ path: node.path, name: node.path.slice(branch.path.length + 1) || node.id, text });
    // The children of a supervisor that is stopped or given up are stopped, too.
    if (!["stopped", "given_up"].includes(stateOf(node))) node.children.forEach(visit);
  };
  visit(branch);
  return found;
}
