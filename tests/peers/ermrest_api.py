"""The data API of `ermrest_server.py`: one request in, status, body, headers and whether anything was written out."""
import base64, hashlib, json, re
from urllib.parse import unquote, urlsplit

from ermrest_rows import COLS, INTS, SYS, Err, P, colmap


class Request:
    """What a handler was asked: `method`, the `raw` target, `headers` and `body`, and `who` asks."""

    def __init__(self, method, raw, headers, body, who):
        self.method, self.raw, self.headers, self.body, self.who = method, raw, headers, body, who

    def tags(self, header):
        v = self.headers.get(header)
        if v is None:
            return None
        return {t[2:] if t.startswith("W/") else t for t in re.findall(r'(?:W/)?"(?:[^"\\]|\\.)*"|\*', v)}


def lines(rs, stream):
    texts = [json.dumps(r, separators=(",", ":"), ensure_ascii=False) for r in rs]
    if stream:
        return "".join(t + "\n" for t in texts).encode()
    return ("[" + ",\n ".join(texts) + "]\n").encode()


class Api:
    """One catalog. Not safe for threads: who calls holds the lock."""

    def __init__(self, store, catalog):
        self.store, self.catalog = store, catalog

    def answer(self, request):
        path, query = urlsplit(request.raw).path, urlsplit(request.raw).query
        m = re.match(r"/ermrest/catalog/([^/]+)(/.*)?$", path)
        if not m:
            raise Err(404)
        if m.group(1) != self.catalog:
            raise Err(404, "catalog %s" % m.group(1))
        if request.method == "HEAD":
            raise Err(500)
        rest = m.group(2) or ""
        if rest in ("", "/"):
            body = json.dumps({"id": self.catalog, "features": {}}).encode()
            return 200, body, {"Content-Type": "application/json"}, False
        return self.data(request, rest.strip("/").split("/"), query)

    def data(self, request, parts, query):
        api, path = parts[0], parts[1:]
        if api not in ("entity", "attribute", "attributegroup", "aggregate") or not path:
            raise Err(404)
        q = dict(kv.partition("=")[::2] for kv in re.split("[&;]", query) if kv)
        mods = ""
        if "@" in path[-1]:
            path[-1], _, mods = path[-1].partition("@")
            mods = "@" + mods
        proj = path.pop() if api != "entity" else None
        if not path:
            raise Err(400, "URL parse error at token: None")
        table = path[0].split(":=")[-1].split(":")[-1]
        if table not in self.store.t:
            raise Err(409, "Table %s not found in model." % table)
        filters = [P(f).parse() for f in path[1:]]
        self.check_tags(request)
        if request.method == "GET":
            return self.ok(request, self.read(self.store.t[table], filters, api, proj, mods, q), False)
        if request.method == "DELETE":
            return self.delete(request, self.store.t[table], filters)
        if filters:
            raise Err(400, "Entity filters not allowed during entity PUT.")
        rows = self.input(request)
        if api == "attributegroup" and request.method == "PUT":
            return self.ok(request, self.update(self.store.t[table], rows, proj, request.who), True)
        if api != "entity":
            raise Err(405)
        return self.upsert(request, table, rows, q)

    def etag(self, request):
        roles = base64.urlsafe_b64encode(hashlib.md5(json.dumps([request.who]).encode()).digest()).decode()
        snap = self.store.snap.isoformat(sep=" ", timespec="microseconds")
        return '"%s;%s;%s"' % (roles, request.headers.get("accept", ""), snap)

    def check_tags(self, request):
        e, im, inm = self.etag(request), request.tags("if-match"), request.tags("if-none-match")
        if (im and e not in im and "*" not in im) or (inm and (e in inm or "*" in inm)):
            headers = {"ETag": e, "Vary": "accept"}
            raise Err(304 if request.method == "GET" else 412, None, headers)

    def ok(self, request, rows, written):
        stream = request.headers.get("accept") == "application/x-json-stream"
        body = rows if isinstance(rows, bytes) else lines(rows, stream)
        kind = "application/x-json-stream" if stream else "application/json"
        return 200, body, {"Content-Type": kind, "Vary": "accept", "ETag": self.etag(request)}, written

    def read(self, rows, filters, api, proj, mods, q):
        limit = q.get("limit", "none")
        if limit != "none" and not limit.isdigit():
            raise Err(400, 'The "limit" query-parameter requires an integer or the string "none".')
        rs = [r for r in rows.values() if all(f(r) for f in filters)]
        ms = re.search(r"@sort\(([^)]*)\)", mods)
        if ms:
            keys = [(unquote(k.replace("::desc::", "")), k.endswith("::desc::")) for k in ms.group(1).split(",")]
            for k, d in reversed(keys):
                rs.sort(key=lambda r: (r[k] is None, r[k] if r[k] is not None else 0), reverse=d)
            ma = re.search(r"@after\(([^)]*)\)", mods)
            if ma:
                av = [unquote(v) for v in ma.group(1).split(",")]
                av = [int(v) if k in INTS else v for v, (k, _) in zip(av, keys)]
                rs = [r for r in rs if after(r, keys, av)]
        if limit != "none":
            rs = rs[:int(limit)]
        if api == "entity":
            return rs
        if api == "attribute":
            cm = [(c, c) for c in COLS] if proj == "*" else colmap(proj)
            return [{o: r[c] for o, c in cm} for r in rs]
        if api == "aggregate":
            return [{proj.split(":=")[0]: len(rs)}]
        key, _, agg = proj.partition(";")
        cm, groups = colmap(key), {}
        for r in rs:
            groups.setdefault(tuple(r[c] for _, c in cm), []).append(r)
        named = lambda k: {o: k[i] for i, (o, _) in enumerate(cm)}
        return [{**named(k), **({"n": len(v)} if agg else {})} for k, v in groups.items()]

    def delete(self, request, rows, filters):
        ks = [k for k, r in rows.items() if all(f(r) for f in filters)]
        if not ks:
            raise Err(404, "entities matching request path")
        for k in ks:
            del rows[k]
        self.store.bump()
        return 204, b"", {"ETag": self.etag(request), "Vary": "accept"}, True

    def input(self, request):
        kind = (request.headers.get("content-type") or "application/json").split(";")[0].strip().lower()
        try:
            if kind == "application/json":
                rows = json.loads(request.body)
            elif kind == "application/x-json-stream":
                rows = [json.loads(x) for x in request.body.splitlines() if x.strip()]
            else:
                raise Err(415, "%s input not supported" % kind)
        except ValueError:
            raise Err(400, "Bad JSON array input. ERROR:  invalid input syntax for type json")
        if not isinstance(rows, list):
            raise Err(400, "Bad JSON array input. ERROR:  cannot call json_array_elements on a non-array")
        return rows

    def update(self, rows, inp, proj, who):
        k, _, t = proj.partition(";")
        km, tm = colmap(k), colmap(t) if t else []
        if not tm:
            raise Err(400, "Grouped attribute update requires at least one target attribute.")
        names = [o for o, _ in km + tm]
        if len(set(names)) != len(names):
            raise Err(409, 'column "%s" specified more than once' % next(n for n in names if names.count(n) > 1))
        seen = [tuple(json.dumps(i.get(o)) for o, _ in km) for i in inp]
        if len(set(seen)) != len(seen):
            raise Err(400, "Multiple input rows share the same unique key information.")
        rid = next((o for o, c in km if c == "RID"), None)
        now, out = self.store.bump(), []
        for i in inp:
            # Rows are kept by RID: no walk where that is a key.
            found = [rows[i[rid]]] if rid and i.get(rid) in rows else [] if rid else rows.values()
            for r in found:
                if all(r[c] == i.get(o) for o, c in km):
                    for o, c in tm:
                        if c not in SYS:
                            r[c] = i.get(o)
                    r["RMT"], r["RMB"] = now, who
                    out.append({**{o: i.get(o) for o, _ in km}, **{o: r[c] for o, c in tm}})
        return out

    def upsert(self, request, table, inp, q):
        rows, post = self.store.t[table], request.method == "POST"
        by_id = {r["id"]: r for r in rows.values()}
        if post:
            dup = [i for i in inp if i.get("id") in by_id]
            if dup and q.get("onconflict") != "skip":
                raise Err(409, 'Input data violates model. ERROR:  duplicate key value violates unique constraint "%s_id_key"' % table)
            inp = [i for i in inp if i.get("id") not in by_id]
        if any(i.get("id") is None for i in inp):
            raise Err(409, 'Input data violates model. ERROR:  null value in column "id"')
        now, out = self.store.bump(), []
        for i in inp:
            r = by_id.get(i["id"])
            if r is None:
                rid = self.store.rid()
                r = rows[rid] = {c: None for c in COLS}
                r.update(RID=rid, RCT=now, RCB=request.who)
            for c in COLS:
                if c not in SYS:
                    r[c] = i.get(c)
            r.update(RMT=now, RMB=request.who)
            out.append(dict(r))
        return self.ok(request, doubled(out) if post and out else out, True)


def doubled(rs):
    """The real server repeats the system columns of what was inserted."""
    texts = []
    for r in rs:
        again = ",".join('"%s":%s' % (c, json.dumps(r[c])) for c in SYS)
        texts.append(json.dumps(r, separators=(",", ":"), ensure_ascii=False)[:-1] + "," + again + "}")
    return ("[" + ",\n ".join(texts) + "]\n").encode()


def after(r, keys, av):
    for (k, d), v in zip(keys, av):
        if r[k] == v:
            continue
        if r[k] is None:
            return not d
        return (r[k] < v) if d else (r[k] > v)
    return False
