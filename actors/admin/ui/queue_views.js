// Views of the queue: backlog and runs, instances, results, search for a job.

import { el, setText, svg, table } from "./dom.js";
import { count, duration, isTime, moment, rate } from "./format.js";
import { feed } from "./feed.js";
import { jobLink } from "./job_lists.js";
import { pagedTable } from "./paged_table.js";
import { sparklines } from "./sparklines.js";
import { all, answered, number, sum } from "./view_parts.js";

const HOUR = 3600;
const AGES = [
  { title: "Under 1 h", until: HOUR },
  { title: "Under 1 day", until: 24 * HOUR },
  { title: "Under 1 week", until: 7 * 24 * HOUR },
  { title: "Older", until: Infinity },
];
const CODES_SHOWN = 12;
const FETCHERS_SHOWN = 5;

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
  const found = [...fetchers].map(([name, jobs]) => ({ name, jobs, total: jobs.reduce((total, one) => total + one, 0) })).sort((a, b) => b.total - a.total);
  return found.map((one) => ({ ...one, most: found[0].total }));
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

/** Columns of the backlog; its rows are in the order of the waiting jobs, and the first has `most` of them. */
const BACKLOG_COLUMNS = [
  { name: "Fetcher", sort: (one) => one.name, cell: (one) => one.name },
  { name: "Share", cell: (one) => stacked(one, one.most) },
  ...AGES.map(({ title }, age) => ({ name: title, mark: `swatch swatch-${age}`, number: true, sort: (one) => one.jobs[age], cell: (one) => (one.jobs[age] ? count(one.jobs[age]) : "–") })),
  { name: "Waiting", number: true, sort: (one) => one.total, cell: (one) => count(one.total) },
];

/** Creates the tables of waiting jobs by fetcher and age, and of the runs. */
export function backlog() {
  const fetcherTable = pagedTable("Waiting jobs by fetcher and age of the run", BACKLOG_COLUMNS, "No job waits.", FETCHERS_SHOWN);
  const runTable = pagedTable("Runs", RUN_COLUMNS, "There are no runs.");
  const content = [fetcherTable.node, el("h3", { text: "Runs" }), runTable.node];
  const many = el("span");
  const part = answered("Backlog by fetcher and age", "ls", (runs) => {
    setText(many, count(runs.length));
    fetcherTable.update(byFetcher(runs));
    runTable.update([...runs].sort((a, b) => b.run_started - a.run_started));
    return content;
  }, { changed: (branch) => sum(branch, "waiting") });
  return { ...part, count: many };
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

/** Creates a sparkline of finished jobs for each exit code. */
export function exitCodes() {
  const row = sparklines("Results by exit code");
  const node = el("section", { "aria-label": "Results by exit code" }, el("h2", { text: "Results by exit code" }), row.node);
  let shown = [];
  let live = null;
  const draw = (column) => row.update(shown.map((one) => {
    const code = one.label.value;
    const title = code === "0" ? "Exit code 0, success" : `Exit code ${code}`;
    return { title, show: rate, data: column(`done{exit_code=${code}}`, "rate"), more: `${count(one.value)} since the start` };
  }));
  return {
    node,
    update(branch) {
      const codes = all(branch).flatMap((one) => one.metrics.filter((metric) => metric.name === "done" && metric.label?.name === "exit_code"));
      shown = codes.sort((a, b) => b.value - a.value).slice(0, CODES_SHOWN);
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
  return el("form", { class: "search", role: "search", on: { submit } }, el("label", { for: "attr-path", text: "Attribute path" }), field, el("button", { text: "Show" }));
}
