// Routes of the page: `#/tree/PATH?tab=events`.

/** Returns the page's name, the path behind it, and the query. */
export function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter((part) => part !== "").map(decode);
  return { page: parts[0] ?? "", path: parts.slice(1).join("/"), query: new URLSearchParams(query) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Returns the address of a page. */
export function link(page, path = "", query = {}) {
  const parts = [page, ...path.split("/")].filter((part) => part !== "").map(encodeURIComponent);
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(given).toString();
  return `#/${parts.join("/")}${search ? `?${search}` : ""}`;
}

export function go(page, path, query) {
  location.hash = link(page, path, query);
}

/** Changes the query of the address without adding an entry to the browser's history. */
export function replaceQuery(changes) {
  const { page, path, query } = route();
  history.replaceState(null, "", link(page, path, { ...Object.fromEntries(query), ...changes }));
  dispatchEvent(new Event("hashchange"));
}
