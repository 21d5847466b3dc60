// Views of a subsystem's work, from the present tree. A view has `node` and `update(branch, now, options)`, which returns true if
// there is something to show.

import { confirmAction } from "./actions.js";
import { consoleUrl, post } from "./api.js";
import { answerView } from "./console_panel.js";
import { el, setText, svg, table } from "./dom.js";
import { bytes, count, inUnit, rate, duration, words } from "./format.js";
import { link } from "./router.js";
import { glyph, linkBadge, stateOf } from "./states.js";

const VIEWS = {
  queue: () => [consoles([["stats", {}], ["ls", {}], ["peek", { n: 20 }]])],
  provenance: () => [heatMap(), latencies()],
  ingester: () => [flows(), byLabel("worker", "Workers")],
  producer: () => [progress(), consoles([["status", {}]])],
  catalog: () => [byLabel("rule", "Rules"), byChild("rules", "Rules"), consoles([["status", {}]])],
};

export function viewsOf(name) {
  return VIEWS[name]?.() ?? [];
}

function all(branch) {
  return [branch, ...branch.children.flatMap(all)];
}

function metric(node, name) {
  return node.metrics.find((one) => one.name === name)?.value ?? null;
}

/** Time over which the heat map averages rates, in milliseconds. */
const HEAT_MS = 30000;

const number = (name) => ({ name, number: true });

/** Creates a section that is rebuilt when its key changes. */
function section(title) {
  const body = el("div");
  const node = el("section", { class: "view", "aria-label": title }, el("h2", { text: title }), body);
  let key = "";
  return {
    node,
    draw(next, make) {
      if (next !== key) body.replaceChildren(...make());
      key = next;
    },
  };
}

