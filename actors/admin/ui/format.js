// Formatting of numbers and times.

const UNITS = ["", "k", "M", "G", "T"];

/** Formats a number: 12, 1.3k, 45k, 2.1M. */
export function count(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  let size = Math.abs(value);
  let unit = 0;
  while (size >= 9999.5 && unit < UNITS.length - 1) {
    size /= 1000;
    unit += 1;
  }
  const digits = size >= 100 || Number.isInteger(size) ? 0 : 1;
  return `${value < 0 ? "−" : ""}${size.toFixed(digits)}${UNITS[unit]}`;
}

/** Formats a rate per second. */
export function rate(value) {
  return value === null || value === undefined ? "–" : `${count(value)}/s`;
}

/** Formats a duration in microseconds. */
export function micros(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1000) return `${value} µs`;
  if (value < 1e6) return `${(value / 1000).toFixed(value < 1e4 ? 1 : 0)} ms`;
  return `${(value / 1e6).toFixed(value < 1e7 ? 1 : 0)} s`;
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
  if (value === null || value === undefined) return "–";
  if (value < 1024) return `${value} B`;
  const power = Math.min(4, Math.floor(Math.log2(value) / 10));
  const size = value / 1024 ** power;
  return `${size.toFixed(size < 100 ? 1 : 0)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
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

/** Formats the time of day with milliseconds. */
export function exactClock(ms) {
  return `${clock(ms)}.${String(ms % 1000).padStart(3, "0")}`;
}

/** Formats an identifier: `backing_off` becomes `backing off`. */
export function words(name) {
  return String(name).replaceAll("_", " ");
}
