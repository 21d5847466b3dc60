// Creation and update of elements. Texts are never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

function build(node, props, children) {
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on") for (const [name, handler] of Object.entries(value)) node.addEventListener(name, handler);
    else if (key === "text") node.textContent = value;
    else if (key === "value") node.value = value;
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** Creates an element. `props` are attributes, `text`, `value`, and `on` with event listeners. */
export function el(tag, props = {}, ...children) {
  return build(document.createElement(tag), props, children);
}

/** Creates an SVG element. */
export function svg(tag, props = {}, ...children) {
  return build(document.createElementNS(SVG, tag), props, children);
}

/** Sets a node's text if it differs. */
export function setText(node, text) {
  const value = String(text);
  if (node.textContent !== value) node.textContent = value;
}

/** Sets an attribute if it differs; null removes it. */
export function setAttr(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
}

/**
 * Updates the children of `parent` to match `items` in order, and reuses nodes with a known key.
 * `create(item)` returns an object with `node` and `update(item)`.
 */
export function keyed(parent, known, items, keyOf, create) {
  const seen = new Set();
  let at = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    seen.add(key);
    let part = known.get(key);
    if (!part) {
      part = create(item);
      known.set(key, part);
    }
    part.update(item);
    if (part.node === at) at = at.nextSibling;
    else parent.insertBefore(part.node, at);
  }
  for (const [key, part] of known) {
    if (!seen.has(key)) {
      part.node.remove();
      known.delete(key);
    }
  }
}

/** Creates a table with a header row. Heads and cells are texts or elements; `number` and `wide` of a head apply to its column, `label` names it. */
export function table(caption, heads, rows, empty = "Nothing yet.") {
  if (rows.length === 0) return el("p", { class: "quiet", text: empty });
  // On a narrow screen each cell is a line with the name of its column.
  const label = (one) => one?.label ?? (one?.name ?? one)?.textContent ?? one?.name ?? one;
  const cell = (value, i) => el("td", { class: heads[i]?.number ? "number" : heads[i]?.wide ? "wide" : null, "data-label": label(heads[i]) }, value instanceof Node ? value : String(value ?? ""));
  const head = heads.map((one) => {
    const name = one.name ?? one;
    return el("th", { scope: "col", class: one.number ? "number" : null }, name);
  });
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    el("table", {},
      el("caption", { class: "unseen", text: caption }),
      el("thead", {}, el("tr", {}, head)),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell))))));
}
