// The views of each subsystem's page.

import { ruleStates, ruleTable } from "./catalog_views.js";
import { flows, mappingProgress, workers } from "./ingester_views.js";
import { stencilProgress, tcnState, watermarks } from "./producer_views.js";
import { deadLetters, heatMap, latencies } from "./provenance_views.js";
import { failedJobs, inFlight, waitingJobs } from "./job_lists.js";
import { backlog, exitCodes, instances, jobSearch } from "./queue_views.js";
import { tabbed } from "./tabs.js";
import { consoles, pair } from "./view_parts.js";

/** Creates the lists of the queue in tabs. */
function queueLists() {
  return tabbed("Lists", [
    { id: "in-flight", title: "In flight", ...inFlight() },
    { id: "failed", title: "Failed", ...pair(failedJobs(), exitCodes()) },
    { id: "next", title: "Next", ...waitingJobs() },
    { id: "runs", title: "Runs", ...backlog() },
  ], jobSearch());
}

const VIEWS = {
  queue: () => [queueLists(), instances(), consoles([["stats", {}]])],
  provenance: () => [heatMap(), latencies(), ...deadLetters()],
  ingester: () => [flows(), mappingProgress(), workers()],
  producer: () => [stencilProgress(), watermarks(), tcnState(), consoles([["status", {}]])],
  catalog: () => [ruleTable(), ruleStates(), consoles([["status", {}]])],
};

/** Returns the views of a subsystem. */
export function viewsOf(name) {
  return VIEWS[name]?.() ?? [];
}
