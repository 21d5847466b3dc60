// The details of one child: state, actions and tabs.

import { actionButtons } from "./actions.js";
import { el, setAttr, setText } from "./dom.js";
import { duration, local, moment, words } from "./format.js";
import { panelFor, TABS } from "./panels.js";
import { link as pageOf } from "./router.js";
import { hasNoPeer, linkBadge, liveGlyph, stateOf } from "./states.js";
import { tabList } from "./tabs.js";
import { restartsBelow } from "./tree_rows.js";

export function drawer({ close }) {
  const sign = liveGlyph();
  const title = el("h2", { id: "drawer-title" });
  const where = el("p", { class: "path" });
  const facts = el("p", { class: "facts" });
  const note = el("p", { class: "note", hidden: true });
  const actions = el("div", { class: "actions" });
  const tabs = tabList("About the child", TABS, (id) => select(id), () => "panel");
  const panel = el("div", { class: "panel", role: "tabpanel", tabindex: "0", id: "panel" });
  const shut = el("button", { class: "close", "aria-label": "Close", text: "×", on: { click: close } });
  const missing = el("p", { class: "quiet", hidden: true });
  const content = el("div", {}, where, facts, note, actions, tabs.node, panel);
  const node = el("aside", { class: "drawer", "aria-labelledby": "drawer-title", hidden: true },
    el("header", {}, sign.node, title, shut), missing, content);
  node.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });
  let shown = { path: "", tab: "", actions: "" };
  let current = null;

  let select = () => {};

  /** Restarts of the child itself, which its supervisor counts. */
  function restarts(child) {
    const below = restartsBelow(child);
    const own = child.restarts ? `${child.restarts} ${child.restarts === 1 ? "restart" : "restarts"}${below || child.children.length ? " of its own" : ""}, ${child.budget_left} left before the supervisor gives up` : null;
    return [own, below ? `${below} ${below === 1 ? "restart" : "restarts"} of children below it` : null].filter(Boolean).join(", ") || null;
  }

  function factsOf(child) {
    const parts = [
      child.kind,
      child.strategy ? words(child.strategy) : null,
      child.restart,
      `incarnation ${child.incarnation}`,
      child.started_ms && child.state === "running" ? `for ${duration(Date.now() - child.started_ms)}` : null,
      child.arbiter ? `arbiter ${child.arbiter}` : null,
      restarts(child),
      child.paused_until_ms === undefined ? null : `paused until ${moment(child.paused_until_ms)}`,
      child.retry_in_ms === undefined ? null : `tried again in ${duration(child.retry_in_ms)}`,
    ];
    return parts.filter(Boolean).join(" · ");
  }

  return {
    node,
    update(now) {
      node.hidden = now.path === "";
      if (node.hidden) return;
      select = now.select;
      const child = now.node;
      content.hidden = !child;
      missing.hidden = Boolean(child);
      setText(missing, `There is no child ${now.path}.`);
      setText(title, child ? child.label ?? child.id : now.path);
      if (!child) return;
      sign.update(stateOf(child));
      setText(where, child.path);
      const link = child.link ? [linkBadge(child.link)] : [];
      const targets = (child.sends_to ?? []).flatMap((to) => [" → ", el("a", { href: pageOf("tree", to), text: to })]);
      facts.replaceChildren(el("span", { class: "word", text: words(stateOf(child)) }), ` ${factsOf(child)} `, ...link, ...targets);
      const reason = hasNoPeer(child) && child.link.reason ? `${child.link.kind} to ${child.link.endpoint}: ${child.link.reason}` : child.note?.text;
      note.hidden = !reason;
      setText(note, local(reason ?? ""));
      const actionKey = `${child.path} ${child.state} ${now.commands}`;
      if (actionKey !== shown.actions) actions.replaceChildren(...(now.commands ? actionButtons(child) : []));
      const open = TABS.filter((tab) => !tab.when || tab.when(child, now));
      const tab = open.find((one) => one.id === now.tab) ?? open[0];
      tabs.update(open, tab);
      if (shown.path !== child.path || shown.tab !== tab.id) {
        current = panelFor(tab.id, child);
        panel.replaceChildren(current.node);
        setAttr(panel, "aria-labelledby", `tab-${tab.id}`);
      }
      shown = { path: child.path, tab: tab.id, actions: actionKey };
      current.update(child, now);
    },
  };
}
