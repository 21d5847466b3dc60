// Rows of the tree: selection, order and content.

import { el, setAttr, setText } from "./dom.js";
import { bounds, count, rate, words } from "./format.js";
import { link } from "./router.js";
import { linkBadge, liveGlyph, stateOf, strip } from "./states.js";

/** Number of children from which a branch is folded at first, as pools are. */
const FOLD_FROM = 24;

export const COLUMNS = [
  { key: "name", title: "Child" },
  { key: "state", title: "State" },
  { key: "restarts", title: "Restarts", number: true },
  { key: "depth", title: "Waiting", number: true },
  { key: "rate", title: "Rate", number: true },
  { key: "p99", title: "p99", number: true },
  { key: "link", title: "Link" },
];

function own(node, value, join) {
  const mine = node.mailboxes.map(value);
  return node.children.reduce((so, child) => join(so, own(child, value, join)), mine.reduce(join, 0));
}

const add = (a, b) => a + b;

/** Returns true if a child or a descendant has a mailbox, whose messages are counted. */
function isCounted(node) {
  return node.mailboxes.length > 0 || node.children.some(isCounted);
}

/** Returns the restarts of a child's descendants. */
export function restartsBelow(node) {
  return node.children.reduce((sum, child) => sum + child.restarts + restartsBelow(child), 0);
}

/** Returns the values of a child's columns. Those of a supervisor include its descendants. */
export function valuesOf(node, rates) {
  const restarts = restartsBelow(node);
  return {
    state: stateOf(node),
    restarts: node.restarts + restarts,
    below: restarts,
    depth: isCounted(node) ? own(node, (mailbox) => mailbox.depth, add) : null,
    capacity: node.mailboxes.reduce((sum, mailbox) => sum + mailbox.capacity, 0),
    rate: isCounted(node) ? rates.get(node.path) ?? null : null,
    p99: own(node, (mailbox) => Math.max(0, ...mailbox.messages.map((one) => one.handling_us[2])), Math.max),
  };
}

export function isFolded(node, folds) {
  return folds.get(node.path) ?? (node.kind === "pool" || node.children.length >= FOLD_FROM);
}

function matches(node, words) {
  const text = [node.path, node.label, node.kind, stateOf(node), node.arbiter, node.link?.kind, node.link?.state]
    .filter(Boolean).join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

function ordered(children, sort, rates) {
  if (!sort.key) return children;
  const value = (node) => (sort.key === "name" ? node.id : sort.key === "link" ? node.link?.state ?? "" : valuesOf(node, rates)[sort.key] ?? -1);
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
  return [...children].sort((a, b) => compare(value(a), value(b)) * (sort.down ? -1 : 1));
}

/** Returns the rows to show: `{node, level, values, folded, matched}`. */
export function rowsOf(root, { filter, folds, sort, rates }) {
  const terms = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [];
  const visit = (node, level) => {
    const at = rows.length;
    const matched = matches(node, terms);
    const folded = terms.length === 0 && isFolded(node, folds);
    rows.push({ node, level, values: valuesOf(node, rates), folded, matched: terms.length > 0 && matched });
    let any = matched;
    if (!folded) for (const child of ordered(node.children, sort, rates)) any = visit(child, level + 1) || any;
    if (!any) rows.length = at;
    return any;
  };
  visit(root, 1);
  return rows;
}

/** Returns the path of a child as that of a sibling of `path`, or without the root. */
function nameFor(path, of) {
  const near = path.slice(0, path.lastIndexOf("/") + 1);
  return of.startsWith(near) ? of.slice(near.length) : of.split("/").slice(1).join("/");
}

/** Returns a function that creates the elements of a row. */
export function rowPart(handlers) {
  return (first) => {
    const path = first.node.path;
    const sign = liveGlyph();
    const toggle = el("button", { class: "toggle", tabindex: "-1", on: { click: (event) => {
      event.stopPropagation();
      handlers.toggle(path);
    } } });
    const name = el("a", { class: "name", tabindex: "-1" });
    const label = el("span", { class: "label" });
    const kind = el("span", { class: "kind" });
    const strips = el("span", { class: "strips" });
    const cells = Object.fromEntries(COLUMNS.map((one) => [one.key, el("td", { role: "gridcell", class: `col-${one.key}${one.number ? " number" : ""}` })]));
    const words_ = el("span");
    cells.state.append(sign.node, words_);
    cells.name.append(el("span", { class: "name-line" }, toggle, name, label, kind), strips);
    const node = el("tr", { role: "row", tabindex: "-1", on: { click: () => handlers.open(path) } }, Object.values(cells));
    node.dataset.path = path;
    let key = "";
    let stripKey = "";
    let linkKey = "";
    return {
      node,
      update(row) {
        const { node: child, values, folded } = row;
        const parent = child.children.length > 0;
        // Most rows of a large tree do not change, and each attribute that is read or written costs time.
        const next = [row.level, row.matched, folded, parent, child.label, ...Object.values(values), child.link?.state, child.link?.reason].join("\n");
        if (next === key && !(folded && parent)) return;
        key = next;
        setAttr(node, "aria-level", row.level);
        setAttr(node, "data-level", Math.min(row.level, 8));
        setAttr(node, "aria-expanded", parent ? String(!folded) : null);
        setAttr(node, "data-state", values.state);
        setAttr(node, "class", row.matched ? "matched" : null);
        setAttr(toggle, "aria-label", parent ? `${folded ? "Unfold" : "Fold"} ${child.id}` : null);
        setAttr(toggle, "data-folded", parent ? String(folded) : null);
        toggle.disabled = !parent;
        setText(name, child.id);
        setAttr(name, "href", link("tree", path));
        const targets = (child.sends_to ?? []).map((to) => `→ ${nameFor(path, to)}`);
        setText(label, [child.label === child.id ? "" : child.label, ...targets].filter(Boolean).join(" "));
        setText(kind, child.kind === "pool" ? `pool of ${child.children.length}` : child.strategy ? words(child.strategy) : child.kind);
        sign.update(values.state);
        setText(words_, words(values.state));
        setText(cells.restarts, values.below ? `${count(child.restarts)} (+${count(values.below)})` : count(child.restarts));
        setAttr(cells.restarts, "title", values.below ? `${child.restarts} of its own, ${values.below} of children below it` : null);
        setAttr(cells.restarts, "data-some", values.restarts > 0 ? "true" : null);
        const capacity = values.capacity && !parent ? `/${count(values.capacity)}` : "";
        setText(cells.depth, `${count(values.depth)}${capacity}`);
        setAttr(cells.depth, "data-full", values.capacity && values.depth >= values.capacity * 0.8 ? "true" : null);
        setText(cells.rate, rate(values.rate));
        setText(cells.p99, bounds(values.p99));
        const linkNow = child.link ? JSON.stringify([child.link.kind, child.link.state, child.link.reason]) : "";
        if (linkNow !== linkKey) cells.link.replaceChildren(...(child.link ? [linkBadge(child.link)] : []));
        linkKey = linkNow;
        const stripNow = folded && parent ? child.children.map(stateOf).join() : "";
        if (stripNow !== stripKey) strips.replaceChildren(...(stripNow ? [strip(child.children)] : []));
        stripKey = stripNow;
      },
    };
  };
}
