// The console tab of a child: a form for each verb that the child declares.

import { consoleUrl, get, post } from "./api.js";
import { commandLines, confirmAction } from "./actions.js";
import { el, setText, table } from "./dom.js";
import { count, moment, words } from "./format.js";
import { canCommand } from "./live.js";

/** Returns the names of the fields of a verb's answer that are times in unix seconds. */
export function timesOf(declared) {
  const names = new Set();
  const visit = (schema) => {
    if (schema === null || typeof schema !== "object") return;
    for (const [name, field] of Object.entries(schema.properties ?? {})) if (field?.format === "unix-time") names.add(name);
    Object.values(schema).forEach(visit);
  };
  visit(declared?.responses?.["200"]?.content?.["application/json"]?.schema ?? null);
  return names;
}

/** Formats a response: a list of objects or an object with plain values as a table, else as JSON. `times` names fields with times. */
export function answerView(answer, times = new Set()) {
  const plain = (value) => value === null || typeof value !== "object";
  const shown = (value, key) => {
    if (typeof value === "number") return times.has(key) ? moment(value * 1000) : count(value);
    return plain(value) ? String(value ?? "–") : JSON.stringify(value);
  };
  if (Array.isArray(answer) && answer.length && answer.every((one) => one && !plain(one))) {
    const keys = [...new Set(answer.flatMap(Object.keys))];
    return table("Answer", keys.map(words), answer.map((one) => keys.map((key) => shown(one[key], key))));
  }
  if (answer && !Array.isArray(answer) && typeof answer === "object" && Object.values(answer).every(plain)) {
    return el("dl", { class: "pairs" }, Object.entries(answer).flatMap(([key, value]) => [el("dt", { text: words(key) }), el("dd", { text: shown(value, key) })]));
  }
  return el("pre", { class: "reason", text: JSON.stringify(answer, null, 2) });
}

/** Returns the declarations of the verbs of the child at `path` that the caller may use, by their names. */
export async function verbsOf(path) {
  const before = consoleUrl(path, "");
  const paths = Object.entries((await get("/openapi.json")).paths).filter(([url]) => url.startsWith(before));
  const verbs = paths.map(([url, item]) => [decodeURIComponent(url.slice(before.length)), item.post]);
  return new Map(verbs.filter(([name, declared]) => !name.includes("/") && (canCommand() || declared["x-effect"] === "reads")));
}

/** Creates a field for an argument. `read()` returns its value, undefined if it is empty. */
function field(name, schema, required) {
  const id = `argument-${name}`;
  const type = [schema.type].flat().find((one) => one !== "null");
  const initial = schema.default ?? "";
  let input;
  let read = () => input.value || undefined;
  if (schema.enum) {
    input = el("select", { id, required }, [required ? [] : [""], schema.enum].flat(2).map((one) => el("option", { value: one, text: one })));
  } else if (type === "boolean") {
    input = el("input", { id, type: "checkbox", checked: initial === true });
    read = () => input.checked;
  } else if (type === "integer" || type === "number") {
    input = el("input", { id, type: "number", step: type === "integer" ? "1" : "any", value: String(initial), required });
    read = () => (input.value === "" ? undefined : Number(input.value));
  } else if (type === "string") {
    input = el("input", { id, type: "text", value: String(initial), required, autocomplete: "off", spellcheck: "false" });
  } else {
    input = el("textarea", { id, rows: "2", required, spellcheck: "false", placeholder: "JSON" });
    read = () => (input.value.trim() === "" ? undefined : JSON.parse(input.value));
  }
  return { name, read, nodes: [el("label", { for: id, text: `${words(name)}: ${schema.description ?? ""}` }), input] };
}

export function consolePanel(child) {
  const path = child.path;
  const verb = el("select", { id: "console-verb" });
  const summary = el("p", { class: "quiet" });
  const form = el("div");
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const answer = el("div", { role: "status" });
  const lines = el("div");
  let verbs = new Map();
  let fields = [];

  function fail(text) {
    problem.hidden = false;
    setText(problem, text);
  }

  function choose() {
    const declared = verbs.get(verb.value);
    const { properties = {}, required = [] } = declared.requestBody.content["application/json"].schema;
    setText(summary, declared.summary);
    // The dialog of a change asks for the reason and the end.
    const named = Object.entries(properties).filter(([name]) => !["reason", "until"].includes(name));
    fields = named.map(([name, schema]) => field(name, schema, required.includes(name)));
    form.replaceChildren(...fields.flatMap((one) => one.nodes));
  }

  async function send(name, given) {
    problem.hidden = true;
    try {
      answer.replaceChildren(answerView(await post(consoleUrl(path, name), given), timesOf(verbs.get(name))));
    } catch (error) {
      fail(error.message);
    }
    lines.replaceChildren(commandLines({ path, verb: name, body: given, console: true }));
  }

  function submit(event) {
    event.preventDefault();
    let given;
    try {
      given = Object.fromEntries(fields.map((one) => [one.name, one.read()]).filter(([, value]) => value !== undefined));
    } catch (error) {
      fail(`An argument is not JSON: ${error.message}`);
      return;
    }
    const declared = verbs.get(verb.value);
    if (declared["x-effect"] === "reads") send(verb.value, given);
    else confirmAction({ path, verb: verb.value, body: given, console: declared, done: (got) => answer.replaceChildren(answerView(got, timesOf(declared))) });
  }

  verb.addEventListener("change", choose);
  verbsOf(path).then((found) => {
    verbs = found;
    verb.replaceChildren(...[...verbs.keys()].map((name) => el("option", { value: name, text: name })));
    choose();
  }, (error) => fail(error.message));
  return {
    node: el("form", { class: "console", on: { submit } },
      el("label", { for: "console-verb", text: "Verb" }), verb, summary, form,
      el("p", { class: "buttons" }, el("button", { class: "main", text: "Send" })),
      el("p", { class: "quiet", text: "Requests that change something are recorded in the audit log." }),
      problem, answer, lines),
    update() {},
  };
}
