// The page of one job: who lists it, its place in the order, and its attempts. `#/queue/job/ATTR`.

import { ApiError, consoleUrl, post } from "./api.js";
import { el, setText, table } from "./dom.js";
import { clock, count, duration, isTime, moment } from "./format.js";
import { changeJobs, consoleOf, workerOf } from "./job_lists.js";
import { link } from "./router.js";
import { number, sum, wide } from "./view_parts.js";

const ATTEMPTS_SHOWN = 100;
/** Largest place that is exact. */
const PLACE_MAX = 10000;

const run = (one) => (isTime(one.run_started) ? `${one.run_started} (${moment(one.run_started * 1000)})` : one.run_started);

/** Returns where a waiting group stands. */
function place(group) {
  if (group.held_until) return `held until ${moment(group.held_until * 1000)}`;
  return group.limited ? "limited: too many such jobs are in flight" : group.position > PLACE_MAX ? `place above ${count(PLACE_MAX)}` : `place ${count(group.position)}`;
}

/** Returns the state of a job in words. */
function stateOf(job) {
  const last = job.attempts[0];
  if (job.in_flight) return `In flight since ${moment(job.in_flight.started * 1000)} at ${workerOf(job.in_flight)}, held until ${moment(job.in_flight.held_until * 1000)}`;
  const ended = last?.finished ? `the last attempt ended ${last.exit_code === null ? "without an exit code" : `with exit code ${last.exit_code}`} at ${moment(last.finished * 1000)}` : "no attempt is known";
  if (job.waiting.length) return `Waits, ${job.waiting.map(place).join("; ")}; ${ended}`;
  return `Does not wait; ${ended}`;
}

function details(job) {
  return [
    el("p", { class: "job-state", text: stateOf(job) }),
    el("h2", { text: "Listed by" }),
    table("Listed by", ["Fetcher", "Run", "Since", "State"], job.listed.map((one) => [one.fetcher, run(one), one.added === null ? "–" : moment(one.added * 1000), one.handed_out ? "handed out" : "not handed out"]), "No fetcher file lists this path now."),
    el("h2", { text: "Waiting" }),
    table("Waiting", ["Fetcher", "Run", "Position", wide("Payload")], job.waiting.map((one) => [one.fetcher, run(one), place(one), one.payload]), "Nothing waits."),
    el("h2", { text: "Attempts" }),
    table("Attempts", ["Handed out", "Ended", number("Duration"), number("Exit code"), "Fetcher", "Worker"],
      job.attempts.map((one) => [moment(one.started * 1000), one.finished === null ? "–" : moment(one.finished * 1000), one.seconds === null ? "–" : duration(one.seconds * 1000), one.exit_code ?? "–", one.fetcher ?? "–", one.connection ?? "–"]),
      "There was no attempt."),
  ];
}

/** Creates the page of the job with an attribute path. */
export function jobPage(attrPath) {
  const at = el("span", { class: "quiet" });
  const told = el("p", { class: "told", role: "status", hidden: true });
  const body = el("div", { class: "view" }, el("p", { class: "quiet", text: "Reading the job…" }));
  const actions = el("div", { class: "actions" }, ["requeue", "bump"].map((verb) => el("button", { "data-verb": verb, text: verb, on: { click: () => changeJobs({ path, verb, body: { attr_path: attrPath }, done: (text) => {
    told.hidden = false;
    setText(told, text);
    ask();
  } }) } })));
  const node = el("section", { class: "subsystem job-page", "aria-label": "Job" },
    el("p", {}, el("a", { href: link("queue"), text: "Queue" })),
    el("div", { class: "tools" }, el("h1", { text: attrPath }), at, actions), told, body);
  let path = "";
  let key = "";

  async function ask() {
    try {
      body.replaceChildren(...details(await post(consoleUrl(path, "show"), { attr_path: attrPath, n: ATTEMPTS_SHOWN })));
    } catch (error) {
      const unknown = error instanceof ApiError && error.status === 404;
      body.replaceChildren(el("p", { class: unknown ? "quiet" : "problem", text: unknown ? "The queue does not know this attribute path." : error.message }));
    }
    setText(at, `at ${clock(Date.now())}`);
  }

  return {
    node,
    update(now, { commands }) {
      actions.hidden = !commands;
      const branch = now.tree.root.children.find((child) => child.id === "queue");
      if (!branch) return;
      path = consoleOf(branch);
      const next = `${path} ${["waiting", "in_flight", "last_done"].map((name) => sum(branch, name)).join(" ")}`;
      if (next !== key) ask();
      key = next;
    },
  };
}
