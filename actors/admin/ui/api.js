// Client of the JSON API and the event stream. The token is kept in session storage.

const KEY = "orchestrator-token";

/** An error response. */
export class ApiError extends Error {
  constructor(status, kind, message) {
    super(message);
    this.status = status;
    this.kind = kind;
  }
}

export function hasToken() {
  return sessionStorage.getItem(KEY) !== null;
}

/** Stores a token until the tab is closed; null removes it. */
export function setToken(token) {
  if (token === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, token);
}

function headers(more = {}) {
  const token = sessionStorage.getItem(KEY);
  return token === null ? more : { ...more, Authorization: `Bearer ${token}` };
}

async function failed(response) {
  const body = await response.json().catch(() => ({}));
  return new ApiError(response.status, body.error ?? "unknown", body.message ?? `HTTP ${response.status}`);
}

/** Encodes a path of the tree for a URL. */
export function encode(path) {
  return path.split("/").map(encodeURIComponent).join("/");
}

export async function get(url, signal) {
  const response = await fetch(url, { headers: headers({ Accept: "application/json" }), cache: "no-store", signal });
  if (!response.ok) throw await failed(response);
  return response.json();
}

export async function post(url, body) {
  const response = await fetch(url, {
    method: "POST",
    headers: headers({ "Content-Type": "application/json" }),
    body: JSON.stringify(body),
  });
  if (!response.ok) throw await failed(response);
  return response.json();
}

/** What holds up work in the branch `path`, or in each branch: the causes, the most effective first, and the activity in words. */
export function why(path) {
  return get(path === "" ? "/v1/why" : `/v1/why/${encode(path)}`);
}

/** Where a job, a row or a mapping is, and what it waits for. */
export function whyItem(name) {
  return get(`/v1/why?item=${encodeURIComponent(name)}`);
}

export function commandUrl(path, verb) {
  return `/v1/actors/${encode(path)}/${encodeURIComponent(verb)}`;
}

export function consoleUrl(path, verb) {
  return `/v1/consoles/${encode(path)}/${encodeURIComponent(verb)}`;
}

/** Fetches samples of metrics since a time, in milliseconds since 1970. */
export function history(path, metrics, since, options = {}) {
  const query = new URLSearchParams({ path, metric: metrics.join(","), since: String(Math.floor(since)), ...options });
  return get(`/v1/history?${query}`);
}

/** Reads events after number `after` until the stream ends, and calls `each(kind, data)` for every one. */
export async function events(after, each, signal) {
  const response = await fetch(`/v1/events?after=${after}`, { headers: headers(), cache: "no-store", signal });
  if (!response.ok) throw await failed(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) deliver(block, each);
  }
}

function deliver(block, each) {
  let kind = "message";
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) kind = line.slice(7);
    if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (data !== "") each(kind, JSON.parse(data));
}
