// The views of each subsystem's page.

import { ruleStates, ruleTable } from "./catalog_views.js";
import { flows, mappingProgress, workers } from "./ingester_views.js";
import { stencilProgress, tcnState, watermarks } from "./producer_views.js";
import { deadLetters, heatMap, latencies } from "./provenance_views.js";
import { failedJobs, inFlight, waitingJobs } from "./job_lists.js";
import { backlog, exitCodes, instances, jobSearch } from "./queue_views.js";
import { consoles } from "./view_parts.js";

const VIEWS = {
  queue: () => [jobSearch(), failedJobs(), inFlight(), waitingJobs(), backlog(), instances(), exitCodes(), consoles([["stats", {}]])],
  provenance: () => [heatMap(), latencies(), ...deadLetters()],
  ingester: () => [flows(), mappingProgress(), workers()],
  producer: () => [stencilProgress(), watermarks(), tcnState(), consoles([["status", {}]])],
  catalog: () => [ruleTable(), ruleStates(), consoles([["status", {}]])],
};

/** Returns the views of a subsystem. */
export function viewsOf(name) {
  return VIEWS[name]?.() ?? [];
}
