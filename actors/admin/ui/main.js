// The frame of the pages: navigation, banner, token dialog and page selection.

import { hasToken, setToken } from "./api.js";
import { el, keyed, setAttr, setText } from "./dom.js";
import { duration, moment } from "./format.js";
import { itemPage, searchField } from "./item_page.js";
import { jobPage } from "./job_page.js";
import { canCommand, start, state, subscribe } from "./live.js";
import { overviewPage } from "./overview.js";
import { link, route } from "./router.js";
import { liveGlyph, stateOf } from "./states.js";
import { subsystemPage } from "./subsystem.js";
import { treePage } from "./tree_page.js";

const main = document.getElementById("main");
const banner = document.getElementById("banner");
const connection = document.getElementById("connection");
const [connectionState, uptime, roleName] = ["", "uptime", ""].map((name) => el("span", { class: name || null }));
const links = new Map();
let page = null;
let shown = "";
/** Name of the page, with the job or item of its own page. */
let opened = null;
let tokenDialog = null;

/** Returns the attribute path of the job whose page an address names, or null. */
function jobOf({ page: name, path }) {
  return name === "queue" && path.startsWith("job/") ? path.slice(4) : null;
}

function pageFor(name, job, path) {
  if (job !== null) return jobPage(job);
  if (name === "item") return itemPage(path);
  if (name === "tree") return treePage();
  if (name === "" || name === "overview") return overviewPage();
  return subsystemPage(name);
}

function navigate() {
  const at = route();
  const job = jobOf(at);
  const next = `${at.page} ${at.page === "item" ? at.path : job}`;
  if (opened !== next) {
    page?.close?.();
    [shown, opened] = [at.page, next];
    page = pageFor(at.page, job, at.path);
    main.replaceChildren(page.node);
    scrollTo(0, 0);
  }
  for (const dialog of document.querySelectorAll("#dialogs dialog[open]")) if (dialog !== tokenDialog) dialog.close();
  render();
}

function subsystems() {
  return state.tree?.root.children.filter((child) => child.children.length > 0) ?? [];
}

function navigation() {
  const items = [
    { name: "", title: "Overview" },
    { name: "tree", title: "Tree" },
    ...subsystems().map((node) => ({ name: node.id, title: node.id, node })),
  ];
  keyed(document.getElementById("nav"), links, items, (item) => item.name, (item) => {
    const sign = item.node ? liveGlyph() : null;
    const node = el("a", { href: link(item.name) }, sign?.node, el("span", { text: item.title }));
    return {
      node,
      update(now) {
        sign?.update(stateOf(now.node));
        setAttr(node, "aria-current", shown === now.name ? "page" : null);
      },
    };
  });
}

function frame() {
  const names = { connecting: "connecting", live: "live", hidden: "paused", lost: "connection lost", denied: "token required" };
  const role = state.info?.caller?.role;
  const age = state.tree ? `, up ${duration(state.tree.uptime_ms)}` : "";
  setText(connectionState, names[state.status]);
  setText(uptime, state.status === "live" ? age : "");
  setText(roleName, role ? ` · ${role}` : "");
  setAttr(connection, "data-status", state.status);
  setAttr(document.body, "data-role", role ?? "none");
  const root = state.tree?.root.id ?? "orchestrator";
  setText(document.getElementById("program"), root);
  const here = shown === "" ? "overview" : shown;
  document.title = `${here} – ${root}`;
  let text = "";
  if (state.status === "lost") text = `Connection lost: ${state.message}. Reconnecting; the data shown is out of date.`;
  else if (state.restartedAt && Date.now() - state.restartedAt < 20000) text = `The program was restarted at ${moment(state.restartedAt)}.`;
  setText(banner, text);
  setAttr(banner, "data-kind", state.status === "lost" ? "bad" : "info");
  banner.hidden = text === "";
}

function askForToken() {
  if (tokenDialog) return;
  const field = el("input", { id: "token", type: "password", autocomplete: "off", required: true, "aria-describedby": "token-why" });
  const enter = (event) => {
    event.preventDefault();
    setToken(field.value.trim());
    tokenDialog.close();
    tokenDialog.remove();
    tokenDialog = null;
    start();
  };
  const why = hasToken() ? "This token is unknown. Enter another one." : "The endpoint requires a token from the file that admin.tokens_file names.";
  tokenDialog = el("dialog", { "aria-labelledby": "token-title" },
    el("form", { on: { submit: enter } },
      el("h2", { id: "token-title", text: "Token" }),
      el("p", { id: "token-why", text: `${why} The token is kept until this tab is closed.` }),
      el("label", { for: "token", text: "Token" }), field,
      el("p", { class: "buttons" }, el("button", { class: "main", text: "Enter" }))));
  tokenDialog.addEventListener("cancel", (event) => event.preventDefault());
  document.getElementById("dialogs").append(tokenDialog);
  tokenDialog.showModal();
}

function render() {
  navigation();
  frame();
  if (state.status === "denied") askForToken();
  if (state.tree) page?.update(state, { ...route(), commands: canCommand() });
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, dialog");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    const field = document.getElementById("filter");
    if (field) {
      event.preventDefault();
      field.focus();
      field.select();
    }
  }
});

searchField(document.getElementById("search"));
connection.append(connectionState, uptime, roleName);
addEventListener("hashchange", navigate);
subscribe(render);
navigate();
start();
