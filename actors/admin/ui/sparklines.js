// A row of sparklines, each of which opens its chart below the row.

import { chart, latest, plot } from "./chart.js";
import { el, keyed, setAttr, setText } from "./dom.js";

function sparkline({ title, show }, id) {
  const graph = chart(title, show);
  const { node: picture, draw } = plot();
  const [now, more] = [el("span", { class: "chart-now" }), el("span", { class: "chart-title" })];
  setAttr(picture, "aria-hidden", "true");
  Object.assign(graph.node, { id, hidden: true });
  const toggle = () => {
    graph.node.hidden = !graph.node.hidden;
    setAttr(node, "aria-expanded", String(!graph.node.hidden));
  };
  const node = el("button", { type: "button", class: "sparkline", "aria-expanded": "false", "aria-controls": id, on: { click: toggle } },
    el("span", { class: "chart-title", text: title }), now, more, picture);
  return {
    node,
    graph,
    update(one) {
      draw(one.data);
      setText(now, latest(one.data, show));
      setText(more, one.more ?? "");
    },
  };
}

/**
 * Creates a row of sparklines. `update(charts)` draws one for each chart: `title`, `show` formats a value, `data` as of a chart, and
 * optionally `more`, a text beside the value.
 */
export function sparklines(label) {
  const row = el("div", { class: "sparklines", role: "group", "aria-label": label });
  const charts = el("div", { class: "charts wide" });
  const [small, large] = [new Map(), new Map()];
  return {
    node: el("div", {}, row, charts),
    update(shown) {
      keyed(row, small, shown, (one) => one.title, (one) => sparkline(one, `chart ${label} ${one.title}`.replaceAll(/\W+/g, "-")));
      keyed(charts, large, shown, (one) => one.title, ({ title }) => ({ node: small.get(title).graph.node, update: (one) => small.get(title).graph.update(one.data) }));
    },
  };
}
