// Views of the queue: runs and backlog, jobs in flight, results, search.

import { consoleUrl, post } from "./api.js";
import { chart } from "./chart.js";
import { el, keyed, svg, table } from "./dom.js";
import { count, duration } from "./format.js";
import { feed } from "./feed.js";
import { all, answered, number, sum } from "./view_parts.js";

const HOUR = 3600;
const AGES = [
  { title: "Under 1 h", until: HOUR },
  { title: "Under 1 day", until: 24 * HOUR },
  { title: "Under 1 week", until: 7 * 24 * HOUR },
  { title: "Older", until: Infinity },
];
const RUNS_SHOWN = 50;
const CODES_SHOWN = 12;

/** Formats the time since a Unix time, in seconds. */
function since(seconds) {
  return duration(Date.now() - seconds * 1000);
}

/** Smallest number of a run that is a time, in seconds: others only have an order, such as that of jobs of other subsystems. */
const TIME_MIN = 1e9;

/** Returns the position in AGES of the rows of a run. Those of a run without a time count as new. */
function ageOf(run) {
  const age = run.run_started < TIME_MIN ? 0 : Date.now() / 1000 - run.run_started;
  return AGES.findIndex((one) => age < one.until);
}

function byFetcher(runs) {
  const fetchers = new Map();
  for (const run of runs) {
    const rows = fetchers.get(run.fetcher) ?? AGES.map(() => 0);
    rows[ageOf(run)] += run.rows;
    fetchers.set(run.fetcher, rows);
  }
  return [...fetchers].map(([name, rows]) => ({ name, rows, total: rows.reduce((total, one) => total + one, 0) })).sort((a, b) => b.total - a.total);
}

function stacked(one, most) {
  let x = 0;
  const parts = one.rows.map((rows, age) => {
    const width = (100 * rows) / Math.max(1, most);
    x += width;
    return svg("rect", { class: `age-${age}`, x: x - width, width, height: 8 });
  });
  return svg("svg", { class: "stacked", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, parts);
}

/** Creates the tables of the backlog by fetcher and age, and of the runs. */
export function backlog() {
  return answered("Backlog by fetcher and age", "ls", (runs) => {
    const fetchers = byFetcher(runs);
    const newest = [...runs].sort((a, b) => b.run_started - a.run_started).slice(0, RUNS_SHOWN);
    const ages = AGES.map((one, age) => ({ name: el("span", { class: `swatch swatch-${age}`, text: one.title }), number: true }));
    return [
      table("Rows by fetcher and age of the run", ["Fetcher", "Share", ...ages, number("Rows")],
        fetchers.map((one) => [one.name, stacked(one, fetchers[0].total), ...one.rows.map((rows) => (rows ? count(rows) : "–")), count(one.total)]),
        "There are no runs."),
      el("h3", { text: runs.length > RUNS_SHOWN ? `Newest ${RUNS_SHOWN} of ${count(runs.length)} runs` : "Runs" }),
      table("Runs", ["Fetcher", number("Run"), number("Age"), number("Rows"), "State"],
        newest.map((run) => [run.fetcher, run.run_started, run.run_started < TIME_MIN ? "–" : since(run.run_started), count(run.rows), run.refused ? "refused" : run.deleted ? "deleted" : run.complete ? "complete" : "growing"]),
        "There are no runs."),
    ];
  });
}

/** Returns true if the queue records attempts. */
const hasAttempts = (branch) => sum(branch, "in_flight") !== null;

/** Creates the table of jobs in flight, longest first. */
export function inFlight() {
  return answered("Jobs in flight, longest first", "in-flight", (jobs) =>
    table("Jobs in flight", ["Attribute path", number("For"), "Fetcher", "Worker"],
      jobs.map((job) => [job.attr_path, duration(job.seconds * 1000), job.fetcher ?? "–", job.connection ?? "–"]), "No job is in flight."),
  { args: { n: 50 }, when: hasAttempts });
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

function found(answer) {
  const job = answer.in_flight;
  const waits = (one) => (one.held_until ? `held for ${duration(one.held_until * 1000 - Date.now())}` : one.limited ? "limited" : `place ${count(one.position)}`);
  return [
    el("p", { text: job ? `In flight for ${since(job.started)} at ${job.connection ?? "an unknown worker"}.` : "Not in flight." }),
    table("Waiting", ["Fetcher", number("Run"), "State", "Payload"], answer.waiting.map((one) => [one.fetcher, one.run_started, waits(one), one.payload]), "Nothing waits."),
    el("h3", { text: "Attempts" }),
    table("Attempts", [number("Ago"), number("Exit code"), number("Duration"), "Worker"],
      answer.attempts.map((one) => [since(one.started), one.exit_code ?? "–", one.seconds === null ? "–" : duration(one.seconds * 1000), one.connection ?? "–"]), "There was no attempt."),
  ];
}

/** Creates the search for an attribute path. */
export function jobSearch() {
  const field = el("input", { id: "attr-path", required: true, autocomplete: "off", spellcheck: "false", placeholder: "python3Packages.requests" });
  const answer = el("div", { role: "status" });
  let path = "";
  const submit = async (event) => {
    event.preventDefault();
    try {
      answer.replaceChildren(...found(await post(consoleUrl(path, "show"), { attr_path: field.value.trim() })));
    } catch (error) {
      answer.replaceChildren(el("p", { class: "problem", text: error.message }));
    }
  };
  const node = el("section", { class: "view", "aria-label": "Search" }, el("h2", { text: "Search" }),
    el("form", { class: "search", on: { submit } }, el("label", { for: "attr-path", text: "Attribute path" }), field, el("button", { class: "main", text: "Show" })), answer);
  return {
    node,
    update(branch) {
      path = all(branch).find((one) => one.console)?.path ?? "";
      return path !== "" && hasAttempts(branch);
    },
  };
}
