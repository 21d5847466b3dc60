// The tree page: rows, filter, sorting, keyboard control, and the details of the selected child.

import * as api from "./api.js";
import { causeBanner, causesOf } from "./causes.js";
import { drawer } from "./drawer.js";
import { el, keyed, setAttr, setText } from "./dom.js";
import { clock } from "./format.js";
import { state } from "./live.js";
import { go, link, replaceQuery, route } from "./router.js";
import { COLUMNS, isFolded, rowPart, rowsOf } from "./tree_rows.js";

/** Creates the tree as a table with a filter field. */
export function treeTable(options) {
  const folds = new Map();
  const known = new Map();
  const marked = new Map();
  const sort = { key: null, down: true };
  let filter = "";
  let focused = null;
  let shown = [];
  let last = null;
  const body = el("tbody", { role: "rowgroup" });
  const heads = COLUMNS.map((one) => {
    const button = el("button", { text: one.title, on: { click: () => {
      if (sort.key === one.key && (one.key === "name") === sort.down) sort.key = null;
      else if (sort.key === one.key) sort.down = !sort.down;
      else Object.assign(sort, { key: one.key, down: one.key !== "name" });
      redraw();
    } } });
    return el("th", { role: "columnheader", scope: "col", class: `col-${one.key}${one.number ? " number" : ""}` }, button);
  });
  const table = el("table", { class: "tree", role: "treegrid", "aria-label": "Tree of children" },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads)), body);
  const field = el("input", { id: options.filterId, type: "search", placeholder: "Filter  /", "aria-label": "Filter the tree", on: { input: () => {
    filter = field.value;
    redraw();
  } } });
  const none = el("p", { class: "quiet", text: "No child matches the filter.", hidden: true });
  const create = rowPart({
    toggle(path) {
      const node = last.nodes.get(path);
      folds.set(path, !isFolded(node, folds));
      redraw();
    },
    open: (path) => go("tree", path, { at: route().query.get("at") }),
  });

  function redraw() {
    if (!last) return;
    shown = rowsOf(last.root, { filter, folds, sort, rates: last.rates });
    none.hidden = shown.length > 0;
    keyed(body, known, shown, (row) => row.node.path, create);
    if (!shown.some((row) => row.node.path === focused)) focused = shown[0]?.node.path ?? null;
    mark("tabindex", focused, "0", "-1");
    mark("aria-selected", last.selected, "true", null);
    heads.forEach((head, i) => {
      const is = COLUMNS[i].key === sort.key;
      setAttr(head, "aria-sort", is ? (sort.down ? "descending" : "ascending") : null);
    });
  }

  /** Gives the row at `path` a value of an attribute, and the row that had it before another one. */
  function mark(name, path, value, other) {
    const node = known.get(path)?.node ?? null;
    const before = marked.get(name);
    if (before && before !== node) setAttr(before, name, other);
    if (node) setAttr(node, name, value);
    marked.set(name, node);
  }

  function focus(path) {
    if (!path) return;
    focused = path;
    redraw();
    known.get(path)?.node.focus();
  }

  table.addEventListener("keydown", (event) => {
    const row = event.target.closest?.("tr[data-path]");
    if (!row) return;
    const at = shown.findIndex((one) => one.node.path === row.dataset.path);
    const here = shown[at];
    if (!here) return;
    const parent = () => shown.slice(0, at).findLast((one) => one.level < here.level)?.node.path;
    const folded = isFolded(here.node, folds);
    const keys = {
      ArrowDown: () => focus(shown[at + 1]?.node.path),
      ArrowUp: () => focus(shown[at - 1]?.node.path),
      Home: () => focus(shown[0].node.path),
      End: () => focus(shown.at(-1).node.path),
      ArrowRight: () => (here.node.children.length && folded ? folds.set(here.node.path, false) : focus(shown[at + 1]?.node.path)),
      ArrowLeft: () => (here.node.children.length && !folded ? folds.set(here.node.path, true) : focus(parent())),
      Enter: () => go("tree", here.node.path),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
    redraw();
  });
  body.addEventListener("focusin", (event) => {
    const row = event.target.closest("tr[data-path]");
    if (row) focused = row.dataset.path;
  });

  return {
    field,
    node: el("div", { class: "tree-box scroll" }, table, none),
    update(next) {
      last = next;
      redraw();
    },
    focusOn: focus,
    /** Unfolds the ancestors of a path. */
    reveal(path) {
      const parts = path.split("/");
      for (let i = 1; i < parts.length; i += 1) folds.set(parts.slice(0, i).join("/"), false);
    },
  };
}

function indexed(root) {
  const nodes = new Map();
  const visit = (node) => {
    nodes.set(node.path, node);
    node.children.forEach(visit);
  };
  visit(root);
  return nodes;
}

/** Creates the page. */
export function treePage() {
  const rows = treeTable({ filterId: "filter" });
  const causes = causesOf("");
  const banner = causeBanner();
  const past = el("p", { class: "past", role: "status", hidden: true });
  const pastText = el("span");
  const back = el("a", { href: link("tree"), text: "Back to the present" });
  past.append(pastText, " ", back);
  const side = drawer({ close: () => {
    const from = route().path;
    go("tree", "", { at: route().query.get("at") });
    rows.focusOn(from);
  } });
  const node = el("section", { class: "tree-page", "aria-label": "Tree" },
    el("div", { class: "tools" }, el("h1", { text: "Tree" }), rows.field, past), banner.node,
    el("div", { class: "split" }, rows.node, side.node));
  const cache = { at: null, tree: null };
  let open = "";

  async function fetchPast(at) {
    cache.at = at;
    cache.tree = null;
    try {
      cache.tree = await api.get(`/v1/tree?at=${encodeURIComponent(at)}`);
      setText(pastText, `The tree at ${clock(cache.tree.captured_at_ms)}.`);
    } catch (error) {
      setText(pastText, error.message);
    }
    page.update(state, { ...route(), commands: false });
  }

  const page = {
    node,
    update(now, { path, query, commands }) {
      const at = query.get("at");
      if (at && cache.at !== at) fetchPast(at);
      const isPast = Boolean(at && cache.tree);
      past.hidden = !at;
      causes.tick();
      banner.update(at ? [] : causes.severe());
      setAttr(back, "href", link("tree", path));
      const tree = isPast ? cache.tree : now.tree;
      const nodes = isPast ? indexed(tree.root) : now.nodes;
      const target = path === "" || nodes.has(path) ? path : `${tree.root.id}/${path}`;
      if (target && target !== open) rows.reveal(target);
      open = target;
      rows.update({ root: tree.root, nodes, rates: isPast ? new Map() : now.rates, selected: target });
      setAttr(node, "data-open", target ? "true" : null);
      side.update({ node: nodes.get(target), path: target, tab: query.get("tab"), events: now.events, commands: commands && !isPast, past: isPast, select: (tab) => replaceQuery({ tab }) });
    },
  };
  return page;
}
