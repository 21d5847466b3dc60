#!/usr/bin/env python3
"""Records the metrics that deploy/alerts.yml uses, once a minute, from a program with all five subsystems under a usual load.

Usage: record.py BINARY MINUTES > healthy.txt      as root or not; needs redis-server and target/peers/venv, which tests install

The load, on one machine at a low rate, with the stand-ins of tests/peers as servers:
  queue       two fetchers add a file of 40 jobs every 5 minutes; three workers take 2 s for a job, and ask every 5 s when there is none
  provenance  an import of 60 rows every 20 s
  ingester    a scan of 60 frames every 2 minutes, one worker; each scan is a new mapping
  producer    jobs of a TCN, which a worker takes at 2 a second; the producer stops and goes on at its marks
  catalog     6 new rows every 30 s, each handled by /bin/true

Output: comments, then a line KIND SERIES VALUES for each series. VALUES are MINUTES + 1 samples in the notation of promtool's tests, where
`axn` stands for n + 1 equal samples, and `a+bxn` for n + 1 samples that grow by b. Times are relative to the first sample.
"""

import json
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[3]
PEERS = ROOT / "tests/peers"
PYTHON = ROOT / "target/peers/venv/bin/python"
SUBSYSTEMS = ["queue", "provenance", "ingester", "producer", "catalog"]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def listening(command):
    """Starts a stand-in and waits for its first line."""
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert "listening" in server.stdout.readline(), command
    return server


def get(admin, path):
    """GET over the admin socket."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(10)
        one.connect(str(admin))
        one.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while piece := one.recv(1 << 16):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        whole, rest = b"", body
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            whole, rest = whole + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        body = whole
    return int(head.split()[1]), body.decode()


class Zmtp:
    """ZMTP 3.0 over one connection, with the mechanism NULL."""

    def __init__(self, connection, kind, identity=b""):
        self.connection = connection
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
        ready = b"\x05READY"
        for name, value in ((b"Socket-Type", kind), (b"Identity", identity)):
            ready += bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
        connection.sendall(greeting + bytes([4, len(ready)]) + ready)
        self.exactly(64)
        self.frame()

    def exactly(self, size):
        data = b""
        while len(data) < size:
            piece = self.connection.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def frame(self):
        flags = self.exactly(1)[0]
        size = struct.unpack(">Q", self.exactly(8))[0] if flags & 2 else self.exactly(1)[0]
        return flags, self.exactly(size)

    def send(self, *parts):
        for at, part in enumerate(parts):
            more = at + 1 < len(parts)
            self.connection.sendall(bytes([int(more), len(part)]) + part)


class Site:
    """The servers, the program, and its load."""

    def __init__(self, binary, home):
        self.home, self.binary, self.admin = home, binary, home / "admin.sock"
        self.redis_port, self.egress_port = free_port(), free_port()
        self.mongo_port, self.faktory_port, self.ermrest_port = free_port(), free_port(), free_port()
        redis = ["redis-server", "--port", str(self.redis_port), "--bind", "127.0.0.1", "--save", "", "--dir", str(home)]
        self.servers = [subprocess.Popen(redis, stdout=subprocess.DEVNULL)]
        mongo = [PYTHON, PEERS / "mongo_server.py", str(self.mongo_port), home / "journal"]
        faktory = ["python3", PEERS / "faktory_server.py", "--port", str(self.faktory_port), "--log", home / "jobs.jsonl"]
        ermrest = ["python3", PEERS / "ermrest_server.py", "--port", str(self.ermrest_port)]
        self.servers += [listening(command) for command in (mongo, faktory, ermrest)]
        self.fill_mongo()
        self.detector = socket.create_server(("127.0.0.1", 0))
        (home / "fetchers").mkdir()
        (home / "site.toml").write_text(self.config())
        log = (home / "log").open("w")
        self.program = subprocess.Popen([binary, "run", "--config", home / "site.toml"], cwd=home, stdout=log, stderr=log)

    def config(self):
        return f"""
