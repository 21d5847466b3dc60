// Views of the ingester: the flow from the streams to the workers, progress of the mapping, streams and workers.

import { el, table } from "./dom.js";
import { bytes, count, duration, rate } from "./format.js";
import { meter } from "./meter.js";
import { link } from "./router.js";
import { linkBadge } from "./states.js";
import { all, metric, number, progressBar, section, sum } from "./view_parts.js";

/** Maximum number of workers in the picture. */
const DRAWN = 12;
const WORKER_METRICS = ["worker_connected", "worker_events", "worker_sent", "worker_queued", "worker_spilled", "worker_oldest"];

function streamsOf(branch) {
  return all(branch).filter((node) => metric(node, "items") !== null);
}

/** Returns the metrics of each worker of an ingester, by name. */
function workersOf(branch) {
  const found = new Map();
  for (const node of all(branch)) {
    for (const one of node.metrics) {
      if (one.label?.name !== "worker" || !WORKER_METRICS.includes(one.name)) continue;
      const worker = found.get(one.label.value) ?? { name: one.label.value };
      worker[one.name] = one.value;
      found.set(one.label.value, worker);
    }
  }
  return [...found.values()].sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
}

const data = (value) => (value === null ? "–" : `${bytes(Math.round(value))}/s`);

function arrow(first, second) {
  return el("span", { class: "arrow" }, el("span", { class: "arrow-text", text: `${data(first)} · ${rate(second)}` }), el("span", { class: "arrow-line", "aria-hidden": "true" }));
}

/** Returns counters by key, of which the arrows show the rates. */
function counters(ingester) {
  const values = new Map([[`${ingester.path} events`, sum(ingester, "events") ?? 0]]);
  for (const node of streamsOf(ingester)) {
    values.set(`${node.path} received`, metric(node, "received"));
    values.set(`${node.path} items`, metric(node, "items"));
  }
  for (const worker of workersOf(ingester)) {
    values.set(`${ingester.path} ${worker.name} sent`, worker.worker_sent);
    values.set(`${ingester.path} ${worker.name} events`, worker.worker_events);
  }
  return values;
}

function waiting(worker) {
  const parts = [worker.worker_queued ? `${bytes(worker.worker_queued)} queued` : null, worker.worker_spilled ? `${bytes(worker.worker_spilled)} on disk` : null];
  return parts.filter(Boolean).join(", ") || "nothing waits";
}

function picture(ingester, rateOf) {
  const streams = streamsOf(ingester).map((node) => el("li", { class: "flow-row" },
    el("span", { class: "flow-box" }, el("a", { href: link("tree", node.path), text: node.label ?? node.id }), node.link ? linkBadge(node.link) : null,
      el("span", { class: "quiet", text: `${count(metric(node, "waiting_items"))} items wait` })),
    arrow(rateOf(`${node.path} received`), rateOf(`${node.path} items`))));
  const known = workersOf(ingester);
  const busiest = [...known].sort((a, b) => (rateOf(`${ingester.path} ${b.name} sent`) ?? 0) - (rateOf(`${ingester.path} ${a.name} sent`) ?? 0) || b.worker_queued - a.worker_queued).slice(0, DRAWN);
  const workers = known.filter((one) => busiest.includes(one)).map((one) => el("li", { class: "flow-row" },
    arrow(rateOf(`${ingester.path} ${one.name} sent`), rateOf(`${ingester.path} ${one.name} events`)),
    el("span", { class: `flow-box ${one.worker_queued || one.worker_spilled ? "flow-waits" : ""}` }, el("span", { text: one.name }),
      one.worker_connected ? null : el("span", { class: "link link-down", text: "not connected" }), el("span", { class: "quiet", text: waiting(one) }))));
  const more = known.length > DRAWN ? [el("li", { class: "quiet", text: `and ${known.length - DRAWN} more workers` })] : [];
  const none = known.length === 0 ? [el("li", { class: "quiet", text: "No worker is known." })] : [];
  return el("div", { class: "flow", role: "group", "aria-label": `Flow of ${ingester.label ?? ingester.id}` },
    el("ul", { "aria-label": "Streams" }, streams),
    el("p", { class: "flow-box flow-middle" }, el("a", { href: link("tree", ingester.path), text: ingester.label ?? ingester.id }),
      el("span", { text: `${count(rateOf(`${ingester.path} events`))} events/s` }),
      isBlocked(ingester) ? el("span", { class: "problem", text: "waits for a worker" }) : null),
    el("ul", { "aria-label": "Workers" }, workers, more, none));
}

