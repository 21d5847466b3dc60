// Charts of each subsystem, by metric names. The values of all children are added up.

import { bytes, count, inUnit } from "./format.js";

function flow(title, metric, unit = "") {
  const show = unit === "bytes" ? (value) => `${bytes(value)}/s` : (value) => `${count(value)}/s`;
  return { title, metrics: [metric], show, draw: (column) => column(metric, "rate") };
}

function level(title, metric, unit = "") {
  return { title, metrics: [metric], show: (value) => inUnit(Math.round(value), unit), draw: (column) => column(metric) };
}

/** Workers that connect for each request are seen by their requests only. */
function perMinute(title, metric) {
  return { title, metrics: [metric], show: (value) => `${count(Math.round(value * 60))}/min`, draw: (column) => column(metric, "rate") };
}

const card = (one) => ({ ...one, card: true });
const WAITING = level("Messages waiting", "mailbox_depth");

const CHARTS = {
  queue: [
    card(flow("Jobs handed out", "handed_out")),
    card(WAITING),
    flow("Jobs finished", "finished"),
    flow("Rows stored", "ingested"),
    perMinute("Requests of workers", "answered"),
    level("Files followed", "followed"),
    flow("Transactions", "commits"),
    level("Write-ahead log, pages", "write_ahead_log"),
  ],
  provenance: [
    card(flow("Rows written", "written")),
    card(level("Rows waiting", "waiting")),
    flow("Rows stored or repeated", "stored"),
    flow("Commits", "commits"),
    flow("Calls", "calls"),
    flow("Messages delivered", "deliveries"),
    flow("Dead letters", "dead_lettered"),
    flow("Rows refused", "refused"),
  ],
  ingester: [
    card(flow("Events", "events")),
    card(level("Worker queues", "egress_queued_bytes", "bytes")),
    flow("Data from sources", "received", "bytes"),
    flow("Data to workers", "event", "bytes"),
    level("On disk for workers", "spilled_bytes", "bytes"),
    level("Workers connected", "connected_workers"),
    flow("Gaps", "gaps"),
  ],
  producer: [
    card(flow("Jobs pushed", "pushed")),
    card(level("Stencil jobs left", "stencil_total")),
    flow("Jobs accepted by Faktory", "accepted"),
    level("TCN", "tcn"),
    flow("Retries", "retries"),
  ],
  catalog: [
    card(flow("Rows done", "done")),
    card(level("Rows in progress", "in_progress")),
    flow("Rows claimed", "claimed"),
    flow("Attempts failed", "failed"),
    level("Lag", "lag", "milliseconds"),
    flow("Requests", "requests"),
  ],
};

// The backlog of the producer is the rest of its stencil.
CHARTS.producer[1] = card({
  title: "Stencil jobs left",
  metrics: ["stencil_total", "stencil_pushed"],
  show: count,
  draw(column) {
    const total = column("stencil_total");
    const pushed = column("stencil_pushed");
    return { ...total, values: total.values.map((value, i) => (value === null ? null : value - (pushed.values[i] ?? 0))) };
  },
});

/** Returns the charts of a subsystem. An unknown one has charts of its messages. */
export function chartsOf(name) {
  return CHARTS[name] ?? [card(flow("Messages handled", "mailbox_handled")), card(WAITING), flow("Refused", "mailbox_refused")];
}