[admin]
listen = ""
unix_socket = "{self.admin}"
[queue]
[provenance]
sqlite.path = "var/provenance.db"
[[ingester]]
name = "eiger-ingester"
listen = "127.0.0.1:{self.egress_port}"
redis_url = "redis://127.0.0.1:{self.redis_port}/0"
spill_dir = "{self.home}"
[[ingester.stream]]
name = "eiger"
source = "stins"
expect_every = "5m"
upstream_url = "tcp://127.0.0.1:{self.detector.getsockname()[1]}"
[producer]
page_size = 1
high_water = 1000
low_water = 500
chunk = 100
faktory.url = "tcp://127.0.0.1:{self.faktory_port}"
mongodb.uri = "mongodb://127.0.0.1:{self.mongo_port}"
[[catalog]]
name = "lab"
base = "http://127.0.0.1:{self.ermrest_port}/ermrest/catalog/1"
amqp = ""
poll_without_notices_secs = 5
[[catalog.rule]]
name = "work"
table = "Foo"
filter = "state=actionable"
sort = "id"
expect_every = "5m"
claim.set = {{ state = "claimed", claimed_by = "$token", lease_until = "$now+60s" }}
done = {{ state = "complete", lease_until = "$null" }}
handler = {{ kind = "command", argv = ["/bin/true"] }}
""".replace("[queue]", "[queue]\ninput_dir = \"fetchers\"\nsocket = \"worker.sock\"\ndatabase = \"queue.db\"\n[[queue.expect]]\nfetcher = \"github\"\nevery = \"10m\"")

    def fill_mongo(self):
        stencils = [{"_id": "config", "current_completed_tcn": 3, "max_tcn": 5}]
        for at, (tcn, root, scion) in enumerate([(4, 2, 2), (5, 2, 3), (5, 3, 2)]):
            stencils.append(
                {"_id": {"$oid": f"0000057e{at:016x}"}, "TCN": tcn, "rootstock_tcn": root, "scion_tcn": scion, "state": 0}
            )
        tangles = [
            {"_id": {"$oid": (oid := f"{tcn:08x}{at:016x}")}, "notation": oid, "TCN": tcn, "is_good": True, "positivity": "neutral"}
            for tcn, count in ((2, 70), (3, 40))
            for at in range(count)
        ]
        for name, documents in (("arborescent_stencils", stencils), ("arborescent_tangles", tangles)):
            command = [PYTHON, PEERS / "mongo_documents.py", f"mongodb://127.0.0.1:{self.mongo_port}", "tanglenomicon", name]
            subprocess.run([*command, "insert"], input=json.dumps(documents), text=True, check=True)

    def redis(self, *words):
        command = ["redis-cli", "-p", str(self.redis_port), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def fetchers(self):
        number = int(time.time())
        while True:
            for name in ("github", "repology"):
                part = self.home / f"fetchers/{name}.{number}.txt.part"
                part.write_text("".join(f"{name}-{at} {number} {at}\n" for at in range(40)))
                part.rename(self.home / f"fetchers/{name}.{number}.txt")
                for old in self.home.glob(f"fetchers/{name}.*.txt"):
                    if int(old.name.split(".")[1]) < number - 900:
                        old.unlink()
            time.sleep(300)
            number += 300

    def queue_worker(self):
        report = "READY\n"
        while True:
            with socket.socket(socket.AF_UNIX) as one:
                one.connect(str(self.home / "worker.sock"))
                one.sendall(report.encode())
                one.shutdown(socket.SHUT_WR)
                answer = one.makefile().readline()
            report = "READY\n"
            if answer.startswith("JOB "):
                time.sleep(2)
                report = f"DONE {answer.split()[1]} 0\n"
            else:
                time.sleep(5)

    def provenance(self):
        number = 0
        while True:
            rows = self.home / "rows.jsonl"
            with rows.open("w") as out:
                for number in range(number, number + 60):
                    out.write(json.dumps({"add": "content", "id": f"{number % 256:02x}{number:038x}"}) + "\n")
            self.command("provenance", "import", rows)
            time.sleep(20)

    def command(self, *words):
        arguments = [self.binary, "--socket", self.admin, *words]
        subprocess.run(arguments, capture_output=True, cwd=self.home, check=True)

    def ingester(self):
        source = None
        while True:
            mapping, events = str(uuid.uuid4()), 62
            update = {"mapping_uuid": mapping, "parameters_version": {}, "target_parameters_hash": None, "active_streams": ["eiger"], "finished": False}
            self.redis("XADD", "dranspose:controller:updates", "*", "data", json.dumps(update))
            while json.loads(self.redis("GET", "dranspose:ingester:eiger-ingester:config") or "{}").get("mapping_uuid") != mapping:
                time.sleep(0.2)
            # Open until now: the ingester would dial again.
            if source:
                source.connection.close()
            assigned = [{"event_number": event, "assignments": {"eiger": ["w1"]}} for event in range(events)]
            self.redis("XADD", f"dranspose:assigned:{mapping}", "*", "data", json.dumps(assigned))
            source = Zmtp(self.detector.accept()[0], b"PUSH")
            source.send(b'{"htype":"header","msg_number":0,"filename":""}')
            for frame in range(events - 2):
                head = {"htype": "image", "frame": frame, "shape": [4, 25], "type": "uint8", "compression": "none", "msg_number": frame + 1}
                source.send(json.dumps(head, separators=(",", ":")).encode(), bytes(100))
                time.sleep(1)
            source.send(json.dumps({"htype": "series_end", "msg_number": events - 1}).encode())
            time.sleep(2)
            self.redis("XADD", "dranspose:controller:updates", "*", "data", json.dumps({**update, "finished": True}))
            time.sleep(56)

    def ingester_worker(self):
        while True:
            try:
                worker = Zmtp(socket.create_connection(("127.0.0.1", self.egress_port)), b"DEALER", b"w1")
                threading.Thread(target=self.pings, args=(worker,), daemon=True).start()
                while True:
                    worker.frame()
            except (OSError, EOFError):
                time.sleep(0.2)

    @staticmethod
    def pings(worker):
        try:
            while True:
                worker.send(b"\x44" * 16)
                time.sleep(1)
        except OSError:
            pass

    def faktory_worker(self):
        with socket.create_connection(("127.0.0.1", self.faktory_port)) as one:
            lines = one.makefile("rwb")

            def ask(command):
                lines.write(command.encode() + b"\r\n")
                lines.flush()
                head = lines.readline().strip()
                if head[:1] == b"$" and head != b"$-1":
                    return lines.read(int(head[1:]) + 2)
                return None

            lines.readline()
            ask('HELLO {"v":2,"hostname":"load","wid":"load","pid":1,"labels":[]}')
            beaten = 0
            while True:
                if job := ask("FETCH arborescent"):
                    ask(f'ACK {{"jid":"{json.loads(job)["jid"]}"}}')
                if time.monotonic() - beaten > 10:
                    ask('BEAT {"wid":"load"}')
                    beaten = time.monotonic()
                time.sleep(0.5)

    def rows(self):
        last = 0
        while True:
            new = [{"id": last + at, "state": "actionable"} for at in range(1, 7)]
            last += 6
            url = f"http://127.0.0.1:{self.ermrest_port}/ermrest/catalog/1/entity/Foo"
            subprocess.run(["curl", "-sSf", "-o", "/dev/null", "-H", "Content-Type: application/json", "-d", json.dumps(new), url], check=True)
            time.sleep(30)

    def start_load(self, failed):
        def guarded(work):
            try:
                work()
            except Exception as error:  # Any failure of the load makes the recording useless.
                failed.append(f"{work.__name__}: {error!r}")

        loads = [self.fetchers, self.queue_worker, self.queue_worker, self.queue_worker, self.provenance, self.ingester]
        for work in loads + [self.ingester_worker, self.faktory_worker, self.rows]:
            threading.Thread(target=guarded, args=(work,), daemon=True).start()

    def end(self):
        for process in [self.program, *self.servers]:
            process.terminate()
        for process in [self.program, *self.servers]:
            process.wait()


def samples(text, names):
    """Values by series, and kinds by series, of the metrics `names`."""
    kinds, values = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            kinds[name] = "time" if name.endswith("_timestamp_seconds") else kind
        elif not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            name = series.partition("{")[0]
            if name in names:
                values[series] = (kinds[name], float(value))
    return values


def notation(values):
    """Samples in promtool's notation."""
    shown, at = [], 0

    def number(value):
        return "_" if value is None else f"{value:.10g}"

    while at < len(values):
        end = at + 1
        if values[at] is None:
            while end < len(values) and values[end] is None:
                end += 1
            shown.append(f"_x{end - at}")
            at = end
            continue
        step = values[end] - values[at] if end < len(values) and values[end] is not None else 0
        while end < len(values) and values[end] is not None and abs(values[end] - values[at] - step * (end - at)) < 1e-9:
            end += 1
        if end - at < 3:
            shown.append(number(values[at]))
            at += 1
        else:
            sign = f"{step:+.10g}" if step else ""
            shown.append(f"{number(values[at])}{sign}x{end - at - 1}")
            at = end
    return " ".join(shown)