function isBlocked(ingester) {
  return (sum(ingester, "blocked_by_worker") ?? 0) > 0;
}

/** Creates the pictures of the ingesters, and the table of their streams. */
export function flows() {
  const part = section("Flow");
  const measure = meter();
  return {
    node: part.node,
    update(branch, now) {
      const ingesters = branch.children.filter((one) => streamsOf(one).length > 0);
      const rateOf = measure(now.tree.captured_at_ms, new Map(ingesters.flatMap((one) => [...counters(one)])));
      const streams = streamsOf(branch);
      part.draw(String(now.tree.captured_at_ms), () => [
        ...ingesters.map((one) => picture(one, rateOf)),
        el("h3", { text: "Streams" }),
        table("Streams", ["Stream", "Source", ...["Items", "Data", "Waiting", "Gaps", "Missing frames"].map(number)],
          streams.map((node) => [el("a", { href: link("tree", node.path), text: node.label ?? node.id }), node.link ? linkBadge(node.link) : "–", count(metric(node, "items")), bytes(metric(node, "received")),
            count(metric(node, "waiting_items")), count(metric(node, "gaps")), count(metric(node, "missing_frames"))])),
      ]);
      return streams.length > 0;
    },
  };
}

/** Creates the progress of each ingester: sent events out of the assigned ones of the current mapping. */
export function mappingProgress() {
  const part = section("Progress of the mapping");
  const measure = meter();
  return {
    node: part.node,
    update(branch, now) {
      const found = branch.children.filter((one) => sum(one, "mapping_assigned") !== null)
        .map((one) => ({ path: one.path, name: one.label ?? one.id, sent: sum(one, "mapping_sent") ?? 0, assigned: sum(one, "mapping_assigned"), mappings: sum(one, "mappings") ?? 0 }));
      const rateOf = measure(now.tree.captured_at_ms, new Map(found.map((one) => [one.path, one.sent])));
      part.draw(`${now.tree.captured_at_ms} ${JSON.stringify(found)}`, () => found.flatMap((one) => {
        const speed = rateOf(one.path);
        const left = one.assigned - one.sent;
        const time = speed > 0 && left > 0 ? `, ${duration((left / speed) * 1000)} left at ${rate(speed)}` : "";
        const text = one.mappings === 0 ? "no mapping yet" : `${count(one.sent)} of ${count(one.assigned)} assigned events sent${time}`;
        return [el("p", { text: `${one.name}: ${text}` }), progressBar(one.sent, one.assigned)];
      }));
      return found.length > 0;
    },
  };
}

/** Creates the table of the workers. */
export function workers() {
  const part = section("Workers");
  return {
    node: part.node,
    update(branch) {
      const found = branch.children.flatMap((one) => workersOf(one).map((worker) => ({ ...worker, ingester: one.label ?? one.id })));
      part.draw(JSON.stringify(found), () => [table("Workers", ["Worker", "Ingester", "State", ...["Events", "Sent", "Queue", "Spill", "Oldest"].map(number)],
        found.map((one) => [one.name, one.ingester, one.worker_connected ? "connected" : "not connected", count(one.worker_events), bytes(one.worker_sent), bytes(one.worker_queued), bytes(one.worker_spilled), one.worker_oldest ? duration(one.worker_oldest) : "–"]))]);
      return found.length > 0;
    },
  };
}
