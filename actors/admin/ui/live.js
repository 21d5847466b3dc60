// The state of the program, refreshed while the page is visible.

import * as api from "./api.js";

const POLL_MS = 2000;
const RETRY_MS = 1500;
const EVENTS_MAX = 4096;
/** Minimum time between two reads of the tree that events cause. */
const EVENT_POLL_MS = 200;

const listeners = new Set();

export const state = {
  tree: null,
  /** Nodes by path. */
  nodes: new Map(),
  /** Messages per second of a child and its descendants, by path. */
  rates: new Map(),
  events: [],
  info: null,
  /** `connecting`, `live`, `hidden`, `lost` or `denied`. */
  status: "connecting",
  message: "",
  restartedAt: null,
};

let base = null;
let lastSeq = 0;
let stream = null;
let timer = null;
let reading = false;
let again = false;
let lastRead = 0;

export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function notify() {
  for (const listener of listeners) listener(state);
}

function setStatus(status, message = "") {
  state.status = status;
  state.message = message;
}

/** Starts, or restarts with another token. */
export async function start() {
  setStatus("connecting");
  stopStream();
  state.info = null;
  await read();
}

export function canCommand() {
  return state.info?.caller?.role === "operator";
}

function index(tree) {
  const nodes = new Map();
  const visit = (node) => {
    nodes.set(node.path, node);
    node.children.forEach(visit);
  };
  visit(tree.root);
  return nodes;
}

/** Returns the messages that a child and its descendants have handled. */
function handled(node) {
  const own = node.mailboxes.reduce((sum, mailbox) => sum + mailbox.handled, 0);
  return node.children.reduce((sum, child) => sum + handled(child), own);
}

function measureRates(tree, nodes) {
  const now = tree.captured_at_ms;
  if (base && now - base.at < POLL_MS - 200) return;
  const counts = new Map();
  for (const [path, node] of nodes) counts.set(path, handled(node));
  if (base) {
    const seconds = (now - base.at) / 1000;
    for (const [path, value] of counts) {
      const before = base.counts.get(path);
      if (before !== undefined) state.rates.set(path, Math.max(0, (value - before) / seconds));
    }
  }
  base = { at: now, counts };
}

function setTree(tree) {
  const began = tree.captured_at_ms - tree.uptime_ms;
  if (state.tree && Math.abs(began - (state.tree.captured_at_ms - state.tree.uptime_ms)) > 1500) {
    reset();
    state.restartedAt = began;
  }
  state.tree = tree;
  state.nodes = index(tree);
  measureRates(tree, state.nodes);
}

/** Discards the state of a former process. */
function reset() {
  base = null;
  lastSeq = 0;
  state.events = [];
  state.rates.clear();
  state.info = null;
  stopStream();
}

/** Ends the current task, so that parsing a large tree, measuring it and drawing it do not block the page in one piece. */
function nextTask() {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

async function read() {
  clearTimeout(timer);
  if (reading) {
    again = true;
    return;
  }
  if (document.hidden) {
    setStatus("hidden");
    return notify();
  }
  reading = true;
  lastRead = performance.now();
  let wait = POLL_MS;
  try {
    const tree = await api.get("/v1/tree");
    await nextTask();
    setTree(tree);
    await nextTask();
    if (!state.info) state.info = await api.get("/v1/info");
    setStatus("live");
    listen();
  } catch (error) {
    wait = RETRY_MS;
    if (error.status === 401) setStatus("denied", error.message);
    else setStatus("lost", error.status ? error.message : "the program does not respond");
  }
  reading = false;
  notify();
  if (again && state.status === "live") wait = EVENT_POLL_MS;
  again = false;
  if (state.status !== "denied") timer = setTimeout(read, wait);
}

/** Schedules a read of the tree after an event. */
export function refresh() {
  clearTimeout(timer);
  timer = setTimeout(read, Math.max(0, EVENT_POLL_MS - (performance.now() - lastRead)));
}

function listen() {
  // The page may have been hidden since the tree was requested.
  if (stream || document.hidden) return;
  const own = new AbortController();
  stream = own;
  const ended = () => {
    if (stream === own) stream = null;
    if (!document.hidden && !own.signal.aborted) refresh();
  };
  api.events(lastSeq, onEvent, own.signal).then(ended, () => setTimeout(ended, RETRY_MS));
}

function stopStream() {
  stream?.abort();
  stream = null;
}

function onEvent(kind, data) {
  if (kind === "resync") {
    if (data.newest < lastSeq) state.events = [];
    lastSeq = data.oldest - 1;
  } else {
    lastSeq = data.seq;
    state.events.push(data);
    if (state.events.length > EVENTS_MAX) state.events.splice(0, state.events.length - EVENTS_MAX);
  }
  if (state.status === "live") refresh();
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) stopStream();
  refresh();
});
