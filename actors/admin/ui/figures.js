// The strip of figures of each subsystem: the numbers that its users ask for first.

import { consoleUrl, post } from "./api.js";
import { el, keyed, setAttr, setText } from "./dom.js";
import { count, duration, moment, rate } from "./format.js";
import { meter } from "./meter.js";
import { inServer } from "./producer_views.js";
import { all, metric, sum } from "./view_parts.js";

const ASK_MS = 10000;

/** A figure: name, value, and optionally a line below it, whether it is bad, and its full text. */
const figure = (name, value, hint = "", bad = false, title = null) => ({ name, value, hint, bad, title });

function queue(branch, now) {
  const value = (name) => sum(branch, name);
  const [since, counted] = ["day_counted_since", "counted"].map(value);
  // The gauges are 0 until they are counted for the first time.
  if (!counted) return ["Waiting", "In flight", "Done, 24 h", "Failed, 24 h", "Oldest waiting", "Time to empty"].map((name) => figure(name, "–"));
  const from = Date.now() - since * 1000 > 86000000 ? "" : `since ${moment(since * 1000)}`;
  const day = from ? "" : ", 24 h";
  // The lists of jobs are newer.
  const age = `${duration(now.tree.captured_at_ms - counted * 1000)} ago`;
  const [waiting, failed, oldest, empty] = ["waiting", "failed_in_a_day", "oldest_waiting", "time_to_empty"].map(value);
  return [
    figure("Waiting", count(waiting), age),
    figure("In flight", count(value("in_flight")), age),
    figure(`Done${day}`, count(value("done_in_a_day")), from),
    figure(`Failed${day}`, count(failed), from, failed > 0),
    figure("Oldest waiting", waiting ? duration(oldest * 1000) : "–"),
    figure("Time to empty", waiting === 0 ? "empty" : empty ? duration(empty * 1000) : "–", waiting && !empty ? "fewer than 10 jobs in an hour" : ""),
  ];
}

function provenance() {
  const measure = meter();
  return (branch, now) => {
    const rateOf = measure(now.tree.captured_at_ms, new Map([["written", sum(branch, "written") ?? 0]]));
    const letters = sum(branch, "dead_lettered");
    return [
      figure("Rows written", rate(rateOf("written"))),
      figure("Rows waiting", count(sum(branch, "waiting"))),
      unacknowledged(branch),
      figure("Dead letters", count(letters), started(now), letters > 0),
    ];
  };
}

/** Returns the messages that the broker waits for, or, for a client, the calls that wait for a response. */
function unacknowledged(branch) {
  const messages = sum(branch, "unacknowledged") ?? sum(branch, "open_calls");
  return figure("Unacknowledged", count(messages), messages === null ? "there is no broker" : "");
}

/** Returns the time from which counters count. */
function started(now) {
  return `since ${moment(now.tree.captured_at_ms - now.tree.uptime_ms)}`;
}

/** Returns the worker with the oldest event that waits for it, or null. */
function slowest(ingester) {
  const waits = all(ingester).flatMap((node) => node.metrics.filter((one) => one.name === "worker_oldest" && one.value > 0));
  return waits.sort((a, b) => b.value - a.value)[0] ?? null;
}

function ingester() {
  const mappings = new Map();
  let [last, scans] = [-Infinity, ""];
  // Each mapping starts the scan again.
  const ask = (consoles, next) => {
    if (document.hidden || (performance.now() - last < ASK_MS && scans === next)) return;
    [last, scans] = [performance.now(), next];
    for (const node of consoles) post(consoleUrl(node.path, "status"), {}).then(({ state }) => mappings.set(node.path, state.mapping_uuid ?? "none"), () => {});
  };
  return (branch, now) => {
    const found = branch.children.filter((one) => sum(one, "mappings") !== null);
    const runs = found.flatMap((one) => one.children.filter((child) => child.id === "scan").map((scan) => scan.incarnation)).join();
    ask(found.flatMap((one) => all(one).filter((node) => node.console)), runs);
    return found.flatMap((one) => {
      const name = found.length > 1 ? `${one.label ?? one.id}: ` : "";
      const mapping = mappings.get(all(one).find((node) => node.console)?.path) ?? "–";
      const [begun, sent, assigned, gaps] = ["mappings", "mapping_sent", "mapping_assigned", "gaps"].map((key) => sum(one, key));
      const worker = slowest(one);
      return [
        figure(`${name}Mapping`, mapping.slice(0, 8), "", false, mapping),
        figure(`${name}Events of the mapping`, begun ? `${count(sent)} of ${count(assigned)}` : "–", begun ? "sent of assigned" : "no mapping yet"),
        figure(`${name}Gaps`, count(gaps), started(now), gaps > 0),
        figure(`${name}Slowest worker`, worker?.label.value ?? "none", worker ? `its queue is ${duration(worker.value)} old` : "no event waits"),
      ];
    });
  };
}

function producer(branch) {
  const node = all(branch).find((one) => metric(one, "stencil_total") !== null);
  const value = (name) => (node ? metric(node, name) : null);
  const jobs = inServer(branch).filter((one) => one.name !== "server_dead");
  const total = value("stencil_total");
  return [
    figure("TCN", count(value("tcn") || null)),
    figure("Pushed of planned", total ? `${count(value("stencil_pushed"))} of ${count(total)}` : "–", total ? "jobs of the stencil" : "no stencil"),
    figure("In the server", jobs.length ? count(jobs.reduce((so, one) => so + one.jobs, 0)) : "–", "jobs of the queues, workers and sets"),
  ];
}

function catalog(branch, now) {
  const value = (name) => sum(branch, name);
  const [failed, dead] = ["failed", "dead"].map(value);
  return [
    figure("Candidates", value("polls") ? count(value("candidates")) : "–", "left by the last poll"),
    figure("Claimed", count(value("in_progress")), "not settled"),
    figure("Done", count(value("done")), started(now)),
    figure("Failed", count(failed), "attempts", failed > 0),
    figure("Dead", count(dead), started(now), dead > 0),
  ];
}

const FIGURES = { queue: () => queue, provenance, ingester, producer: () => producer, catalog: () => catalog };

/** Creates the strip of a subsystem, or of another branch an empty one. */
export function figures(name) {
  const read = FIGURES[name]?.() ?? (() => []);
  const node = el("dl", { class: "figures" });
  const known = new Map();
  return {
    node,
    update(branch, now) {
      const shown = read(branch, now);
      node.hidden = shown.length === 0;
      keyed(node, known, shown, (one) => one.name.replace(/, 24 h$/, ""), () => {
        const [title, value, hint] = [el("dt"), el("dd", { class: "figure-value" }), el("dd", { class: "figure-hint" })];
        const part = el("div", { class: "figure" }, title, value, hint);
        return {
          node: part,
          update(one) {
            setText(title, one.name);
            setText(value, one.value);
            setText(hint, one.hint);
            setAttr(part, "data-bad", one.bad ? "true" : null);
            setAttr(part, "title", one.title);
          },
        };
      });
    },
  };
}
