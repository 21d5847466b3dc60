// Lists of events. Repeats of one kind are one line.

import { el, keyed } from "./dom.js";
import { exactClock, local, words } from "./format.js";
import { state } from "./live.js";
import { link } from "./router.js";

/** Fewest children whose equal events are one line. */
const GROUPED_FROM = 3;
/** Maximum time between two events of a group, in milliseconds. Other events may come between them. A busy machine starts a pool slowly. */
const GROUP_MS = 10_000;
/** Maximum number of events that are read for a list. */
const EVENTS_MAX = 1000;

/** Returns true for an event that reports a fault. A requested stop is none. */
export function isFault(event) {
  if (event.event === "exited") return !/^(normal|shutdown)/.test(event.reason);
  return ["escalated", "given_up", "stop_timed_out", "link_down", "link_unanswered"].includes(event.event);
}

function textOf(event) {
  const { seq, at_ms, path, event: kind, ...rest } = event;
  return local(Object.entries(rest).filter(([, value]) => value !== null && value !== "").map(([key, value]) => (key === "reason" ? value : `${words(key)} ${value}`)).join(", "));
}

function parentOf(path) {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}

/** Returns groups of equal events of the children of one parent, in the order of the events: the newest first. */
function grouped(events) {
  const groups = [];
  const latest = new Map();
  for (const event of events) {
    const kind = `${event.event} ${parentOf(event.path)} ${textOf(event)}`;
    const last = latest.get(kind);
    // A child that has the same event again begins another group.
    if (last && last.at(-1).at_ms - event.at_ms <= GROUP_MS && !last.some((one) => one.path === event.path)) last.push(event);
    else {
      groups.push([event]);
      latest.set(kind, groups.at(-1));
    }
  }
  const lines = groups.flatMap((group) => (group.length < GROUPED_FROM ? group.map((event) => [event]) : [group]));
  return lines.sort((a, b) => b[0].seq - a[0].seq);
}

/** Names the children of a group: those of a pool by what they are. */
function membersOf(events) {
  const parent = parentOf(events[0].path);
  const name = words(parent.slice(parent.lastIndexOf("/") + 1));
  return state.nodes.get(parent)?.kind === "pool" ? `${events.length} ${name}s` : `${events.length} children of ${name}`;
}

/** Returns what happened: `80 range workers started`, `link up: 3 children of scan`. */
function kindOf(events) {
  const kind = words(events[0].event);
  if (events.length === 1) return kind;
  return events[0].event.startsWith("link_") ? `${kind}: ${membersOf(events)}` : `${membersOf(events)} ${kind}`;
}

function eventLine(events, withPath) {
  const [event] = events;
  const isOne = events.length === 1;
  const path = isOne ? event.path : parentOf(event.path);
  const shown = withPath || !isOne ? el("a", { class: "event-path", href: link("tree", path, { tab: "events" }), text: path }) : null;
  return el("li", { class: `event event-${event.event} ${isFault(event) ? "bad" : ""}`, title: isOne ? null : events.map((one) => one.path).join("\n") },
    el("time", { datetime: new Date(event.at_ms).toISOString(), text: exactClock(event.at_ms) }),
    el("span", { class: "event-kind", text: kindOf(events) }),
    shown, el("span", { class: "event-text", text: textOf(event) }));
}

/** Creates a list of events. `update` shows up to `most` lines of events, which are given newest first. */
export function eventList(withPath) {
  const list = el("ol", { class: "events" });
  const known = new Map();
  return {
    node: el("div", {}, list),
    update(events, empty = "There are no events.", most = 200) {
      const lines = grouped(events.slice(0, EVENTS_MAX)).slice(0, most);
      keyed(list, known, lines, (one) => `${one[0].seq} ${one.length}`, (one) => ({ node: eventLine(one, withPath), update() {} }));
      list.dataset.empty = lines.length ? "" : empty;
    },
  };
}
