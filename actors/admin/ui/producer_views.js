// Views of the producer: the stencil, watermarks and jobs in the server, state of the TCN.

import { get } from "./api.js";
import { el, table } from "./dom.js";
import { count, duration, local, moment, rate } from "./format.js";
import { meter } from "./meter.js";
import { hasNoPeer } from "./states.js";
import { all, answered, metric, number, progressBar, section, sum, wide } from "./view_parts.js";

/** Metrics of the jobs in the server, in the order of a job's life. */
const SERVER = [["server_waiting", "Waiting"], ["server_working", "With workers"], ["server_scheduled", "Scheduled"], ["server_retries", "To be retried"], ["server_dead", "Dead"]];

/** Returns the numbers of jobs in the server, or none while no connection is up: then they are not measured. */
export function inServer(branch) {
  const isUp = all(branch).some((node) => node.link?.kind === "faktory" && !hasNoPeer(node));
  const found = SERVER.map(([name, title]) => ({ name, title, jobs: sum(branch, name) }));
  return found.filter((one) => isUp && one.jobs !== null);
}

function producerOf(branch) {
  return all(branch).find((one) => metric(one, "stencil_total") !== null);
}

/** Creates the progress of the current stencil, with the estimated remaining time. */
export function stencilProgress() {
  const part = section("Stencil");
  const measure = meter();
  return {
    node: part.node,
    update(branch, now) {
      const node = producerOf(branch);
      if (!node) return false;
      const [pushed, total, tcn] = ["stencil_pushed", "stencil_total", "tcn"].map((name) => metric(node, name));
      const speed = measure(now.tree.captured_at_ms, new Map([["pushed", metric(node, "pushed") ?? 0]]))("pushed");
      const left = speed > 0 && total > pushed ? `, ${duration(((total - pushed) / speed) * 1000)} left at ${rate(speed)}` : "";
      const text = total > 0 ? `TCN ${count(tcn)}: ${count(pushed)} of ${count(total)} jobs pushed${left}` : `TCN ${count(tcn || null)}: no jobs of a stencil are being pushed`;
      part.draw(text, () => [el("p", { text }), progressBar(pushed, total)]);
      return true;
    },
  };
}

/** Creates the state of the watermarks and the table of jobs in the server. */
export function watermarks() {
  const part = section("Watermarks and jobs in the server");
  let config = null;
  let asked = false;
  return {
    node: part.node,
    update(branch) {
      const node = producerOf(branch);
      if (!node) return false;
      if (!asked) {
        asked = true;
        get("/v1/config").then((answer) => {
          config = answer.producer ?? null;
        }, () => {});
      }
      const isHeld = metric(node, "held_by_high_water") === 1;
      const jobs = inServer(branch);
      part.draw(JSON.stringify([config, isHeld, jobs]), () => {
        const high = config?.high_water ?? 0;
        const text = high === 0 ? "There is no high-water mark." : `Pushing stops above ${count(high)} waiting jobs and resumes at ${count(config.low_water)}.`;
        const waits = jobs.find((one) => one.name === "server_waiting");
        return [
          config ? el("p", { text: `${text}${isHeld ? " It is stopped now." : ""}` }) : null,
          high > 0 && waits ? progressBar(waits.jobs, high) : null,
          jobs.length ? table("Jobs in the server", ["State", number("Jobs")], jobs.map((one) => [one.title, count(one.jobs)])) : null,
        ].filter(Boolean);
      });
      return config !== null || jobs.length > 0;
    },
  };
}

function stencils(status) {
  const empty = Object.entries(status.no_headroom);
  const rows = [
    ["Being pushed", status.stencil ? 1 : 0, status.stencil ?? ""],
    ["Started in this TCN", status.tcn_stencils, `${count(status.tcn_pushed)} of ${count(status.tcn_total)} jobs pushed`],
    ...(status.stencils_left === undefined ? [] : [["Not started", status.stencils_left, ""]]),
    ["Without jobs", empty.length, empty.slice(0, 5).map(([stencil, set]) => `${stencil}: ${set}`).join("; ")],
  ];
  return table("Stencils", ["State", number("Stencils"), wide("Details")], rows.map(([state, many, text]) => [state, count(many), text]));
}

/** Creates the state of the TCN, from the producer's console. */
export function tcnState() {
  return answered("TCN", "status", (status) => {
    // A producer that does not push keeps its last estimate.
    const pushes = !status.paused && !status.held && status.phase === "pushing";
    const left = status.eta_secs ?? (pushes ? status.left_secs : null);
    const blocked = status.blocked_by.slice(0, 20).map((text) => el("li", { text: local(text) }));
    const away = Object.entries(status.away).map(([peer, reason]) => el("li", { text: local(`${peer}: ${reason}`) }));
    return [
      el("p", { text: `TCN ${status.tcn ?? "–"}: ${status.phase} since ${moment(status.since_ms)}${status.paused ? ", paused" : ""}${status.held ? ", stopped at the high-water mark" : ""}${left === null || left === undefined ? "" : `, ${duration(left * 1000)} left`}` }),
      status.tcn_total > 0 ? progressBar(status.tcn_pushed, status.tcn_total) : null,
      el("h3", { text: "Stencils by state" }), stencils(status),
      blocked.length + away.length ? el("h3", { text: "What it waits for" }) : null,
      blocked.length + away.length ? el("ul", { class: "problems" }, blocked, away) : null,
    ];
  });
}
