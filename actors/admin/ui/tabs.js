// Tabs whose choice is part of the address.

import { el, setAttr } from "./dom.js";
import { go, route } from "./router.js";

const STEPS = { ArrowRight: 1, ArrowLeft: -1 };

/** Returns the id of the panel of a tab. */
const panelOf = (tab) => `panel-${tab.id}`;

/**
 * Creates a row of tabs, `{id, title}`, and optionally `count`, an element beside the title. Arrow keys, Home and End move the focus, a
 * press calls `select(id)`. `panel(tab)` returns the id of a tab's panel. `update(open, chosen)` shows those of `tabs` that are in `open`.
 */
export function tabList(label, tabs, select, panel = panelOf) {
  const buttons = tabs.map((tab) => el("button", { type: "button", role: "tab", id: `tab-${tab.id}`, "aria-controls": panel(tab), on: { click: () => select(tab.id) } }, tab.title, tab.count ? [" ", tab.count] : []));
  const keydown = (event) => {
    const shown = buttons.filter((one) => !one.hidden);
    const next = { Home: 0, End: -1 }[event.key] ?? (event.key in STEPS ? (shown.indexOf(event.target) + STEPS[event.key]) % shown.length : null);
    if (next === null) return;
    event.preventDefault();
    shown.at(next).focus();
  };
  return {
    node: el("div", { class: "tabs", role: "tablist", "aria-label": label, on: { keydown } }, buttons),
    update(open, chosen) {
      tabs.forEach((tab, i) => {
        buttons[i].hidden = !open.includes(tab);
        setAttr(buttons[i], "aria-selected", String(tab === chosen));
        setAttr(buttons[i], "tabindex", tab === chosen ? "0" : "-1");
      });
    },
  };
}

/** Creates a view of several views in tabs, with the nodes `beside` at the right of the tabs. Each view is also a tab of `tabList`. */
export function tabbed(label, tabs, ...beside) {
  const list = tabList(label, tabs, (tab) => go(route().page, route().path, { tab }));
  const panels = tabs.map((tab) => el("div", { role: "tabpanel", id: panelOf(tab), "aria-labelledby": `tab-${tab.id}` }, tab.node));
  return {
    node: el("section", { class: "tabbed", "aria-label": label }, el("div", { class: "view-head" }, list.node, beside), panels),
    update(branch, now, options) {
      const open = tabs.filter((tab) => tab.update(branch, now, options));
      const chosen = open.find((tab) => tab.id === route().query.get("tab")) ?? open[0];
      list.update(open, chosen);
      tabs.forEach((tab, i) => setAttr(panels[i], "hidden", tab !== chosen));
      return open.length > 0;
    },
  };
}
