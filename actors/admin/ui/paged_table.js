// A table in pages, sorted by any column.

import { el, setAttr, setText, table } from "./dom.js";
import { count } from "./format.js";

/** Compares two sort keys. Rows without one come last in both directions. */
function compare(a, b, down) {
  if (a === null || a === undefined || b === null || b === undefined) return Number(a === null || a === undefined) - Number(b === null || b === undefined);
  const order = typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
  return down ? -order : order;
}

/**
 * Creates a table with at most `most` rows a page. A column has `name`, `cell(row)`, which returns a text or an element, and optionally
 * `sort(row)`, `number`, `wide`, and `mark`, classes of its head. `update(rows)` keeps the page and the order.
 */
export function pagedTable(caption, columns, empty, most = 20) {
  const body = el("div");
  const at = el("span", { class: "quiet" });
  const [back, next] = [["Previous", -1], ["Next", 1]].map(([text, step]) => el("button", { type: "button", text, "aria-label": `${text} page of ${caption}`, on: { click: () => {
    page += step;
    draw();
  } } }));
  const pager = el("p", { class: "buttons pager" }, back, next, at);
  const sort = { column: null, down: false };
  let rows = [];
  let page = 0;

  function sortBy(column) {
    if (sort.column === column && sort.down) sort.column = null;
    else Object.assign(sort, { column, down: sort.column === column });
    page = 0;
    draw();
    body.querySelectorAll("th button")[columns.filter((one) => one.sort).indexOf(column)]?.focus();
  }

  function draw() {
    const ordered = sort.column ? [...rows].sort((a, b) => compare(sort.column.sort(a), sort.column.sort(b), sort.down)) : rows;
    const pages = Math.max(1, Math.ceil(rows.length / most));
    page = Math.max(0, Math.min(page, pages - 1));
    const first = page * most;
    const shown = ordered.slice(first, first + most);
    const heads = columns.map((one) => ({ ...one, label: one.name, name: one.sort ? el("button", { type: "button", class: `sort ${one.mark ?? ""}`, text: one.name, on: { click: () => sortBy(one) } }) : one.name }));
    body.replaceChildren(table(caption, heads, shown.map((row) => columns.map((one) => one.cell(row))), empty));
    const cells = body.querySelectorAll("th");
    columns.forEach((one, i) => cells[i] && setAttr(cells[i], "aria-sort", one === sort.column ? (sort.down ? "descending" : "ascending") : null));
    pager.hidden = pages < 2;
    back.disabled = page === 0;
    next.disabled = page + 1 >= pages;
    setText(at, `${count(first + 1)} to ${count(first + shown.length)} of ${count(rows.length)}`);
  }

  return {
    node: el("div", {}, body, pager),
    update(found) {
      rows = found;
      draw();
    },
  };
}
