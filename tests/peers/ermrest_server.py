#!/usr/bin/env python3
"""Fake ERMrest server for tests: its data API (entity, attribute, attributegroup, aggregate) on a loopback port, with the rows in
memory. It answers as a real server 0.5.0 was seen to. Standard library only; `--amqp` needs what requirements.txt beside this pins.

Tables have columns RID,RCT,RMT,RCB,RMB,id(int4 unique),state,payload,claimed_by,doc,attempts,lease_until,error.
Rules it keeps: ETag = "<roles>;<Accept header>;<catalog-wide snaptime>"; ANY write bumps it (even [] bodies);
If-None-Match->304, If-Match->412 (with ETag header); attributegroup PUT silently skips unmatched keys (200, echoes only
updated rows) and allows out:=col renames; entity PUT upserts and NULLs absent columns; system columns in bodies ignored on
PUT; entity POST replies with duplicated RID..RMB keys like the real one; unknown table/column 409; HEAD 500; text errors.

Usage: ermrest_server.py [--port N] [..]     until SIGTERM, or with --end-with-stdin until standard input ends; says
{"listening": PORT} once it does

With --faults it can be made to fail, POST /_faults with any of:
  {"lose_put_reply": N}   carry the next N PUTs out, then close their connections without an answer
  {"lose_and_hold": PART} carry the next PUT with PART in its path out, give its rows the state `hold` and the payload `user` as a
                          user would, then close the connection without an answer
  {"drop_put": N}         close the connections of the next N PUTs without carrying them out
  {"drop_get": N}         the same of GETs
  {"hang_up": N}          after each of the next N answers, close the connection without having said so
  {"cut_body": N}         send half of the next N answers' bodies, then close
  {"storm": {"code", "count", "retry_after", "body", "method", "path", "location"}}   answer with this instead; only
                          `method`'s, and paths with `path` in them, if given
  {"calm": true}          no storm any more
  {"delay_ms": M}         wait before each answer from now on
  {"token": T}            another token is the good one from now on
and says at GET /_log {"requests": [{"method", "path", "headers"}..], "statuses": {"GET 304": N..}, "connections": N, "writers": N},
the last 2000 requests, the path as it came; `writers` is how many writes were at work at once at the most. GET /_rows/TABLE has all rows;
neither is logged.
"""
import argparse, collections, json, os, re, signal, ssl, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from ermrest_api import Api, Request
from ermrest_rows import Err, Store

LOCK = threading.RLock()
WRITES = ("PUT", "POST", "DELETE")


class Faults:
    def __init__(self):
        self.lock, self.counts, self.storms, self.delay_ms = threading.Lock(), collections.Counter(), [], 0
        self.requests, self.statuses = collections.deque(maxlen=2000), collections.Counter()
        self.connections = self.writing = self.writers = 0
        self.hold = None

    def set(self, wanted, server):
        with self.lock:
            for name, value in wanted.items():
                if name == "storm":
                    self.storms.append(value)
                elif name == "calm":
                    self.storms.clear()
                elif name == "delay_ms":
                    self.delay_ms = value
                elif name == "lose_and_hold":
                    self.hold = value
                elif name == "token":
                    server.token = value
                else:
                    self.counts[name] = value

    def strikes(self, name):
        with self.lock:
            struck = self.counts[name] > 0
            self.counts[name] -= struck
            return struck

    def holds(self, path):
        with self.lock:
            struck = self.hold is not None and self.hold in path
            self.hold = None if struck else self.hold
            return struck

    def storm(self, method, path):
        with self.lock:
            for storm in self.storms:
                if storm["count"] > 0 and storm.get("method", method) == method and storm.get("path", "") in path:
                    storm["count"] -= 1
                    return storm

    def count(self, **by):
        with self.lock:
            for name, n in by.items():
                setattr(self, name, getattr(self, name) + n)
            self.writers = max(self.writers, self.writing)

    def log(self):
        with self.lock:
            return {"requests": list(self.requests), "statuses": dict(self.statuses),
                    "connections": self.connections, "writers": self.writers}


