"""What a Faktory server keeps, for faktory_server.py: jobs in queues and sets, reservations, counts; all in memory."""

import asyncio, collections, json, random, re, time
from datetime import datetime, timezone

QNAME = re.compile(r"\A[a-zA-Z0-9._-]+\Z")


def iso(t=None):
    return datetime.fromtimestamp(t or time.time(), timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_ts(s):
    s = re.sub(r"(\.\d{6})\d+", r"\1", s).replace("Z", "+00:00")
    d = datetime.fromisoformat(s)
    if d.tzinfo is None:
        raise ValueError("no time zone")
    return d.timestamp()


class Err(Exception):
    pass


class State:
    def __init__(self, o):
        self.o, self.t0 = o, time.time()
        self.log = open(o.log, "a", buffering=1) if o.log else None   # by lines: written before it is answered
        self.cmds = self.conns = self.pushes = self.bulks = self.offered = 0
        self.accepted, self.jids = 0, collections.Counter()
        self.lost_replies = 0
        self.workers = {}
        self.reset()

    def reset(self):
        self.queues = {}
        self.unique = set()                                     # of jobs with custom.unique_for, whose time is not counted
        self.paused = set()
        self.scheduled, self.retries, self.dead = {}, {}, {}   # jid -> (when, job)
        self.working = {}                                       # jid -> (expiry, wid, job)
        self.ghosts = []                                        # a jid reserved twice: the first reservation stays
                                                                # in the working count until it expires, as in Faktory
        self.processed = self.failures = 0
        self.wake = asyncio.Event()

    # ---- storing
    def enqueue(self, job):
        q = job["queue"]
        job["enqueued_at"] = iso()
        self.queues.setdefault(q, collections.deque()).append(job)
        self.wake.set()

    def push(self, job):
        if not isinstance(job, dict):
            raise Err("invalid JSON: a job must be an object")
        if not isinstance(job.get("jid"), str) or len(job["jid"].encode()) < 8:
            raise Err("jobs must have a reasonable jid parameter")
        if not job.get("jobtype") or not isinstance(job["jobtype"], str):
            raise Err("jobs must have a jobtype parameter")
        if not isinstance(job.get("args"), list):
            raise Err("jobs must have an args parameter")
        rf = job.get("reserve_for") or 0
        if rf > 86400:
            raise Err("jobs cannot be reserved for more than one day")
        if job.get("retry") is None:
            job["retry"] = 25
        job["queue"] = job.get("queue") or "default"
        job["created_at"] = job.get("created_at") or iso()
        self.offered += 1
        if self.o.refuse_job_every and self.offered % self.o.refuse_job_every == 0:
            raise Err("injected refusal")
        if not QNAME.match(job["queue"]):
            raise Err("invalid queue name %r" % job["queue"])
        if (job.get("custom") or {}).get("unique_for"):
            same = json.dumps([job["queue"], job["jobtype"], job["args"]])
            if same in self.unique:
                raise Err("NOTUNIQUE Job not unique")
            self.unique.add(same)
        at = job.get("at")
        if at:
            try:
                when = parse_ts(at)
            except ValueError:
                raise Err("invalid timestamp for 'at': %r" % at)
            if when > time.time():
                self.scheduled[job["jid"]] = (when, job)
                self.note(job)
                return
        else:
            job.pop("at", None)
        self.enqueue(job)
        self.note(job)

    def note(self, job):
        self.accepted += 1
        if self.o.dup_report:
            self.jids[job["jid"]] += 1
        if self.log:
            self.log.write(json.dumps(job, separators=(",", ":")) + "\n")

    # ---- handing out
    def reserve(self, job, wid):
        rf = min(max(job.get("reserve_for") or 1800, self.o.min_reserve), 86400)
        if job["jid"] in self.working:
            self.ghosts.append(self.working[job["jid"]][0])
        self.working[job["jid"]] = (time.time() + rf, wid, job)

    def pop(self, names):
        for n in names:
            if n not in self.paused and self.queues.get(n):
                return self.queues[n].popleft()

    def fail(self, jid, errtype, message, backtrace):
        if jid not in self.working:
            raise Err("Job not found " + str(jid))
        _, _, job = self.working.pop(jid)
        self.failures += 1
        self.processed += 1
        f, limit = job.get("failure"), job["retry"]
        if f:
            f["retry_count"] += 1
            f["remaining"] = max(0, f["remaining"] - 1)
        else:
            f = job["failure"] = {"retry_count": 0, "remaining": limit, "failed_at": iso()}
        f.update(message=(message or "unknown")[:1000], errtype=(errtype or "unknown")[:100],
                 backtrace=(backtrace or [])[:50])
        if limit == 0:
            return
        n = f["retry_count"]
        if n < limit:
            delay = (n ** 4 + 15 + random.randrange(30) * (n + 1)) * self.o.retry_scale
            f["next_at"] = iso(time.time() + delay)
            self.retries[jid] = (time.time() + delay, job)
        else:
            self.dead[jid] = (time.time() + 180 * 86400, job)

    def tick(self, now):
        for s in (self.scheduled, self.retries):
            for jid in [j for j, (t, _) in s.items() if t <= now]:
                self.enqueue(s.pop(jid)[1])
        for jid in [j for j, (t, _, _) in self.working.items() if t <= now]:
            self.fail(jid, "ReservationExpired", "Faktory job reservation expired", [])
        self.ghosts = [t for t in self.ghosts if t > now]
        for wid in [w for w, v in self.workers.items() if v["seen"] < now - 60]:
            for c in self.workers.pop(wid)["conns"]:             # a consumer that sends no BEAT for 60 s is cut off
                c.close()

    def info(self):
        d = {"now": iso(), "server_utc_time": datetime.now(timezone.utc).strftime("%H:%M:%S UTC"),
             "faktory": {"queues": {k: len(v) for k, v in sorted(self.queues.items())},
                         "sets": {"dead": len(self.dead), "retries": len(self.retries),
                                  "scheduled": len(self.scheduled), "working": len(self.working) + len(self.ghosts)},
                         "tasks": {}, "total_failures": self.failures, "total_processed": self.processed,
                         "total_enqueued": sum(map(len, self.queues.values())),
                         "total_queues": len(self.queues)},
             "server": {"description": "Faktory", "faktory_version": "1.9.9", "uptime": int(time.time() - self.t0),
                        "connections": self.conns, "command_count": self.cmds, "used_memory_mb": 1}}
        if self.o.dup_report:
            d["test"] = {"accepted": self.accepted, "distinct_jids": len(self.jids),
                         "dup_jids": sum(1 for v in self.jids.values() if v > 1), "lost_replies": self.lost_replies}
        return d
