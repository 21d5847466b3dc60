// Lists of the queue's jobs: those that wait, those in flight, and failed attempts; with commands for one job and for all of a filter.

import { confirmAction } from "./actions.js";
import { consoleUrl, post } from "./api.js";
import { verbsOf } from "./console_panel.js";
import { el, setText } from "./dom.js";
import { clock, count, duration, moment } from "./format.js";
import { pagedTable } from "./paged_table.js";
import { all, pace, sum } from "./view_parts.js";

/** Maximum number of rows that the queue answers with. */
const ROWS_MAX = 1000;
const HOUR = 3600;
const SINCE = [["", "at any time"], [String(HOUR), "in the last hour"], [String(24 * HOUR), "in the last 24 hours"], [String(7 * 24 * HOUR), "in the last week"]];

/** Returns the address of the page of a job. */
export function jobLink(attrPath) {
  return `#/queue/job/${encodeURIComponent(attrPath)}`;
}

/** Returns the path of the queue's console, or "". */
export function consoleOf(branch) {
  return all(branch).find((one) => one.console)?.path ?? "";
}

const seconds = (value) => (value === null ? "–" : duration(value * 1000));

const ATTR = { name: "Attribute path", wide: true, sort: (job) => job.attr_path, cell: (job) => el("a", { href: jobLink(job.attr_path), text: job.attr_path }) };
const FETCHER = { name: "Fetcher", sort: (job) => job.fetcher, cell: (job) => job.fetcher ?? "–" };
/** Returns the worker that has a job, with its instance if several share the queue. */
export function workerOf(job) {
  return `${job.connection ?? "–"}${job.instance ? ` at ${job.instance}` : ""}`;
}

const WORKER = { name: "Worker", cell: workerOf };
const STARTED = { name: "Handed out", sort: (job) => job.started, cell: (job) => moment(job.started * 1000) };

/** Asks for confirmation, and sends a verb of the queue's console. `done(text)` receives the answer in words. */
export async function changeJobs({ path, verb, body, about, done }) {
  const declared = (await verbsOf(path)).get(verb);
  confirmAction({ path, verb, body, about, console: declared, done: (answer) => done(told(verb, body, answer)) });
}

/** Returns the answer to a verb in words. */
function told(verb, body, answer) {
  if (verb === "bump") return `${body.attr_path} is next.`;
  if (verb === "requeue") return answer.requeued ? `${body.attr_path} is available again.` : `The hold of ${body.attr_path} has ended.`;
  if (verb === "bump-all") return `${count(answer.bumped.length)} jobs are next.${answer.full ? " No more can be bumped." : ""}`;
  return `${count(answer.requeued)} jobs are available again${answer.finished ? "" : "; others follow"}.`;
}

/** Creates a field of a filter. `read()` returns its value, or undefined if it is empty. */
function field(id, title, input, convert = (value) => value) {
  return { node: el("span", { class: "filter-field" }, el("label", { for: id, text: title }), input), read: () => (input.value.trim() === "" ? undefined : convert(input.value.trim())) };
}

function filterFields(name, { codes }) {
  const text = (id, props) => el("input", { id, autocomplete: "off", spellcheck: "false", ...props });
  const match = field(`${name}-match`, "Attribute paths", text(`${name}-match`, { placeholder: "python3Packages.*" }));
  if (!codes) return { match };
  const since = el("select", { id: `${name}-since` }, SINCE.map(([value, title]) => el("option", { value, text: title })));
  return {
    match,
    code: field(`${name}-code`, "Exit code", text(`${name}-code`, { type: "number", step: "1" }), Number),
    since: field(`${name}-since`, "Handed out", since, (ago) => Math.floor(Date.now() / 1000) - Number(ago)),
  };
}

/**
 * Creates a list of jobs. It is read when the page is opened, by its form, after a command, and when `changed(branch)` returns another
 * value. `verb` reads it; `actions` are verbs for one job; `bulk(filter)` returns the verb for all jobs of the filter.
 */
