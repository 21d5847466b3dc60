// The page of one subsystem: state, problems, views of its work, charts, and its branch of the tree.

import { actionButtons } from "./actions.js";
import { causeBanner, causesOf } from "./causes.js";
import { el, setAttr, setText } from "./dom.js";
import { lastSpan } from "./format.js";
import { figures } from "./figures.js";
import { feed } from "./feed.js";
import { route } from "./router.js";
import { sparklines } from "./sparklines.js";
import { liveGlyph, stateOf, summaryOf } from "./states.js";
import { chartsOf } from "./subsystems.js";
import { treeTable } from "./tree_page.js";
import { viewsOf } from "./views.js";

export function subsystemPage(name) {
  const sign = liveGlyph();
  const summary = el("span", { class: "facts" });
  const actions = el("div", { class: "actions" });
  const causes = causesOf(name);
  const banner = causeBanner();
  const cause = el("p", { class: "cause quiet" });
  const missing = el("p", { class: "quiet", hidden: true });
  const rows = treeTable({ filterId: "filter" });
  const views = viewsOf(name);
  const charts = chartsOf(name);
  const row = sparklines("Charts");
  const span = el("h2", { text: "Last hour" });
  const strip = figures(name);
  const content = el("div", {},
    strip.node,
    views.map((one) => one.node),
    span, row.node,
    el("div", { class: "tools" }, el("h2", { text: "Children" }), rows.field),
    rows.node);
  const node = el("section", { class: "subsystem", "aria-label": name },
    el("div", { class: "tools" }, el("h1", {}, sign.node, el("span", { text: name })), summary, actions),
    missing, banner.node, cause, content);
  let live = null;
  let actionKey = "";

  function drawCharts(column) {
    const drawn = charts.map((one) => ({ ...one, data: one.draw(column) })).filter((one) => one.data.found);
    row.update(drawn);
    if (drawn.length) setText(span, lastSpan(drawn[0].data.until - drawn[0].data.from));
  }

  return {
    node,
    update(now, { commands }) {
      const branch = now.tree.root.children.find((child) => child.id === name);
      missing.hidden = Boolean(branch);
      content.hidden = !branch;
      setText(missing, `The subsystem ${name} is not configured.`);
      if (!branch) return;
      sign.update(stateOf(branch));
      strip.update(branch, now);
      setText(summary, summaryOf(branch));
      causes.tick();
      banner.update(causes.severe());
      setText(cause, causes.quiet(branch.path));
      const buttons = `${branch.state} ${commands}`;
      if (buttons !== actionKey) actions.replaceChildren(...(commands ? actionButtons(branch) : []));
      actionKey = buttons;
      live ??= feed(branch.path, charts.flatMap((one) => one.metrics), { sum: "true" }, drawCharts);
      live.tick();
      for (const view of views) {
        const shown = view.update(branch, now, { commands });
        setAttr(view.node, "hidden", !shown);
      }
      rows.update({ root: branch, nodes: now.nodes, rates: now.rates, selected: route().path });
    },
  };
}
