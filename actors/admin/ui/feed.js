// History for charts, fetched again every few seconds while the page is visible.

import { history } from "./api.js";
import { perSecond, total } from "./chart.js";
import { state } from "./live.js";

const REFRESH_MS = 10000;
const HOUR_MS = 3600000;

/**
 * Fetches metrics of `path` and calls `show` with a function that returns the column of a metric:
 * `{at, values, from, until, found}`. The page calls `tick()` at every update.
 */
export function feed(path, metrics, options, show) {
  let last = -Infinity;
  let busy = false;
  return {
    tick() {
      if (busy || document.hidden || performance.now() - last < REFRESH_MS || state.status !== "live") return;
      busy = true;
      last = performance.now();
      history(path, metrics, state.tree.captured_at_ms - HOUR_MS, options)
        .then((answer) => show(columns(answer)), () => {})
        .finally(() => {
          busy = false;
        });
    },
  };
}

function columns(answer) {
  const at = answer.at_ms;
  const until = Math.max(state.tree?.captured_at_ms ?? 0, at.at(-1) ?? 0);
  // Charts of a program that has just started begin with its first sample.
  const from = Math.min(at[0] ?? until, until - 60000);
  return (metric, kind = "value") => {
    const many = answer.series.filter((one) => one.metric === metric || one.metric.startsWith(`${metric}{`));
    const summed = total(many.map((one) => (kind === "rate" ? perSecond(at, one.values) : one.values)));
    return { at, values: at.map((_, i) => summed[i] ?? null), from, until, found: many.length > 0, series: many };
  };
}
