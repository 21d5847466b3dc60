// The overview page: a card for each subsystem, and the timeline.

import { why } from "./api.js";
import { chart } from "./chart.js";
import { el, keyed, setAttr, setText } from "./dom.js";
import { bytes, count, local } from "./format.js";
import { feed } from "./feed.js";
import { figures } from "./figures.js";
import { state } from "./live.js";
import { link } from "./router.js";
import { liveGlyph, worstOf } from "./states.js";
import { chartsOf } from "./subsystems.js";
import { timeline } from "./timeline.js";
import { problemItems, problems } from "./problems.js";

const WHY_MS = 2000;

/** The first cause that holds up work in a branch, asked for again every few seconds. */
function causeOf(path) {
  const text = el("p", { class: "cause" });
  let last = -Infinity;
  let told = [];
  return {
    node: text,
    /** Paths of the children whose reason it shows. */
    told: () => told,
    tick() {
      if (document.hidden || performance.now() - last < WHY_MS || state.status !== "live") return;
      last = performance.now();
      why(path).then(({ causes: [cause], activity }) => {
        setAttr(text, "data-kind", cause?.kind ?? "none");
        setAttr(text, "title", cause ? local(cause.evidence.join("; ")) : "");
        told = cause ? [cause.path, ...(cause.affects ?? [])] : [];
        const quiet = activity ? `Nothing holds up work: ${activity}` : "Nothing holds up work";
        setText(text, cause ? local(`${cause.path.split("/").slice(1).join("/")}: ${cause.text}. Do: ${cause.help}`) : quiet);
      }, () => setText(text, ""));
    },
  };
}

function card(first) {
  const id = first.id;
  const sign = liveGlyph();
  const summary = el("p", { class: "summary" });
  const cause = causeOf(first.path);
  const strip = figures(id);
  const list = el("ul", { class: "problems" });
  const [flow, backlog] = chartsOf(id).filter((one) => one.card);
  const charts = [flow, backlog].map((one) => ({ ...one, graph: chart(one.title, one.show, { small: true }) }));
  const live = feed(first.path, charts.flatMap((one) => one.metrics), { sum: "true" }, (column) => {
    for (const one of charts) one.graph.update(one.draw(column));
  });
  const node = el("article", { class: "card", "aria-label": id },
    el("header", {}, sign.node, el("h2", {}, el("a", { href: link(id), text: id }))),
    strip.node, summary, cause.node, list,
    el("div", { class: "charts" }, charts.map((one) => one.graph.node)),
    el("p", { class: "card-links" }, el("a", { href: link(id), text: "Details" }), el("a", { href: link("tree", first.path), text: "In the tree" })));
  return {
    node,
    update(branch) {
      const worst = worstOf(branch);
      sign.update(worst);
      setAttr(node, "data-state", worst);
      strip.update(branch, state);
      const found = problems(branch, { told: cause.told() });
      let many = 0;
      const visit = (one) => {
        if (one.children.length === 0) many += 1;
        one.children.forEach(visit);
      };
      visit(branch);
      setText(summary, found.length === 0 ? `All ${many} children are running` : `${found.length} of ${many} children ${found.length === 1 ? "has a problem" : "have problems"}`);
      problemItems(list, found, 4);
      live.tick();
      cause.tick();
    },
  };
}

export function overviewPage() {
  const cards = el("div", { class: "cards" });
  const known = new Map();
  const times = timeline();
  const facts = el("p", { class: "facts process" });
  const node = el("section", { "aria-label": "Overview" }, el("div", { class: "tools" }, el("h1", { text: "Overview" }), facts), cards, times.node);
  return {
    node,
    update(now) {
      const info = now.info;
      if (info) {
        setText(facts, `version ${info.version} · pid ${info.pid} · ${bytes(info.process.resident_bytes)} · ${count(info.process.threads)} threads · history ${bytes(info.history.used_bytes)} of ${bytes(info.history.limit_bytes)}`);
      }
      const branches = now.tree.root.children.filter((child) => child.children.length > 0);
      keyed(cards, known, branches, (one) => one.path, card);
      times.update(state);
    },
  };
}
