// Views of the queue: backlog and runs, instances, results, search for a job.

import { chart } from "./chart.js";
import { el, keyed, svg, table } from "./dom.js";
import { count, duration, isTime, moment } from "./format.js";
import { feed } from "./feed.js";
import { consoleOf, jobLink } from "./job_lists.js";
import { pagedTable } from "./paged_table.js";
import { all, answered, number, sum } from "./view_parts.js";

const HOUR = 3600;
const AGES = [
  { title: "Under 1 h", until: HOUR },
  { title: "Under 1 day", until: 24 * HOUR },
  { title: "Under 1 week", until: 7 * 24 * HOUR },
  { title: "Older", until: Infinity },
];
const CODES_SHOWN = 12;

/** Formats the time since a Unix time, in seconds. */
function since(seconds) {
  return duration(Date.now() - seconds * 1000);
}

/** Returns the position in AGES of the jobs of a run. Those of a run without a time count as new. */
function ageOf(run) {
  const age = isTime(run.run_started) ? Date.now() / 1000 - run.run_started : 0;
  return AGES.findIndex((one) => age < one.until);
}

function byFetcher(runs) {
  const fetchers = new Map();
  for (const run of runs.filter((one) => one.waiting > 0)) {
    const jobs = fetchers.get(run.fetcher) ?? AGES.map(() => 0);
    jobs[ageOf(run)] += run.waiting;
    fetchers.set(run.fetcher, jobs);
  }
  return [...fetchers].map(([name, jobs]) => ({ name, jobs, total: jobs.reduce((total, one) => total + one, 0) })).sort((a, b) => b.total - a.total);
}

function stacked(one, most) {
  let x = 0;
  const parts = one.jobs.map((jobs, age) => {
    const width = (100 * jobs) / Math.max(1, most);
    x += width;
    return svg("rect", { class: `age-${age}`, x: x - width, width, height: 8 });
  });
  return svg("svg", { class: "stacked", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, parts);
}

function stateOf(run) {
  if (run.refused) return "refused";
  if (run.deleted) return "deleted";
  return run.complete ? "complete" : "growing";
}

const RUN_COLUMNS = [
  { name: "Fetcher", sort: (run) => run.fetcher, cell: (run) => run.fetcher },
  { name: "Run", number: true, sort: (run) => run.run_started, cell: (run) => run.run_started },
  { name: "Age", number: true, sort: (run) => (isTime(run.run_started) ? -run.run_started : null), cell: (run) => (isTime(run.run_started) ? since(run.run_started) : "–") },
  { name: "Rows", number: true, sort: (run) => run.rows, cell: (run) => count(run.rows) },
  { name: "Waiting", number: true, sort: (run) => run.waiting, cell: (run) => count(run.waiting) },
  { name: "State", sort: stateOf, cell: stateOf },
];

/** Creates the tables of waiting jobs by fetcher and age, and of the runs. */
export function backlog() {
  const runTable = pagedTable("Runs", RUN_COLUMNS, "There are no runs.");
  return answered("Backlog by fetcher and age", "ls", (runs) => {
    const fetchers = byFetcher(runs);
    const ages = AGES.map((one, age) => ({ name: el("span", { class: `swatch swatch-${age}`, text: one.title }), number: true }));
    runTable.update([...runs].sort((a, b) => b.run_started - a.run_started));
    return [
      table("Waiting jobs by fetcher and age of the run", ["Fetcher", "Share", ...ages, number("Waiting")],
        fetchers.map((one) => [one.name, stacked(one, fetchers[0].total), ...one.jobs.map((jobs) => (jobs ? count(jobs) : "–")), count(one.total)]),
        "No job waits."),
      el("h3", { text: "Runs" }),
      runTable.node,
    ];
  }, { changed: (branch) => sum(branch, "waiting") });
}

/** Creates the table of the instances that share the queue. */
export function instances() {
  const lease = (branch) => all(branch).find((one) => one.path.endsWith("/lease"));
  const heads = ["Instance", "Lease", "Host", { name: "Worker socket", wide: true }, number("Fetchers"), number("In flight")];
  const until = (one) => (one.live ? "held" : `over since ${moment(one.lease_until * 1000)}`);
  const cells = (one) => [one.instance, until(one), one.host, one.socket, count(one.fetchers), count(one.in_flight)];
  return answered("Instances", "instances", (rows) => table("Instances that share the queue", heads, rows.map(cells)), {
    when: (branch) => lease(branch) !== undefined,
    changed: (branch) => `${lease(branch)?.note?.text} ${sum(branch, "in_flight")}`,
  });
}

/** Creates a chart of finished jobs for each exit code. */
export function exitCodes() {
  const grid = el("div", { class: "charts wide" });
  const node = el("section", { "aria-label": "Results by exit code" }, el("h2", { text: "Results by exit code" }), grid);
  const parts = new Map();
  let live = null;
  const draw = (column) => {
    for (const [code, part] of parts) part.graph.update(column(`done{exit_code=${code}}`, "rate"));
  };
  return {
    node,
    update(branch) {
      const codes = all(branch).flatMap((one) => one.metrics.filter((metric) => metric.name === "done" && metric.label?.name === "exit_code"));
      const shown = codes.sort((a, b) => b.value - a.value).slice(0, CODES_SHOWN);
      keyed(grid, parts, shown, (one) => one.label.value, (one) => {
        const code = one.label.value;
        const graph = chart(code === "0" ? "Exit code 0, success" : `Exit code ${code}`, (value) => `${count(value)}/s`, { small: true });
        const total = el("p", { class: "metric-sum" });
        return { graph, node: el("div", { class: "chart-box" }, graph.node, total), update: (now) => total.replaceChildren(`${count(now.value)} since the start`) };
      });
      live ??= feed(branch.path, ["done"], { below: "true" }, draw);
      if (shown.length) live.tick();
      return shown.length > 0;
    },
  };
}

/** Creates the search for an attribute path, which opens the page of its job. */
export function jobSearch() {
  const field = el("input", { id: "attr-path", required: true, autocomplete: "off", spellcheck: "false", placeholder: "python3Packages.requests" });
  const submit = (event) => {
    event.preventDefault();
    location.hash = jobLink(field.value.trim());
  };
  const node = el("section", { class: "view", "aria-label": "Search" }, el("h2", { text: "Search" }),
    el("form", { class: "search", on: { submit } }, el("label", { for: "attr-path", text: "Attribute path" }), field, el("button", { class: "main", text: "Show" })));
  return { node, update: (branch) => consoleOf(branch) !== "" };
}
