// The tabs of a child's details. A panel has `node` and `update(child, now)`.

import { chart, perSecond } from "./chart.js";
import { consolePanel } from "./console_panel.js";
import { crashReports } from "./crashes.js";
import { el, keyed, setText, table } from "./dom.js";
import { eventList } from "./events.js";
import { bounds, count, duration, inUnit, moment, words } from "./format.js";
import { feed } from "./feed.js";

export const TABS = [
  { id: "mailbox", title: "Mailbox" },
  { id: "events", title: "Events" },
  { id: "metrics", title: "Metrics", when: (child) => child.metrics.length + child.timings.length > 0 },
  { id: "exits", title: "Exits" },
  { id: "console", title: "Console", when: (child, now) => child.console && !now.past },
];

const PANELS = { mailbox, events, metrics, exits, console: consolePanel };

export function panelFor(tab, child) {
  return PANELS[tab](child);
}

const number = (name) => ({ name, number: true });
const QUANTILES = ["Count", "p50", "p95", "p99"].map(number);

/** Returns a function that rebuilds the content of a panel when its key has changed. */
function replacing(build) {
  const node = el("div");
  let key = "";
  return (child) => {
    const next = JSON.stringify(build.key(child));
    if (next !== key) node.replaceChildren(...build.make(child));
    key = next;
    return node;
  };
}

function times3(us) {
  return [bounds(us[0]), bounds(us[1]), bar(us[2])];
}

function bar(p) {
  if (!p) return "–";
  const wide = 2 + Math.min(14, Math.log2(Math.max(1, p)) * 0.6);
  const meter = el("span", { class: "log-bar", "aria-hidden": "true" });
  meter.style.width = `${wide}px`;
  return el("span", {}, meter, bounds(p));
}

function mailbox(first) {
  const charts = [chart("Waiting", count), chart("Handled", (value) => `${count(value)}/s`)];
  const live = feed(first.path, ["mailbox_depth", "mailbox_handled"], {}, (column) => {
    charts[0].update(column("mailbox_depth"));
    charts[1].update(column("mailbox_handled", "rate"));
  });
  const rows = replacing({
    key: (child) => [child.mailboxes, child.in_progress],
    make(child) {
      const current = child.in_progress ? `Working on: ${child.in_progress.name} for ${duration(child.in_progress.for_ms)}.` : "Idle.";
      const boxes = child.mailboxes.map((box) => [box.name, `${count(box.depth)} of ${count(box.capacity)}`, count(box.high_water), count(box.handled), count(box.refused), count(box.purged)]);
      const messages = child.mailboxes.flatMap((box) => box.messages);
      const times = (key) => messages.filter((one) => one[key][2] > 0).map((one) => [one.name, count(one.count), ...times3(one[key])]);
      return [
        el("p", { class: "quiet", text: current }),
        table("Mailboxes", ["Mailbox", number("Waiting"), number("Highest"), number("Handled"), number("Refused"), number("Purged")], boxes, "The child has no mailbox."),
        el("h3", { text: "Wait in the mailbox" }),
        table("Wait in the mailbox", ["Message", ...QUANTILES], times("wait_us"), "No message has been handled."),
        el("h3", { text: "Handling" }),
        table("Handling", ["Message", ...QUANTILES], times("handling_us"), "No time of a handler is known."),
      ];
    },
  });
  const node = el("div");
  const graphs = first.mailboxes.length ? el("div", { class: "charts" }, charts.map((one) => one.node)) : null;
  return {
    node,
    update(child) {
      if (!node.firstChild) node.append(...[graphs, rows(child)].filter(Boolean));
      rows(child);
      if (graphs) live.tick();
    },
  };
}


function events(first) {
  const list = eventList(first.children.length > 0);
  return {
    node: list.node,
    update(child, now) {
      const below = now.events.filter((one) => one.path === first.path || (child.children.length && one.path.startsWith(`${first.path}/`)));
      list.update(below.reverse(), undefined, 200);
    },
  };
}

function exits(first) {
  const node = el("div");
  const reports = crashReports(first.path);
  return {
    node,
    update(child) {
      const exit = child.last_exit;
      const text = exit ? `${exit.kind} at ${moment(exit.at_ms)}` : "The child has not exited since the program was started.";
      if (!node.firstChild) node.append(el("p", { class: "quiet" }), el("pre", { class: "reason" }), el("p", { class: "quiet" }), reports.node);
      setText(node.childNodes[0], text);
      node.childNodes[1].hidden = !exit;
      setText(node.childNodes[1], exit?.reason ?? "");
      setText(node.childNodes[2], exit?.in_progress ? `The message in progress, ${exit.in_progress}, was lost.` : "");
      reports.update(child);
    },
  };
}

function named(metric) {
  return metric.label ? `${words(metric.name)} · ${metric.label.value}` : words(metric.name);
}

function metrics(first) {
  const parts = new Map();
  const grid = el("div", { class: "charts" });
  const times = replacing({
    key: (child) => child.timings,
    make: (child) => (child.timings.length === 0 ? [] : [
      el("h3", { text: "Durations" }),
      table("Durations", ["Name", ...QUANTILES],
        child.timings.map((one) => [`${words(one.name)} · ${one.value}`, count(one.count), ...times3(one.us)])),
    ]),
  });
  const node = el("div", {}, grid);
  const live = feed(first.path, [], {}, (column) => {
    for (const [key, part] of parts) {
      const found = column(key);
      const values = part.counter ? perSecond(found.at, found.values) : found.values;
      part.graph.update({ ...found, values });
    }
  });
  return {
    node,
    update(child) {
      const shown = child.metrics.slice(0, 60);
      keyed(grid, parts, shown, (one) => (one.label ? `${one.name}{${one.label.name}=${one.label.value}}` : one.name), (one) => {
        const counter = one.kind === "counter";
        const graph = chart(`${named(one)}${counter ? " /s" : ""}`, (value) => (counter ? `${inUnit(value, one.unit)}/s` : inUnit(value, one.unit)), { small: true });
        const sum = el("p", { class: "metric-sum" });
        return {
          counter,
          graph,
          node: el("div", { class: "metric" }, graph.node, sum),
          update(now) {
            setText(sum, counter ? `${inUnit(now.value, now.unit)} in total` : inUnit(now.value, now.unit));
          },
        };
      });
      const table_ = times(child);
      if (!table_.parentNode) node.append(table_);
      live.tick();
    },
  };
}
