// The timeline of the last hour: restarts, links and commands. A selected time links to the tree at that time.

import { el, setText, svg } from "./dom.js";
import { eventList, isFault } from "./events.js";
import { clock, lastSpan } from "./format.js";
import { link } from "./router.js";

const HOUR_MS = 3600000;
const WIDE = 1000;

const LANES = [
  { title: "Restarts", kinds: { exited: "mark", escalated: "mark", given_up: "mark", stop_timed_out: "mark", started: "good" } },
  { title: "Links", kinds: { link_down: "mark", link_unanswered: "mark", link_up: "good" } },
  { title: "Commands", kinds: { commanded: "mark" } },
];

/** Returns false for the first start of a child, which is no restart. */
function isShown(event) {
  if (event.event === "started") return event.incarnation > 1;
  return true;
}

function laneOf(event) {
  return LANES.findIndex((lane) => event.event in lane.kinds);
}

export function timeline() {
  const marks = svg("g");
  const cursor = svg("line", { class: "time-cursor", y1: 0, y2: 72, visibility: "hidden" });
  const picture = svg("svg", { class: "lanes", viewBox: `0 0 ${WIDE} 72`, preserveAspectRatio: "none", "aria-hidden": "true" },
    [24, 48].map((y) => svg("line", { class: "chart-grid", x1: 0, x2: WIDE, y1: y, y2: y })), marks, cursor);
  const slider = el("input", { type: "range", class: "time", "aria-label": "Time", on: { input: () => select(Number(slider.value)) } });
  const shown = el("output", { class: "time-shown" });
  const past = el("a", { class: "button", hidden: true, text: "Tree at this time" });
  const live = el("button", { hidden: true, text: "Latest events", on: { click: () => select(null) } });
  const left = el("span");
  const right = el("span");
  const list = eventList(true);
  const span = el("h2", { id: "timeline-title", text: "Last hour" });
  const node = el("section", { class: "timeline", "aria-labelledby": "timeline-title" },
    el("div", { class: "head" }, span, shown, past, live),
    el("div", { class: "lanes-box" },
      el("div", { class: "lane-names" }, LANES.map((lane) => el("span", { text: lane.title }))),
      el("div", { class: "lanes-field" }, picture, slider, el("div", { class: "chart-times" }, left, right))),
    list.node);
  let now = { events: [], from: 0, until: 1 };
  let at = null;
  let key = "";

  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect();
    select(now.from + ((event.clientX - box.left) / box.width) * (now.until - now.from));
  });

  function select(ms) {
    at = ms;
    draw();
  }

  function draw() {
    const chosen = now.events.filter((event) => isShown(event) && laneOf(event) >= 0);
    const x = (ms) => ((ms - now.from) / Math.max(1, now.until - now.from)) * WIDE;
    const next = `${chosen.at(-1)?.seq} ${chosen.length} ${Math.floor(now.until / 5000)}`;
    if (next !== key) {
      marks.replaceChildren(...chosen.filter((event) => event.at_ms >= now.from).map((event) => {
        const lane = laneOf(event);
        return svg("rect", { class: `mark mark-${isFault(event) ? "bad" : LANES[lane].kinds[event.event]}`, x: (x(event.at_ms) - 1.5).toFixed(1), y: lane * 24 + 4, width: 3, height: 16 });
      }));
      slider.min = now.from;
      slider.max = now.until;
      slider.step = 1000;
      if (at === null) slider.value = now.until;
      setText(span, lastSpan(now.until - now.from));
      setText(left, clock(now.from));
      setText(right, clock(now.until));
    }
    key = next;
    past.hidden = at === null;
    live.hidden = at === null;
    cursor.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at !== null) {
      cursor.setAttribute("x1", x(at));
      cursor.setAttribute("x2", x(at));
      slider.value = at;
      past.setAttribute("href", link("tree", "", { at: Math.round(at) }));
    }
    setText(shown, at === null ? "" : clock(at));
    const until = at === null ? Infinity : at + 15000;
    list.update(chosen.filter((event) => event.at_ms <= until).reverse(), "There were no restarts, link changes or commands.", at === null ? 40 : 20);
  }

  return {
    node,
    update(state) {
      const until = state.tree.captured_at_ms;
      const began = until - state.tree.uptime_ms;
      now = { events: state.events, until, from: Math.max(until - HOUR_MS, Math.min(began, until - 60000)) };
      draw();
    },
  };
}
