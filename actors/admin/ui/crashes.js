// The crash reports of one child: message, position, events and metrics before it, backtrace.

import { encode, get } from "./api.js";
import { el, keyed, table } from "./dom.js";
import { count, exactClock } from "./format.js";

const number = (name) => ({ name, number: true });

function samples(report) {
  const shown = (report.samples?.series ?? []).filter((one) => one.values.some((value) => value !== one.values[0]));
  if (shown.length === 0) return el("p", { class: "quiet", text: "No metric changed in the minute before." });
  const rows = shown.map((one) => {
    const known = one.values.filter((value) => value !== null);
    return [one.metric, count(known[0]), count(Math.min(...known)), count(Math.max(...known)), count(known.at(-1))];
  });
  return table("Metrics of the minute before", ["Metric", ...["First", "Lowest", "Highest", "Last"].map(number)], rows);
}

function events(report) {
  const rows = report.events.map((event) => {
    const { seq, at_ms, path, event: kind, ...rest } = event;
    const text = Object.entries(rest).filter(([, value]) => value !== null && value !== "").map(([key, value]) => `${key} ${value}`).join(", ");
    return [`−${((report.at_ms - at_ms) / 1000).toFixed(1)} s`, path, kind, text];
  });
  return table("Events before", ["Before", "Child", "Event", "Details"], rows, "There were no events.");
}

function crash(report) {
  const facts = [
    report.location ? `At ${report.location}.` : null,
    report.in_progress ? `The message in progress, ${report.in_progress}, was lost.` : null,
    report.left_out?.length ? `Left out: ${report.left_out.join(", ")}.` : null,
  ];
  const node = el("details", { class: "crash" },
    el("summary", { text: `${exactClock(report.at_ms)} ${report.kind}, incarnation ${report.incarnation}: ${report.message}` }),
    el("p", { class: "quiet", text: facts.filter(Boolean).join(" ") }),
    el("h4", { text: "Events before" }), events(report),
    el("h4", { text: "Metrics of the minute before" }), samples(report),
    el("h4", { text: "Backtrace" }),
    el("pre", { class: "reason", tabindex: "0", role: "group", "aria-label": "Backtrace", text: report.backtrace.join("\n") || "A fault has no backtrace." }));
  return { node, update() {} };
}

/** Returns the list of crash reports of the child at `path`. They are fetched again after each exit. */
export function crashReports(path) {
  const list = el("div", { class: "crashes" });
  const note = el("p", { class: "quiet", text: "Reading crash reports…" });
  const known = new Map();
  let fetched = null;
  return {
    node: el("section", {}, el("h3", { text: "Crash reports" }), note, list),
    update(child) {
      const key = child.last_exit?.at_ms ?? 0;
      if (key === fetched) return;
      fetched = key;
      get(`/v1/crashes/${encode(path)}`).then((answer) => {
        if (key !== fetched) return;
        const own = answer.crashes.filter((report) => report.path === path);
        note.textContent = own.length ? "The last 10 panics and faults, the newest first." : "The child has not crashed.";
        keyed(list, known, own, (report) => report.number, crash);
      }).catch((error) => {
        note.textContent = error.message;
      });
    },
  };
}