class Hangup(Exception):
    """The connection ends here, without a word."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "ermrest-double/1"
    wbufsize = -1  # head and body leave together
    disable_nagle_algorithm = True

    counted = False

    def log_message(self, *a):
        pass

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (Hangup, OSError):
            self.close_connection = True

    def say(self, code, body, headers, cut=False):
        bare = code in (304, 204)
        self.send_response(code)
        for k, v in headers.items():
            self.send_header(k, v)
        if not bare:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if body and not bare and self.command != "HEAD":
            if cut and self.server.faults.strikes("cut_body"):
                self.wfile.write(body[:len(body) // 2])
                self.wfile.flush()
                raise Hangup
            self.wfile.write(body)

    def go(self):
        n = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(n) if n else b""
        target = self.requestline.split(" ")[1]  # as it came: http.server joins the slashes at its beginning
        faults = self.server.faults
        if self.server.steered and target.startswith("/_"):
            return self.steer(target, raw)
        with faults.lock:
            headers = {k.lower(): v for k, v in self.headers.items()}
            faults.connections += not self.counted
            self.counted = True
            faults.requests.append({"method": self.command, "path": target, "headers": headers})
            delay = faults.delay_ms / 1000
        if delay:
            time.sleep(delay)
        if faults.strikes("drop_" + self.command.lower()):
            raise Hangup
        storm = faults.storm(self.command, self.path)
        if storm:
            headers = {"Content-Type": "text/plain"}
            headers.update({"Retry-After": storm["retry_after"]} if "retry_after" in storm else {})
            headers.update({"Location": storm["location"]} if "location" in storm else {})
            code, body, written = storm["code"], storm.get("body", "").encode(), False
        else:
            code, body, headers, written = self.answer(target, raw)
        with faults.lock:
            faults.statuses["%s %d" % (self.command, code)] += 1
        if written and self.server.notify:
            self.server.notify()
        if self.command == "PUT" and faults.holds(target):
            self.hold(target, body)
            raise Hangup
        if self.command == "PUT" and faults.strikes("lose_put_reply"):
            raise Hangup
        self.say(code, body, headers, cut=True)
        if faults.strikes("hang_up"):
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = go

    def hold(self, target, body):
        store = self.server.api.store
        with LOCK:
            rows = store.t[target.split("/")[5]]
            for row in json.loads(body):
                rows[row["RID"]].update(state="hold", payload="user", RMT=store.bump())

    def steer(self, target, raw):
        if target == "/_faults":
            self.server.faults.set(json.loads(raw), self.server)
        body = json.dumps(self.server.faults.log()).encode() if target == "/_log" else b"{}"
        if target.startswith("/_rows/"):
            with LOCK:
                body = json.dumps(list(self.server.api.store.t[target[7:]].values())).encode()
        self.say(200, body, {"Content-Type": "application/json"})

    def answer(self, target, raw):
        """A write costs time, and as in a SERIALIZABLE transaction, a commit meanwhile aborts it."""
        server, writes = self.server, self.command in WRITES
        server.faults.count(writing=writes)
        try:
            if target == "/authn/session" and self.command == "POST":
                return self.log_in(raw)
            request = Request(self.command, target, self.headers, raw, self.client())
            if writes and server.write_ms:
                s0, im = server.api.store.snap, request.headers.get("if-match")
                if not im or im == "*" or s0.isoformat(sep=" ", timespec="microseconds") in im:
                    time.sleep(server.write_ms / 1000)
                    with LOCK:
                        if server.api.store.snap != s0:
                            raise Err(503, "Transaction aborted.")
                        return server.api.answer(request)
            with LOCK:
                return server.api.answer(request)
        except Err as e:
            kind = {} if e.code == 304 else {"Content-Type": "text/plain"}
            return e.code, e.body.encode(), {**kind, **e.headers}, False
        finally:
            server.faults.count(writing=-writes)

    def client(self):
        if not self.server.token:
            return "anonymous"
        a, c = self.headers.get("authorization", ""), self.headers.get("cookie", "")
        m = re.match(r"Bearer (\S+)$", a) or re.search(r'webauthn="?([^";]+)', c)
        if m and m.group(1) == self.server.token:
            return "http://localhost/" + m.group(1)
        raise Err(401, "enumerate access on catalog/%s" % self.server.api.catalog)

    def log_in(self, raw):
        form = {k: v[0] for k, v in parse_qs(raw.decode()).items()}
        if not self.server.user or "%(username)s:%(password)s" % form != self.server.user:
            raise Err(401, "login")
        cookie = "webauthn=%s; Path=/; Secure; HttpOnly" % self.server.token
        return 200, b'{"client": {}}', {"Content-Type": "application/json", "Set-Cookie": cookie}, False


class Notifier:
    """fanout publish of body b'change', routing key '', after commit and before the HTTP reply; one reconnect, then silent."""

    def __init__(self, url):
        import pika
        self.pika, self.p = pika, pika.URLParameters(url)
        self.p.heartbeat, self.p.socket_timeout, self.p.connection_attempts = 0, 2, 1
        self.ch, self.lock = None, threading.Lock()

    def _pub(self):
        if self.ch is None:
            self.ch = self.pika.BlockingConnection(self.p).channel()
            self.ch.exchange_declare(exchange="ermrest_changes", exchange_type="fanout")
        self.ch.basic_publish(exchange="ermrest_changes", routing_key="", body=b"change")
        self.ch.connection.process_data_events(0)

    def __call__(self):
        with self.lock:
            for _ in range(2):
                try:
                    return self._pub()
                except Exception:
                    self.ch = None


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, o):
        super().__init__((o.host, o.port), Handler)
        store = Store(o.tables.split(","))
        if o.state and os.path.exists(o.state):
            with open(o.state) as kept:
                store.take(json.load(kept))
        self.api, self.token, self.user, self.write_ms = Api(store, o.catalog), o.token, o.user, o.write_ms
        self.faults, self.steered = Faults(), o.faults
        self.notify = Notifier(o.amqp) if o.amqp else None
        if o.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*o.tls)
            # The handshake is its thread's affair, at the first read.
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)


def main(o):
    server = Server(o)

    def end(*_):
        with LOCK:
            if o.state:
                with open(o.state, "w") as kept:
                    json.dump(server.api.store.kept(), kept)
            os._exit(0)

    signal.signal(signal.SIGTERM, end)
    if o.end_with_stdin:
        threading.Thread(target=lambda: (sys.stdin.read(), os.kill(os.getpid(), signal.SIGTERM)), daemon=True).start()
    print(json.dumps({"listening": server.server_address[1]}), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("--host", default="127.0.0.1")
    a.add_argument("--port", type=int, default=0)
    a.add_argument("--catalog", default="1")
    a.add_argument("--tables", default="Foo,Other")
    a.add_argument("--token", default="", help="who does not show it, as bearer or cookie, gets 401")
    a.add_argument("--user", default="", help="NAME:PASSWORD that POST /authn/session gives the token for")
    a.add_argument("--amqp", default="", help="url of the broker that change notices go to")
    a.add_argument("--write-ms", type=float, default=0, help="cost of a write; >0 also gives 503 'Transaction aborted.' under races, as real ones do")
    a.add_argument("--state", default="", help="a file that the rows are kept in from SIGTERM to the next start")
    a.add_argument("--tls", nargs=2, metavar=("CERT", "KEY"), help="speak TLS")
    a.add_argument("--faults", action="store_true")
    a.add_argument("--end-with-stdin", action="store_true")
    main(a.parse_args())
