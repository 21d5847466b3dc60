"use strict";
// The table of the page: filters, sorts and shows the rows that are embedded as JSON, 100 at a time.
(() => {
  const PAGE = 100;
  const STATES = ["waiting", "path in progress", "limited", "running", "ended", "no answer"];
  const data = JSON.parse(document.getElementById("data").textContent);
  const [ATTR, FETCHER, PAYLOAD, STATE, POSITION, STARTED, FINISHED, CODE, ATTEMPTS] = data.columns.keys();

  const number = (value) => value.toLocaleString("en");
  const duration = (exact) => {
    const secs = Math.round(exact);
    if (secs < 60) return `${secs} s`;
    if (secs < 3600) return `${Math.floor(secs / 60)} min`;
    if (secs < 86400) return `${Math.floor(secs / 3600)} h ${Math.floor((secs % 3600) / 60)} min`;
    return `${Math.floor(secs / 86400)} d ${Math.floor((secs % 86400) / 3600)} h`;
  };
  // The range of dates of the language; a clock can be far off.
  const date = (secs) => (Math.abs(secs) <= 8.64e12 ? new Date(secs * 1000) : null);
  const time = (secs) => date(secs)?.toISOString().replace("T", " ").replace(".000Z", " UTC") ?? String(secs);
  const until = (row) => (row[POSITION] === null || data.secs_per_job === null ? null : row[POSITION] * data.secs_per_job);
  const seconds = (row) => (row[STARTED] === null || row[FINISHED] === null ? null : Math.max(0, row[FINISHED] - row[STARTED]));
  const result = (row) => {
    if (row[STARTED] === null) return "";
    if (row[FINISHED] === null) return row[STATE] === 3 || row[STATE] === 1 ? "running" : "no answer";
    return row[CODE] === null ? "no exit code" : `exit ${row[CODE]}`;
  };
  const encode = (value) => encodeURIComponent(value).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  const log = (row) => {
    if (data.log_url === null || row[STARTED] === null) return null;
    const values = {
      attr_path: row[ATTR],
      fetcher: data.fetchers[row[FETCHER]],
      date: date(row[STARTED])?.toISOString().slice(0, 10) ?? "",
      started: String(row[STARTED]),
    };
    return data.log_url.replace(/\{(\w+)\}/g, (_, name) => encode(values[name]));
  };

  // Each column: title, sort key (null sorts last), text of a cell, class of the cell.
  const columns = [
    ["Attribute path", (r) => r[ATTR], (r) => r[ATTR], "long"],
    ["Payload", (r) => r[PAYLOAD], (r) => r[PAYLOAD], "long"],
    ["Fetcher", (r) => data.fetchers[r[FETCHER]], (r) => data.fetchers[r[FETCHER]], ""],
    ["State", (r) => r[STATE], (r) => STATES[r[STATE]], "short"],
    ["Position", (r) => r[POSITION], (r) => (r[POSITION] === null ? "-" : number(r[POSITION])), "number"],
    ["Estimated in", until, (r) => (until(r) === null ? "-" : duration(until(r))), "number"],
    ["Last result", (r) => (r[STARTED] === null ? null : r[CODE] ?? Infinity), result, "short"],
    ["Last start", (r) => r[STARTED], (r) => (r[STARTED] === null ? "-" : time(r[STARTED])), "time"],
    ["Duration", seconds, (r) => (seconds(r) === null ? "-" : duration(seconds(r))), "number"],
    ["Attempts", (r) => r[ATTEMPTS], (r) => number(r[ATTEMPTS]), "number"],
  ].map(([title, key, text, name]) => ({ title, key, text, name }));

  const byId = (id) => document.getElementById(id);
  const head = document.querySelector("thead tr");
  const body = document.querySelector("tbody");
  const search = byId("search");
  const sort = { column: null, descending: false };
  let shown = data.rows;
  let page = 0;
  let texts = null;

  const compare = (a, b) => {
    if (a === b) return 0;
    if (a === null || b === null) return a === null ? 1 : -1;
    return (a < b ? -1 : 1) * (sort.descending ? -1 : 1);
  };

  const cell = (text, name, title) => {
    const element = document.createElement("td");
    element.textContent = text;
    element.dataset.label = title;
    if (name) element.className = name;
    return element;
  };

  const render = () => {
    const pages = Math.max(1, Math.ceil(shown.length / PAGE));
    page = Math.min(page, pages - 1);
    body.replaceChildren(...shown.slice(page * PAGE, (page + 1) * PAGE).map((row) => {
      const line = document.createElement("tr");
      for (const { title, text, name } of columns) {
        const failed = title === "Last result" && row[FINISHED] !== null && row[CODE] !== 0;
        const element = cell(text(row), failed ? "failed" : name, title);
        const href = title === "Last result" ? log(row) : null;
        if (href !== null) {
          const link = document.createElement("a");
          link.href = href;
          link.rel = "noreferrer";
          link.textContent = "log";
          element.append(" ", link);
        }
        line.append(element);
      }
      return line;
    }));
    byId("found").textContent = `${number(shown.length)} of ${number(data.rows.length)} jobs`;
    byId("page").textContent = `Page ${number(page + 1)} of ${number(pages)}`;
    byId("previous").disabled = page === 0;
    byId("next").disabled = page + 1 >= pages;
  };

  const select = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    texts ??= words.length ? data.rows.map((row) => `${row[ATTR]} ${row[PAYLOAD]}`.toLowerCase()) : null;
    shown = words.length ? data.rows.filter((_, i) => words.every((word) => texts[i].includes(word))) : data.rows;
    if (sort.column) {
      const keys = shown.map((row) => [sort.column.key(row), row]);
      shown = keys.sort(([a], [b]) => compare(a, b)).map(([, row]) => row);
    }
    render();
  };

  for (const column of columns) {
    const header = document.createElement("th");
    const button = document.createElement("button");
    header.scope = "col";
    header.className = column.name;
    button.type = "button";
    button.textContent = column.title;
    button.addEventListener("click", () => {
      sort.descending = sort.column === column && !sort.descending;
      sort.column = column;
      for (const other of head.children) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", sort.descending ? "descending" : "ascending");
      page = 0;
      select();
    });
    header.append(button);
    head.append(header);
  }
  const turn = (pages) => () => {
    page += pages;
    render();
  };
  byId("previous").addEventListener("click", turn(-1));
  byId("next").addEventListener("click", turn(1));
  search.addEventListener("input", () => {
    page = 0;
    select();
  });
  search.form.addEventListener("submit", (event) => event.preventDefault());
  document.querySelector("main").hidden = false;
  select();
})();
