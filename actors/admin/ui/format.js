// Formatting of numbers and times.

/**
 * Formats a number in the largest of `units` in which it is at least 1 after rounding, so that 999,950 is 1.0M and not 1000k. A unit is
 * `step` of the one before; numbers below `plain` keep the first. Numbers of a unit below `fine` have a decimal.
 */
function scaled(value, units, { step = 1000, plain = step, fine = 100 } = {}) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  let size = Math.abs(value);
  let unit = 0;
  while (size >= (unit === 0 ? plain : step) - 0.5 && unit < units.length - 1) {
    size /= step;
    unit += 1;
  }
  const isWhole = Number.isInteger(size) || size >= fine - 0.05;
  const text = isWhole ? size.toFixed(0) : size < 0.095 ? size.toPrecision(1) : size.toFixed(1);
  return `${value < 0 ? "−" : ""}${text}${units[unit]}`;
}

/** Formats a number: 12, 1300, 45k, 2.1M. */
export function count(value) {
  return scaled(value, ["", "k", "M", "G", "T", "P", "E"], { plain: 10000 });
}

/** Formats a rate per second. */
export function rate(value) {
  return value === null || value === undefined ? "–" : `${count(value)}/s`;
}

/** Formats a duration in microseconds. */
export function micros(value) {
  return scaled(value, [" µs", " ms", " s"], { fine: 10 });
}

/** Largest bounds of a first bucket: one microsecond, or a millisecond in coarse histograms. */
const FIRST_BUCKETS = [1, 1000];
/** Lower bounds, in microseconds, of the buckets that also have all longer durations. */
const LAST_BUCKETS = [2 ** 26, 1000 * 2 ** 26];

/** Formats a quantile: the bounds of its bucket, whose upper one is `us` microseconds. */
export function bounds(us) {
  if (!us) return "–";
  if (FIRST_BUCKETS.includes(us)) return `under ${micros(us)}`;
  if (LAST_BUCKETS.includes(us / 2)) return `over ${micros(us / 2)}`;
  const [low, high] = [us / 2, us].map(micros);
  const [lowUnit, highUnit] = [low, high].map((text) => text.split(" ")[1]);
  return lowUnit === highUnit ? `${low.split(" ")[0]}–${high}` : `${low} – ${high}`;
}

/** Formats a duration in milliseconds. */
export function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Formats a number of bytes. */
export function bytes(value) {
  return scaled(value, [" B", " KiB", " MiB", " GiB", " TiB"], { step: 1024 });
}

/** Formats the value of a metric in its unit. */
export function inUnit(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "bytes") return bytes(value);
  if (unit === "us" || unit === "microseconds") return micros(value);
  if (unit === "milliseconds") return duration(value);
  return count(value);
}

/** Formats the time of day. */
export function clock(ms) {
  return new Date(ms).toLocaleTimeString([], { hour12: false });
}

/** Formats a time: the time of day, after the date unless it is today. */
export function moment(ms) {
  const time = new Date(ms);
  const two = (value) => String(value).padStart(2, "0");
  const date = time.toDateString() === new Date().toDateString() ? "" : `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} `;
  return `${date}${clock(ms)}`;
}

/** Replaces the times in UTC of a text of the program by local ones. */
export function local(text) {
  return text.replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, (time) => moment(Date.parse(time)));
}

/** Smallest number of a run that is a time, in seconds: others only have an order, such as that of jobs of other subsystems. */
const RUN_TIME_MIN = 1e9;

/** Returns true if the number of a run is a time. */
export function isTime(number) {
  return number >= RUN_TIME_MIN;
}

/** Names a span up to the present: `Last 12 min`. */
export function lastSpan(ms) {
  const minutes = Math.round(ms / 60000);
  if (minutes >= 58) return minutes < 63 ? "Last hour" : `Last ${duration(ms)}`;
  return minutes < 2 ? "Last minute" : `Last ${minutes} min`;
}

/** Formats a time with milliseconds. */
export function exactClock(ms) {
  return `${moment(ms)}.${String(ms % 1000).padStart(3, "0")}`;
}

/** Formats an identifier: `backing_off` becomes `backing off`. */
export function words(name) {
  return String(name).replaceAll("_", " ");
}
