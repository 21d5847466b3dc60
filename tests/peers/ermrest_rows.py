"""The rows of `ermrest_server.py`: tables, the filters of its paths, and what its errors say."""
import datetime, json, re
from urllib.parse import unquote

SYS = ["RID", "RCT", "RMT", "RCB", "RMB"]
COLS = SYS + ["id", "state", "payload", "claimed_by", "doc", "attempts", "lease_until", "error"]
INTS = {"id", "attempts"}


class Err(Exception):
    TXT = {400: "Request malformed.", 401: "Access requires authentication.", 404: "Resource not found.",
           405: "Request method not allowed on this resource.", 409: "Request conflicts with state of server.",
           412: "Resource state does not match requested preconditions.", 415: "The request input type is not supported.",
           500: "The request execution encountered a runtime error.", 503: "The service is temporarily unavailable."}

    def __init__(self, code, detail=None, headers=None):
        self.code, self.headers = code, headers or {}
        self.body = self.TXT.get(code, "") + (" Detail: " + detail if detail else "")


class Store:
    def __init__(self, tables):
        self.t = {n: {} for n in tables}
        self.ridn = 1000
        self.snap = self._now()

    @staticmethod
    def _now():
        return datetime.datetime.now(datetime.timezone.utc)

    def bump(self):
        n = self._now()
        if n <= self.snap:
            n = self.snap + datetime.timedelta(microseconds=1)
        self.snap = n
        return n.isoformat(timespec="microseconds")

    def rid(self):
        n, s, a = self.ridn, "", "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
        self.ridn += 2
        while n:
            s, n = a[n & 31] + s, n >> 5
        return s


    def kept(self):
        return {"tables": self.t, "next": self.ridn, "snap": self.snap.isoformat()}

    def take(self, kept):
        self.t.update(kept["tables"])
        self.ridn, self.snap = kept["next"], datetime.datetime.fromisoformat(kept["snap"])


class P:
    """Filter expression parser: disjunction ';', conjunction '&', '!', parentheses."""
    OPS = ["::lt::", "::leq::", "::gt::", "::geq::", "::regexp::", "::ciregexp::", "="]

    def __init__(self, s):
        self.s, self.i = s, 0

    def parse(self):
        f = self.disj()
        if self.i != len(self.s):
            raise Err(400, "URL parse error at token: %r" % self.s[self.i:self.i + 8])
        return f

    def disj(self):
        fs = [self.conj()]
        while self.s[self.i:self.i + 1] == ";":
            self.i += 1
            fs.append(self.conj())
        return lambda r: any(f(r) for f in fs)

    def conj(self):
        fs = [self.neg()]
        while self.s[self.i:self.i + 1] == "&":
            self.i += 1
            fs.append(self.neg())
        return lambda r: all(f(r) for f in fs)

    def neg(self):
        if self.s[self.i:self.i + 1] == "!":
            self.i += 1
            f = self.neg()
            return lambda r: not f(r)
        if self.s[self.i:self.i + 1] == "(":
            self.i += 1
            f = self.disj()
            if self.s[self.i:self.i + 1] != ")":
                raise Err(400, "URL parse error: missing )")
            self.i += 1
            return f
        return self.pred()

    def pred(self):
        m = re.compile(r"[A-Za-z0-9_.~%-]+").match(self.s, self.i)
        if not m:
            raise Err(400, "URL parse error at token: %r" % self.s[self.i:self.i + 8])
        col = unquote(m.group())
        self.i = m.end()
        if col not in COLS:
            raise Err(409, "Requested column %s does not exist in table." % col)
        if self.s.startswith("::null::", self.i):
            self.i += 8
            return lambda r: r[col] is None
        for op in self.OPS:
            if self.s.startswith(op, self.i):
                self.i += len(op)
                break
        else:
            raise Err(400, "URL parse error at token: %r" % self.s[self.i:self.i + 8])
        m = re.compile(r"(any|all)\(([^)]*)\)").match(self.s, self.i)
        if m:
            vals, q = [unquote(v) for v in m.group(2).split(",")], m.group(1)
        else:
            m = re.compile(r"[A-Za-z0-9_.~%-]*").match(self.s, self.i)
            vals, q = [unquote(m.group())], "any"
        self.i = m.end()
        if col in INTS:
            try:
                vals = [int(v) for v in vals]
            except ValueError:
                raise Err(400, "Invalid int4: %s" % json.dumps(vals[0]))

        def one(a, v):
            if a is None:
                return False
            return {"=": lambda: a == v, "::lt::": lambda: a < v, "::leq::": lambda: a <= v, "::gt::": lambda: a > v,
                    "::geq::": lambda: a >= v, "::regexp::": lambda: bool(re.search(v, str(a))),
                    "::ciregexp::": lambda: bool(re.search(v, str(a), re.I))}[op]()
        return lambda r: (any if q == "any" else all)(one(r[col], v) for v in vals)


def colmap(txt):
    """'a,b:=c' -> [(out, col)]"""
    out = []
    for e in txt.split(","):
        o, _, c = e.rpartition(":=")
        c = unquote(c)
        if c not in COLS:
            raise Err(409, 'Invalid attribute name "%s".' % c)
        out.append((unquote(o) if o else c, c))
    return out
