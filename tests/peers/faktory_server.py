#!/usr/bin/env python3
"""Fake Faktory server for tests: version 2 of its work protocol on a loopback port, with the jobs in memory. It answers as a real
server 1.10 was seen to, also where that is odd (`info` is an unknown command, END has no reply, a jid that is reserved twice stays in
`working`). Standard library only.

Usage: faktory_server.py [--port N] [..]     until SIGTERM, or with --end-with-stdin until standard input ends; says
{"listening": PORT} once it does

A second job with the same queue, type and arguments is refused if custom.unique_for is set, as by Faktory Enterprise.

What a real server does not do, and tests need:
  --log FILE              append one JSON line per accepted job, in acceptance order
  --dup-report            INFO gains "test":{"accepted":N,"distinct_jids":N,"dup_jids":N,"lost_replies":N}
  --error-push-every N    answer -ERR to every Nth PUSH/PUSHB (job(s) NOT stored)
  --refuse-job-every N    refuse every Nth job (NOT stored): PUSHB names it, PUSH is answered -ERR
  --lose-reply-every N    store the job(s) of every Nth PUSH/PUSHB, then cut the connection
                          without replying (the ambiguous acknowledgement)
  --cut-push-every N      cut the connection at every Nth PUSH/PUSHB without storing
  --partial-bulk-every N  every Nth PUSHB: store the first half, then cut the connection
  --stall-every N:SEC     sleep SEC before answering every Nth command
  --latency-ms M          sleep before answering every command
  --push-latency-ms M     sleep before storing what a PUSH/PUSHB brings
  --split-writes          write every reply in two TCP segments, 2 ms apart
  --retry-scale X         multiply retry delays by X (0 = retry at once)
  --max-conn N            refuse further connections with -ERR, as an overloaded server does
  --tls CERT KEY          speak TLS
"""
import argparse, asyncio, collections, hashlib, json, random, signal, ssl, sys, threading, time

from faktory_jobs import Err, State, parse_ts


