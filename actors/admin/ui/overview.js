// The overview page: a card for each subsystem, and the timeline.

import { causeBanner, causesOf } from "./causes.js";
import { chart } from "./chart.js";
import { el, keyed, setAttr, setText } from "./dom.js";
import { bytes, count } from "./format.js";
import { feed } from "./feed.js";
import { figures } from "./figures.js";
import { state } from "./live.js";
import { link } from "./router.js";
import { liveGlyph, stateOf, summaryOf } from "./states.js";
import { chartsOf } from "./subsystems.js";
import { timeline } from "./timeline.js";

/** Creates the card of a branch; `causes` tells what holds it up. */
const cardOf = (causes) => (first) => {
  const id = first.id;
  const sign = liveGlyph();
  const summary = el("p", { class: "summary" });
  const cause = el("p", { class: "cause quiet" });
  const strip = figures(id);
  const [flow, backlog] = chartsOf(id).filter((one) => one.card);
  const charts = [flow, backlog].map((one) => ({ ...one, graph: chart(one.title, one.show, { small: true }) }));
  const live = feed(first.path, charts.flatMap((one) => one.metrics), { sum: "true" }, (column) => {
    for (const one of charts) one.graph.update(one.draw(column));
  });
  const node = el("article", { class: "card", "aria-label": id },
    el("header", {}, sign.node, el("h2", {}, el("a", { href: link(id), text: id }))),
    strip.node, summary, cause,
    el("div", { class: "charts" }, charts.map((one) => one.graph.node)),
    el("p", { class: "card-links" }, el("a", { href: link(id), text: "Details" }), el("a", { href: link("tree", first.path), text: "In the tree" })));
  return {
    node,
    update(branch) {
      const shown = stateOf(branch);
      sign.update(shown);
      setAttr(node, "data-state", shown);
      strip.update(branch, state);
      setText(summary, summaryOf(branch));
      setText(cause, causes.quiet(branch.path));
      live.tick();
    },
  };
};

export function overviewPage() {
  const causes = causesOf("");
  const banner = causeBanner();
  const card = cardOf(causes);
  const cards = el("div", { class: "cards" });
  const known = new Map();
  const times = timeline();
  const facts = el("p", { class: "facts process" });
  const node = el("section", { "aria-label": "Overview" }, el("div", { class: "tools" }, el("h1", { text: "Overview" }), facts), banner.node, cards, times.node);
  return {
    node,
    update(now) {
      const info = now.info;
      if (info) {
        setText(facts, `version ${info.version} · pid ${info.pid} · ${bytes(info.process.resident_bytes)} · ${count(info.process.threads)} threads · history ${bytes(info.history.used_bytes)} of ${bytes(info.history.limit_bytes)}`);
      }
      causes.tick();
      banner.update(causes.severe());
      const branches = now.tree.root.children.filter((child) => child.children.length > 0);
      keyed(cards, known, branches, (one) => one.path, card);
      times.update(state);
    },
  };
}