def main():
    binary, minutes = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2])
    names = set(re.findall(r"\b(?:orchestrator|process)_\w+", (ROOT / "deploy/alerts.yml").read_text()))
    with tempfile.TemporaryDirectory(prefix="record-") as home:
        site, failed = Site(binary, pathlib.Path(home)), []
        try:
            until = time.monotonic() + 60
            while not site.admin.exists() or not (site.home / "worker.sock").exists():
                assert time.monotonic() < until, (site.home / "log").read_text()
                time.sleep(0.2)
            site.start_load(failed)
            # The first scan, and the first answers of all servers.
            time.sleep(60)
            start, wall, recorded = time.monotonic(), time.time(), []
            for minute in range(minutes + 1):
                time.sleep(max(0.0, start + 60 * minute - time.monotonic()))
                for _ in range(20):
                    status, reasons = get(site.admin, "/readyz")
                    if status == 200:
                        break
                    # A new mapping connects to its source.
                    time.sleep(0.5)
                assert status == 200 and not failed, (status, reasons, failed, (site.home / "log").read_text()[-4000:])
                recorded.append(samples(get(site.admin, "/metrics")[1], names))
                print(f"sample {minute} of {minutes}: {len(recorded[-1])} series", file=sys.stderr)
        finally:
            site.end()
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"# {minutes} minutes of a healthy program with the five subsystems, in one-minute samples: {version}.")
    print("# Recorded by record.py, which describes the load and this format.")
    for series in sorted(set().union(*recorded)):
        kind = next(one[series][0] for one in recorded if series in one)
        values = [one[series][1] if series in one else None for one in recorded]
        if kind == "time":
            values = [round(value - wall) if value else value for value in values]
        print(kind, series, notation(values))


if __name__ == "__main__":
    main()