function jobList({ name, title, verb, columns, empty, actions, bulk, changed, codes = false }) {
  const fields = filterFields(name, { codes });
  const at = el("span", { class: "quiet" });
  const told_ = el("p", { class: "told", role: "status", hidden: true });
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const all_ = el("button", { type: "button", class: "bulk", text: bulk.title, hidden: true });
  const many = el("span");
  const reads = pace();
  let path = "";
  let [key, state] = ["", ""];
  let commands = false;
  let asked = 0;
  let shown = "";

  const say = (text) => {
    told_.hidden = text === "";
    setText(told_, text);
  };
  const filter = () => Object.fromEntries(Object.entries(fields).map(([key_, one]) => [key_, one.read()]).filter(([, value]) => value !== undefined));
  const change = (verb_, body, about) => changeJobs({ path, verb: verb_, body, about, done: (text) => {
    say(text);
    ask();
  } });
  const buttons = {
    name: "Commands",
    cell: (job) => (commands ? el("span", { class: "row-actions" }, actions.map((one) => el("button", { type: "button", "data-verb": one, text: one, "aria-label": `${one} ${job.attr_path}`, on: { click: () => change(one, { attr_path: job.attr_path }) } }))) : ""),
  };
  const withCommands = pagedTable(title, [...columns, buttons], empty);
  const plain = pagedTable(title, columns, empty);
  const rows = el("div", {}, withCommands.node, plain.node);

  async function ask() {
    asked += 1;
    const mine = asked;
    try {
      const found = await reads.read(() => post(consoleUrl(path, verb), { n: ROWS_MAX, ...filter() }));
      if (mine !== asked) return;
      problem.hidden = true;
      const next = JSON.stringify([commands, found]);
      if (next !== shown) {
        withCommands.node.hidden = !commands;
        plain.node.hidden = commands;
        (commands ? withCommands : plain).update(found.map((job, i) => ({ ...job, place: i + 1 })));
      }
      shown = next;
      setText(many, `${count(found.length)}${found.length === ROWS_MAX ? "+" : ""}`);
      all_.hidden = !commands || found.length === 0;
      setText(at, `${found.length === ROWS_MAX ? `the first ${count(ROWS_MAX)}, ` : ""}at ${clock(Date.now())}`);
    } catch (error) {
      problem.hidden = false;
      setText(problem, error.message);
      setText(at, `at ${clock(Date.now())}`);
    }
  }

  all_.addEventListener("click", () => {
    const { verb: verb_, body, about } = bulk.of(filter());
    if (verb_) change(verb_, body, about);
  });
  const submit = (event) => {
    event.preventDefault();
    say("");
    ask();
  };
  const node = el("section", { class: "view job-list", "aria-label": title },
    el("div", { class: "view-head" }, el("h2", { text: title }), at,
      el("form", { class: "filter", on: { submit } }, Object.values(fields).map((one) => one.node), el("button", { text: "Show" }), all_)),
    told_, problem, rows);
  return {
    node,
    /** Number of rows of the filter, once they are read. */
    count: many,
    update(branch, now, options) {
      path = consoleOf(branch);
      if (path === "" || sum(branch, "in_flight") === null) return false;
      commands = options.commands;
      const next = `${path} ${commands}`;
      const now_ = `${next} ${changed(branch)}`;
      // A row that has the focus stays.
      if (next !== key || (now_ !== state && reads.isDue() && !rows.contains(document.activeElement))) {
        [key, state] = [next, now_];
        ask();
      }
      return true;
    },
  };
}

/** Creates the list of jobs that wait, in the order of hand-outs. */
export function waitingJobs() {
  return jobList({
    name: "waiting",
    title: "Next jobs",
    verb: "peek",
    columns: [
      ATTR,
      { name: "Place", number: true, sort: (job) => job.place, cell: (job) => count(job.place) },
      FETCHER,
      { name: "Last hand-out", sort: (job) => job.last_started, cell: (job) => (job.last_started === null ? "never" : moment(job.last_started * 1000)) },
      { name: "Payload", wide: true, cell: (job) => job.payload },
    ],
    empty: "No job can be handed out now.",
    actions: ["bump"],
    bulk: {
      title: "Bump all …",
      of: (filter) => ({ verb: "bump-all", body: { match: filter.match ?? "*" }, about: `The first jobs of ${filter.match ?? "all attribute paths"}, 32 at most, are put before all others.` }),
    },
    changed: (branch) => sum(branch, "waiting"),
  });
}

/** Creates the list of jobs in flight, longest first. */
export function inFlight() {
  return jobList({
    name: "in-flight",
    title: "Jobs in flight",
    verb: "in-flight",
    columns: [ATTR, STARTED, { name: "For", number: true, sort: (job) => job.seconds, cell: (job) => seconds(job.seconds) }, FETCHER, WORKER],
    empty: "No job is in flight.",
    actions: ["requeue"],
    bulk: {
      title: "Requeue all …",
      of: (filter) => ({ verb: "requeue-all", body: { state: "in-flight", ...filter }, about: `All jobs in flight${ofPaths(filter)} are made available again. Their workers are not stopped.` }),
    },
    changed: (branch) => `${sum(branch, "in_flight")} ${sum(branch, "last_done")}`,
  });
}

/** Creates the list of failed attempts, newest first. */
export function failedJobs() {
  return jobList({
    name: "failed",
    title: "Failed attempts",
    verb: "failed",
    codes: true,
    columns: [
      ATTR,
      { name: "Exit code", number: true, sort: (job) => job.exit_code, cell: (job) => job.exit_code },
      STARTED,
      { name: "Duration", number: true, sort: (job) => job.seconds, cell: (job) => seconds(job.seconds) },
      FETCHER,
      WORKER,
    ],
    empty: "No attempt has failed.",
    actions: ["requeue", "bump"],
    bulk: {
      title: "Requeue all …",
      of: (filter) => ({ verb: "requeue-all", body: { state: "failed", ...filter }, about: `All jobs${ofPaths(filter)} are made available again whose last attempt failed${filter.code === undefined ? "" : ` with exit code ${filter.code}`}${filter.since === undefined ? "" : ` and began after ${moment(filter.since * 1000)}`}.` }),
    },
    changed: (branch) => sum(branch, "failed_in_a_day"),
  });
}

function ofPaths(filter) {
  return filter.match === undefined ? "" : ` of ${filter.match}`;
}
