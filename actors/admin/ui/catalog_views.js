// Views of the catalog: rules with their lag, rows and errors.

import { el, table } from "./dom.js";
import { count, duration, inUnit, local, moment, words } from "./format.js";
import { link } from "./router.js";
import { stateOf } from "./states.js";
import { all, answered, number, section, wide } from "./view_parts.js";

const COLUMNS = [["lag", "Lag"], ["in_progress", "In hand"], ["oldest_claim", "Oldest lease"], ["done", "Done"], ["failed", "Failed"], ["dead", "Dead"], ["lost", "Lost"], ["taken_over", "Taken over"]];

function byLabel(node, name) {
  return node.metrics.find((one) => one.name === name && one.label?.name === "rule");
}

function shown(one, node) {
  if (!one) return "–";
  // The age of a lease that no row has is unknown, and the lag ends with the last row.
  if (one.name === "oldest_claim") return one.value === 0 ? "–" : duration(Date.now() - one.value * 1000);
  if (one.name === "lag" && byLabel(node, "in_progress")?.value === 0) return "–";
  return inUnit(one.value, one.unit);
}

/** Creates the table of the rules, one row for each. */
export function ruleTable() {
  const part = section("Rules");
  return {
    node: part.node,
    update(branch) {
      const rules = all(branch).filter((node) => byLabel(node, "claimed"));
      const columns = COLUMNS.filter(([name]) => rules.some((node) => byLabel(node, name)));
      const state = (node) => (byLabel(node, "parked")?.value === 1 ? "parked" : words(stateOf(node)));
      const rows = rules.map((node) => [node.path, state(node), columns.map(([name]) => shown(byLabel(node, name), node)), local(node.blocker?.text ?? node.note?.text ?? "")]);
      part.draw(JSON.stringify(rows), () => [table("Rules", ["Rule", "State", ...columns.map(([, title]) => number(title)), wide("Waits for")],
        rows.map(([path, shownState, cells, note], i) => [el("a", { href: link("tree", path), text: rules[i].label ?? rules[i].id }), shownState, ...cells, note]))]);
      return rules.length > 0;
    },
  };
}

/** Returns the texts that a rule keeps for operators. */
function errors(rule) {
  return [rule.reason, rule.last_error, ...(rule.unsettled ?? []).slice(-3)].filter(Boolean);
}

/** Creates the states and last errors of the rules, from the consoles of the catalogs. */
export function ruleStates() {
  return answered("Last errors", "status", (status) => {
    const rules = Object.entries(status.rules);
    const notices = status.notices.up ? `${count(status.notices.count)} change notices` : "no change notices";
    return [
      el("p", { class: "quiet", text: `${status.base} · agent ${status.agent} · ${notices}` }),
      el("ul", { class: "problems" }, rules.flatMap(([name, rule]) => errors(rule).map((text) => el("li", {}, el("span", { class: "word", text: name }), ` ${local(text)}`)))),
      rules.some(([, rule]) => errors(rule).length) ? null : el("p", { class: "quiet", text: "There are no errors." }),
      table("States of the rules", ["Rule", "Phase", ...["Handlers", "Deferred", "Polls"].map(number), "Last poll"],
        rules.map(([name, rule]) => [name, rule.phase, count(rule.working), count(rule.deferred), count(rule.polls), rule.last_poll ? moment(Date.parse(rule.last_poll)) : "–"]), "There are no rules."),
    ];
  });
}
