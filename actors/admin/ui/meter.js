// Rates of counters over the last seconds, measured between two reads of the tree.

const SPAN_MS = 30000;

/**
 * Creates a meter. `measure(at, values)` records counters by key at a time, and returns a function from a key to its increase per
 * second, or null before the second sample.
 */
export function meter() {
  const seen = [];
  return (at, values) => {
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
}
