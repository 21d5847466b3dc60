// Rates of counters over the last seconds, measured between two reads of the tree or since a sample of the history.

import { history } from "./api.js";

const SPAN_MS = 30000;

/**
 * Creates a meter. `measure(at, values)` records counters by key at a time, and returns a function from a key to its increase per
 * second, or null before the second sample.
 */
export function meter() {
  const seen = [];
  const measure = (at, values) => {
    if (seen.length && at < seen.at(-1).at) seen.length = 0;
    if (seen.at(-1)?.at !== at) seen.push({ at, values });
    while (seen.length > 2 && at - seen[1].at > SPAN_MS) seen.shift();
    return (key) => {
      const first = seen.find((one) => one.values.has(key));
      const last = values.get(key);
      if (!first || last === undefined || first.at === at) return null;
      const before = first.values.get(key);
      // A counter that decreased was reset to 0.
      return ((last >= before ? last - before : last) * 1000) / (at - first.at);
    };
  };
  /** Adds the history of a counter of the children below `path` before the time `until`. The keys are the paths of the children. */
  measure.recall = async (path, metric, until) => {
    const past = await history(path, [metric], until - 2 * SPAN_MS, { below: "true" });
    const samples = past.at_ms.map((at, i) => ({ at, values: new Map(past.series.filter((one) => one.values[i] !== null).map((one) => [one.path, one.values[i]])) }));
    seen.unshift(...samples.filter((one) => one.at < (seen[0]?.at ?? until)));
  };
  return measure;
}