/** Creates a heat map of a pool: a cell for each worker with its queue length, shaded by its rate. Labels such as `content_0` are row and column. */
function heatMap() {
  const part = section("Workers");
  const seen = [];
  const measure = (pool, at) => {
    seen.push({ at, rows: new Map(pool.children.map((one) => [one.path, metric(one, "stored") ?? 0])) });
    while (seen.length > 1 && at - seen[0].at > HEAT_MS) seen.splice(0, 1);
    const seconds = (at - seen[0].at) / 1000;
    return (path) => (seconds > 0 ? Math.max(0, seen.at(-1).rows.get(path) - seen[0].rows.get(path)) / seconds : 0);
  };
  return {
    node: part.node,
    update(branch, now) {
      const pools = all(branch).filter((one) => one.kind === "pool" && one.children.length > 0);
      if (pools.length === 0) return false;
      const speed = measure(pools[0], now.tree.captured_at_ms);
      const cells = pools[0].children.map((one) => {
        const name = one.label ?? one.id;
        const cut = name.lastIndexOf("_");
        const waits = (metric(one, "waiting") ?? 0) + one.mailboxes.reduce((sum, mailbox) => sum + mailbox.depth, 0);
        return { one, row: cut < 0 ? "workers" : name.slice(0, cut), column: name.slice(cut + 1), rate: speed(one.path), waits };
      });
      const key = JSON.stringify(cells.map((cell) => [Math.round(cell.rate), cell.waits, stateOf(cell.one)]));
      part.draw(key, () => {
        const most = Math.max(1, ...cells.map((cell) => cell.rate));
        const rows = [...new Set(cells.map((cell) => cell.row))];
        const columns = [...new Set(cells.map((cell) => cell.column))];
        const cellOf = (cell) => el("td", { class: `heat heat-${cell.rate > 0 ? 1 + Math.min(4, Math.floor((cell.rate / most) * 4.99)) : 0} ${stateOf(cell.one) === "running" ? "" : "heat-off"}` },
          el("a", { href: link("tree", cell.one.path), title: `${cell.one.label ?? cell.one.id}: ${rate(cell.rate)}, ${cell.waits} waiting, ${words(stateOf(cell.one))}` },
            stateOf(cell.one) === "running" ? (cell.waits > 0 ? count(cell.waits) : "·") : glyph(stateOf(cell.one)),
            el("span", { class: "unseen", text: `${cell.one.label ?? cell.one.id} ${rate(cell.rate)}` })));
        const grid = el("table", { class: "heat-map" },
          el("caption", { class: "unseen", text: "Workers by exchange and range; each cell has the queue length, its shade is the rate in rows per second" }),
          el("thead", {}, el("tr", {}, el("td"), columns.map((one) => el("th", { scope: "col", text: one })))),
          el("tbody", {}, rows.map((row) => el("tr", {}, el("th", { scope: "row", text: row }),
            columns.map((column) => {
              const cell = cells.find((one) => one.row === row && one.column === column);
              return cell ? cellOf(cell) : el("td");
            })))));
        return [el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Workers" }, grid), el("p", { class: "quiet", text: `Number: waiting messages and rows. Shade: rows per second over the last 30 s, up to ${rate(most)}.` })];
      });
      return true;
    },
  };
}

/** Creates a table of the children's durations, by label. */
function latencies() {
  const part = section("Durations");
  return {
    node: part.node,
    update(branch) {
      const rows = all(branch).flatMap((node) => node.timings.filter((one) => one.count > 0).map((one) => [`${words(one.name)} · ${one.value}`, count(one.count), ...one.us.map((value) => inUnit(value, "us"))]));
      part.draw(JSON.stringify(rows), () => [table("Durations", ["Call", ...["Count", "p50", "p95", "p99"].map(number)], rows)]);
      return rows.length > 0;
    },
  };
}

/** Creates a table of metrics with a label, one row for each value of the label. */
function byLabel(label, title) {
  const part = section(title);
  return {
    node: part.node,
    update(branch) {
      const found = all(branch).flatMap((node) => node.metrics.filter((one) => one.label?.name === label));
      const names = [...new Set(found.map((one) => one.name))];
      const values = [...new Set(found.map((one) => one.label.value))].sort();
      const rows = values.map((value) => [value, ...names.map((name) => {
        const one = found.find((other) => other.name === name && other.label.value === value);
        return one ? inUnit(one.value, one.unit) : "–";
      })]);
      part.draw(JSON.stringify(rows), () => [table(title, [words(label), ...names.map((name) => number(words(name)))], rows)]);
      return rows.length > 0;
    },
  };
}

/** Creates a table of the metrics of a supervisor's children, one row for each child. */
function byChild(id, title) {
  const part = section(title);
  return {
    node: part.node,
    update(branch) {
      const children = all(branch).filter((node) => node.id === id).flatMap((node) => node.children);
      const names = [...new Set(children.flatMap((node) => node.metrics.map((one) => one.name)))];
      const cells = children.map((node) => names.map((name) => {
        const one = node.metrics.find((other) => other.name === name);
        return one ? inUnit(one.value, one.unit) : "–";
      }));
      const states = children.map((node) => [node.path, stateOf(node), node.note?.text]);
      part.draw(JSON.stringify([cells, states]), () => [table(title, ["Rule", "State", ...names.map((name) => number(words(name))), "Note"],
        children.map((node, i) => [el("a", { href: link("tree", node.path), text: node.label ?? node.id }), words(stateOf(node)), ...cells[i], node.note?.text ?? ""]))]);
      return children.length > 0;
    },
  };
}

/** Creates a table of the ingester's streams. */
function flows() {
  const part = section("Flow");
  return {
    node: part.node,
    update(branch) {
      const streams = all(branch).filter((node) => metric(node, "items") !== null);
      const key = JSON.stringify(streams.map((node) => [node.path, node.metrics, node.link]));
      part.draw(key, () => [table("Streams", ["Stream", "Source", number("Items"), number("Data"), number("Waiting"), number("Gaps"), number("Missing")],
        streams.map((node) => [el("a", { href: link("tree", node.path), text: node.label ?? node.id }), node.link ? linkBadge(node.link) : "–", count(metric(node, "items")), bytes(metric(node, "received")), count(metric(node, "waiting_items")), count(metric(node, "gaps")), count(metric(node, "missing_frames"))]))]);
      return streams.length > 0;
    },
  };
}

/** Creates the progress bar of the current stencil, with the estimated remaining time. */
function progress() {
  const part = section("Stencil");
  const seen = [];
  return {
    node: part.node,
    update(branch, now) {
      const node = all(branch).find((one) => metric(one, "stencil_total") !== null);
      if (!node) return false;
      const [pushed, total, tcn] = ["stencil_pushed", "stencil_total", "tcn"].map((name) => metric(node, name));
      seen.push({ at: now.tree.captured_at_ms, pushed });
      while (seen.length > 30 || seen[0].pushed > pushed) seen.splice(0, 1);
      const speed = ((pushed - seen[0].pushed) * 1000) / Math.max(1, now.tree.captured_at_ms - seen[0].at);
      const left = speed > 0 && total > pushed ? `, ${duration(((total - pushed) / speed) * 1000)} left at ${rate(speed)}` : "";
      part.draw(`${pushed} ${total} ${tcn} ${left}`, () => {
        const wide = total > 0 ? (100 * pushed) / total : 0;
        const bar = svg("svg", { class: "progress", viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": `${Math.round(wide)} percent` },
          svg("rect", { class: "progress-back", width: 100, height: 6 }), svg("rect", { class: "progress-done", width: wide, height: 6 }));
        return [el("p", { text: `TCN ${count(tcn)}: ${count(pushed)} of ${count(total)} jobs pushed${left}` }), bar];
      });
      return true;
    },
  };
}

/** Creates buttons for requests to the subsystem's consoles. Each request is recorded in the audit log. */
function consoles(verbs) {
  const buttons = el("p", { class: "buttons" });
  const answer = el("div", { role: "status" });
  const node = el("section", { class: "view", "aria-label": "Console" }, el("h2", { text: "Console" }), buttons, answer);
  let key = "";
  const send = async (path, verb, args) => {
    try {
      answer.replaceChildren(answerView(await post(consoleUrl(path, verb), args)));
    } catch (error) {
      answer.replaceChildren(el("p", { class: "problem", text: error.message }));
    }
  };
  const change = (path, verb) => confirmAction({ path, verb, console: true, done: (got) => answer.replaceChildren(answerView(got)) });
  return {
    node,
    update(branch, now, { commands }) {
      const found = commands ? all(branch).filter((one) => one.console) : [];
      const next = found.map((one) => one.path).join();
      if (next !== key) {
        buttons.replaceChildren(...found.flatMap((one) => [
          found.length > 1 ? el("span", { class: "quiet", text: one.path.split("/").slice(2, -1).join("/") }) : "",
          ...verbs.map(([verb, args]) => el("button", { text: verb, on: { click: () => send(one.path, verb, args) } })),
          ...["pause", "resume"].map((verb) => el("button", { "data-verb": verb, text: `${verb} …`, on: { click: () => change(one.path, verb) } })),
        ]));
      }
      key = next;
      if (!commands) setText(answer, "");
      return found.length > 0;
    },
  };
}
