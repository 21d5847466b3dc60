// Views of provenance: workers by exchange and range, durations, dead letters.

import { el, table } from "./dom.js";
import { bounds, count, local, moment, rate, words } from "./format.js";
import { meter } from "./meter.js";
import { link } from "./router.js";
import { glyph, stateOf } from "./states.js";
import { all, answered, metric, number, section, sum, wide } from "./view_parts.js";

const LETTERS_SHOWN = 20;
/** Maximum number of characters of a dead letter. */
const ROW_SHOWN = 160;

/** Returns the beginning of a long text. */
function shortened(text) {
  return text.length > ROW_SHOWN ? `${text.slice(0, ROW_SHOWN)}… (${count(text.length)} characters)` : text;
}

/** Splits a label such as `content_0` into row and column. */
function cellOf(one, rateOf) {
  const name = one.label ?? one.id;
  const cut = name.lastIndexOf("_");
  const waits = (metric(one, "waiting") ?? 0) + one.mailboxes.reduce((total, mailbox) => total + mailbox.depth, 0);
  return { one, name, row: cut < 0 ? "workers" : name.slice(0, cut), column: name.slice(cut + 1), rate: rateOf(one.path) ?? 0, waits };
}

function heatCell(cell, most) {
  const state = stateOf(cell.one);
  const shade = cell.rate > 0 ? 1 + Math.min(4, Math.floor((cell.rate / most) * 4.99)) : 0;
  const shown = state === "running" ? [el("span", { class: "heat-rate", text: cell.rate > 0 ? count(Math.round(cell.rate)) : "·" }), cell.waits > 0 ? el("span", { class: "heat-waits", text: count(cell.waits) }) : null] : [glyph(state)];
  const name = el("span", { class: "unseen", text: `${cell.name}, ${words(state)}, rows per second, waiting: ` });
  return el("td", { class: `heat heat-${shade} ${state === "running" ? "" : "heat-off"}` },
    el("a", { href: link("tree", cell.one.path), title: `${cell.name}: ${rate(cell.rate)}, ${cell.waits} waiting, ${words(state)}` }, name, ...shown.filter(Boolean)));
}

function heatTable(cells, most) {
  const rows = [...new Set(cells.map((cell) => cell.row))];
  const columns = [...new Set(cells.map((cell) => cell.column))];
  return el("table", { class: "heat-map" },
    el("caption", { class: "unseen", text: "Workers by exchange and range; each cell has rows per second and waiting rows" }),
    el("thead", {}, el("tr", {}, el("td"), columns.map((one) => el("th", { scope: "col", text: one })))),
    el("tbody", {}, rows.map((row) => el("tr", {}, el("th", { scope: "row", text: words(row) }),
      columns.map((column) => {
        const cell = cells.find((one) => one.row === row && one.column === column);
        return cell ? heatCell(cell, most) : el("td");
      })))));
}

/** Creates the map of the workers: a cell for each exchange and range, with rows per second and, below, waiting rows. */
export function heatMap() {
  const part = section("Workers");
  const measure = meter();
  let latest = null;
  const draw = () => {
    const { pool, at } = latest;
    const rateOf = measure(at, new Map(pool.children.map((one) => [one.path, metric(one, "stored") ?? 0])));
    const cells = pool.children.map((one) => cellOf(one, rateOf));
    const key = JSON.stringify(cells.map((cell) => [Math.round(cell.rate), cell.waits, stateOf(cell.one)]));
    part.draw(key, () => {
      const most = Math.max(1, ...cells.map((cell) => cell.rate));
      return [el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Workers" }, heatTable(cells, most)),
        el("p", { class: "quiet", text: `Columns: ranges. Upper number and shade: rows per second over the last 30 s, at most ${rate(most)}. Lower number: waiting messages and rows.` })];
    });
  };
  return {
    node: part.node,
    update(branch, now) {
      const pool = all(branch).find((one) => one.kind === "pool" && one.children.length > 0);
      if (!pool) return false;
      const isFirst = latest === null;
      latest = { pool, at: now.tree.captured_at_ms };
      draw();
      // Without the history, the page's next read of the tree gives the rates.
      if (isFirst) measure.recall(pool.path, "stored", latest.at).then(draw, () => {});
      return true;
    },
  };
}

/** Creates the table of durations by method. */
export function latencies() {
  const part = section("Latency by method");
  return {
    node: part.node,
    update(branch) {
      const found = all(branch).flatMap((node) => node.timings.filter((one) => one.count > 0));
      const only = new Set(found.map((one) => one.name)).size === 1;
      const rows = found.map((one) => [only ? one.value : `${words(one.name)} · ${one.value}`, count(one.count), ...one.us.map(bounds)]);
      part.draw(JSON.stringify(rows), () => [table("Latency by method", ["Method", ...["Count", "p50", "p95", "p99"].map(number)], rows)]);
      return rows.length > 0;
    },
  };
}

/** Returns the view of refused rows by worker and that of the latest dead letters. */
export function deadLetters() {
  const part = section("Dead letters by worker");
  const counted = {
    node: part.node,
    update(branch) {
      const kept = sum(branch, "dead_lettered");
      const workers = all(branch).filter((one) => (metric(one, "refused") ?? 0) > 0).sort((a, b) => metric(b, "refused") - metric(a, "refused"));
      const rows = workers.slice(0, 16).map((one) => [one.path, one.label ?? one.id, metric(one, "refused"), one.note?.text ?? ""]);
      part.draw(JSON.stringify([kept, rows]), () => [
        el("p", { text: `${count(kept ?? 0)} rows were stored as dead letters since the start.` }),
        table("Refused rows by worker", ["Worker", number("Refused rows"), wide("Note")], rows.map(([path, name, refused, note]) => [el("a", { href: link("tree", path), text: name }), count(refused), note]), "No row was refused."),
      ]);
      return kept !== null;
    },
  };
  const latest = answered("Latest dead letters", "dead-letters", (letters) =>
    table("Dead letters", ["Last at", number("Times"), wide("Reason"), wide("Row")],
      letters.map((one) => [moment(one.last_at * 1000), count(one.times), local(one.reason), el("code", { text: shortened(JSON.stringify(one.line)) })]), "There are no dead letters."), { args: { limit: LETTERS_SHOWN }, when: (branch) => sum(branch, "dead_lettered") !== null });
  return [counted, latest];
}