class Conn:
    def __init__(self, st, r, w):
        self.st, self.r, self.w, self.wid = st, r, w, ""

    async def send(self, b):
        if self.st.o.split_writes and len(b) > 3:
            k = max(1, len(b) // 2)
            self.w.write(b[:k]); await self.w.drain(); await asyncio.sleep(.002)
            b = b[k:]
        self.w.write(b)
        await self.w.drain()

    async def bulk(self, s):
        await self.send(b"$-1\r\n" if s is None else b"$%d\r\n%s\r\n" % (len(s.encode()), s.encode()))

    async def ok(self):
        await self.send(b"+OK\r\n")

    async def err(self, m):
        text = str(m).replace("\r", " ").replace("\n", " ")
        await self.send(("-%s\r\n" % (text if text.startswith("NOTUNIQUE ") else "ERR " + text)).encode())

    async def hello(self):
        o = self.st.o
        hi, salt, it = {"v": 2}, "", 0
        if o.password:
            it, salt = random.randrange(4000, 8096), "%x" % random.getrandbits(63)
            hi.update(i=it, s=salt)
        await self.send(b"+HI " + json.dumps(hi, separators=(",", ":")).encode() + b"\r\n")
        line = (await asyncio.wait_for(self.r.readline(), o.handshake_timeout)).decode().strip()
        if not line.startswith("HELLO {"):
            return False
        h = json.loads(line[6:])
        if o.password:
            b = (o.password + salt).encode()
            for _ in range(it):
                b = hashlib.sha256(b).digest()
            if h.get("pwdhash") != b.hex():
                await self.err("Invalid password")
                return False
        self.wid = h.get("wid") or ""
        if self.wid:
            w = self.st.workers.setdefault(self.wid, {"state": "", "hello": h, "conns": set()})
            w["seen"] = time.time()
            w["conns"].add(self.w)
        await self.ok()
        return True

    def fault(self, n, every):
        return every and n % every == 0

    async def dispatch(self, line):
        st, o = self.st, self.st.o
        verb, _, arg = line.partition(" ")
        st.cmds += 1
        if o.latency_ms:
            await asyncio.sleep(o.latency_ms / 1000)
        if o.stall and st.cmds % o.stall[0] == 0:
            await asyncio.sleep(o.stall[1])
        if verb in ("PUSH", "PUSHB"):
            st.pushes += 1
            if o.push_latency_ms:
                await asyncio.sleep(o.push_latency_ms / 1000)
            if self.fault(st.pushes, o.error_push_every):
                raise Err("injected failure")
            if self.fault(st.pushes, o.cut_push_every):
                return False
            try:
                body = json.loads(arg)
            except ValueError as e:
                raise Err("invalid JSON: %s" % e)
            if verb == "PUSH":
                st.push(body)
                if self.fault(st.pushes, o.lose_reply_every):
                    st.lost_replies += 1
                    return False
                await self.ok()
            else:
                st.bulks += 1
                if not isinstance(body, list):
                    raise Err("invalid JSON: PUSHB needs an array")
                part = self.fault(st.bulks, o.partial_bulk_every)
                bad = {}
                for j in body[:len(body) // 2] if part else body:
                    try:
                        st.push(j)
                    except Err as e:
                        bad[str(j.get("jid", "")) if isinstance(j, dict) else ""] = str(e)
                if part or self.fault(st.pushes, o.lose_reply_every):
                    st.lost_replies += 1
                    return False
                await self.bulk(json.dumps(bad, separators=(",", ":")))
        elif verb == "FETCH":
            names = arg.split()
            if not names:
                raise Err("must call fetch with at least one queue")
            end = time.time() + 2
            w = st.workers.get(self.wid)
            quiet = bool(w and w["state"])
            job = None if quiet else st.pop(names)
            while job is None and time.time() < end:
                st.wake.clear()
                try:
                    await asyncio.wait_for(st.wake.wait(), max(.01, end - time.time()))
                except asyncio.TimeoutError:
                    break
                job = None if quiet else st.pop(names)
            if job:
                st.reserve(job, self.wid)
            await self.bulk(json.dumps(job, separators=(",", ":")) if job else None)
        elif verb == "ACK":
            jid = json.loads(arg).get("jid")
            if jid is None:
                raise Err("invalid ACK " + arg)
            if st.working.pop(jid, None):
                st.processed += 1
            await self.ok()
        elif verb == "FAIL":
            f = json.loads(arg)
            if not f.get("jid"):
                raise Err("missing JID")
            st.fail(f["jid"], f.get("errtype"), f.get("message"), f.get("backtrace"))
            await self.ok()
        elif verb == "BEAT":
            b = json.loads(arg)
            w = st.workers.get(b.get("wid"))
            if not w:
                raise Err("unknown worker %s" % b.get("wid"))
            w["seen"] = time.time()
            if b.get("current_state") in ("quiet", "terminate"):
                w["state"] = b["current_state"]
            if w["state"]:
                await self.bulk('{"state":"%s"}' % w["state"])
            else:
                await self.ok()
        elif verb == "INFO":
            await self.bulk(json.dumps(st.info(), separators=(",", ":")))
        elif verb == "FLUSH":
            names = list(st.queues)          # a real server remembers queue names until restarted
            st.reset()
            st.queues = {n: collections.deque() for n in names}
            await self.ok()
        elif verb == "QUEUE":
            sub, *names = arg.split() or [""]
            names = list(st.queues) if names == ["*"] else names
            sub = sub.upper()
            if sub == "LATENCY":
                now = time.time()
                await self.bulk(json.dumps({n: (now - parse_ts(st.queues[n][0]["enqueued_at"]))
                                            if st.queues.get(n) else 0 for n in names}))
                return True
            for n in names:
                if sub == "PAUSE" and n in st.queues:
                    st.paused.add(n)
                elif sub == "RESUME":
                    st.paused.discard(n); st.wake.set()
                elif sub == "REMOVE":
                    st.queues.pop(n, None); st.paused.discard(n)
                elif sub not in ("PAUSE",):
                    raise Err("no such QUEUE subcommand: " + sub)
            await self.ok()
        elif verb == "MUTATE":
            m = json.loads(arg)
            src = {"retries": st.retries, "scheduled": st.scheduled, "dead": st.dead}.get(m.get("target"))
            if src is None:
                raise Err("invalid target for mutation command")
            f = m.get("filter") or {}
            hit = [j for j, (_, job) in src.items()
                   if (not f.get("jids") or j in f["jids"]) and (not f.get("jobtype") or job["jobtype"] == f["jobtype"])]
            for j in hit:
                t, job = src.pop(j)
                if m["cmd"] == "kill":
                    st.dead[j] = (time.time() + 180 * 86400, job)
                elif m["cmd"] == "requeue":
                    st.enqueue(job)
            await self.ok()
        elif verb in ("BATCH", "TRACK"):
            raise Err("%s is an Enterprise feature" % verb.lower())
        elif verb == "END":
            return False
        else:
            raise Err("unknown command " + verb)
        return True

    async def run(self):
        st = self.st
        try:
            if not await self.hello():
                return
            st.conns += 1
            try:
                if st.conns > st.o.max_conn:
                    await self.err("too many connections: %d" % st.conns)
                    return
                while True:
                    line = await self.r.readline()
                    if not line.endswith(b"\n"):      # the end, perhaps in the middle of a command: that is none
                        return
                    try:
                        if not await self.dispatch(line.decode().rstrip("\r\n")):
                            return
                    except Err as e:
                        await self.err(e)
                    except (ValueError, KeyError, IndexError, AttributeError, TypeError) as e:
                        await self.err("malformed command: %r" % e)
            finally:
                st.conns -= 1
        except (asyncio.TimeoutError, ConnectionError, json.JSONDecodeError, asyncio.LimitOverrunError, ValueError,
                asyncio.CancelledError):
            pass
        finally:
            self.w.close()


async def main(o):
    st, tls = State(o), None
    if o.tls:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*o.tls)
    srv = await asyncio.start_server(lambda r, w: Conn(st, r, w).run(), "127.0.0.1", o.port, limit=64 << 20, ssl=tls)
    port = srv.sockets[0].getsockname()[1]
    print(json.dumps({"listening": port}), flush=True)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for s in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(s, stop.set)
    if o.end_with_stdin:
        watch = lambda: (sys.stdin.buffer.read(), loop.call_soon_threadsafe(stop.set))
        threading.Thread(target=watch, daemon=True).start()
    while not stop.is_set():
        st.tick(time.time())
        try:
            await asyncio.wait_for(stop.wait(), o.tick)
        except asyncio.TimeoutError:
            pass
    print(json.dumps({"accepted": st.accepted, "commands": st.cmds, "pushes": st.pushes}), flush=True)


def stall(s):
    n, sec = s.split(":")
    return int(n), float(sec)


if __name__ == "__main__":
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--port", type=int, default=0)
    a.add_argument("--password", default="")
    a.add_argument("--log")
    a.add_argument("--dup-report", action="store_true")
    for n in ("error-push-every", "refuse-job-every", "lose-reply-every", "cut-push-every", "partial-bulk-every", "latency-ms", "push-latency-ms"):
        a.add_argument("--" + n, type=int, default=0)
    a.add_argument("--stall-every", dest="stall", type=stall)
    a.add_argument("--split-writes", action="store_true")
    a.add_argument("--retry-scale", type=float, default=1.0)
    a.add_argument("--min-reserve", type=float, default=60, help="a real server: 60")
    a.add_argument("--handshake-timeout", type=float, default=2)
    a.add_argument("--tick", type=float, default=.5, help="scheduler period; a real server: 5 s")
    a.add_argument("--max-conn", type=int, default=2000)
    a.add_argument("--tls", nargs=2)
    a.add_argument("--end-with-stdin", action="store_true")
    asyncio.run(main(a.parse_args()))
