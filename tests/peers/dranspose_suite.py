"""The tests of dranspose 0.2.0, which its source distribution contains, with our ingester in place of dranspose's own.

As a program it runs each test file ROUNDS times with either ingester in turn, and fails if one passes less often with ours. Some files
pass by chance with either ingester, since the test races with its own workers or publishers: one that is behind is run for three times
as many more rounds, and all of its rounds count. Logs of what fails stay beside the tests. The tests use ports between 5000 and 10013,
so nothing else may.

  dranspose_suite.py BINARY DIRECTORY ROUNDS [FILE..]    DIRECTORY gets the tests; FILE is such as test_reducer

As a plugin of pytest (`-p dranspose_suite`) it starts the program that ORCHESTRATOR names wherever a test runs an ingester; without the
variable, the tests run dranspose's own.
"""

import asyncio
import contextlib
import hashlib
import io
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import pytest
import zmq

LOG = logging.getLogger("orchestrator")

SOURCE = "https://files.pythonhosted.org/packages/8a/0e/108b72c4391e44889faa68321d77f50cc7e42756c1d6399691210bc518a2/dranspose-0.2.0.tar.gz"
SHA256 = "32271c83067438726755f87430feb783f2eaacae80f52eb4312ca730434905af"

# Seconds for one file; the longest takes less than a minute.
TIME_OUT = 120

# Tests that are left out, since they change a private attribute of the ingester while it runs.
LEFT_OUT = ["tests/test_dumping.py::test_dump_and_not_dump"]


def command_line(ingester):
    """The words and the environment that start our ingester in place of `ingester`, an object of dranspose's."""
    settings = ingester._ingester_settings.model_dump(mode="json")
    kind = type(ingester)
    name = kind.__name__ if kind.__module__.startswith("dranspose.") else f"{kind.__module__}:{kind.__name__}"
    words = ["dranspose-ingester", "--ingesterclass", name, "--upstream_url", settings.pop("upstream_url")]
    settings["redis_url"] = settings.pop("redis_dsn")
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}
    return words, {key.upper(): texts[key] for key in texts if settings[key] is not None}


class Program:
    """Our program; its lines go to the log of the test, which an error there fails."""

    running = []
    # While a test is taken down, ingesters stay until its workers have ended: libzmq waits without end for a peer that is gone.
    keeps = False

    def __init__(self, words, environment):
        self.directory = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [os.environ["ORCHESTRATOR"], "as", *words],
            env={**os.environ, **environment, "RUNTIME_DIRECTORY": self.directory.name, "PYTHONPATH": os.getcwd()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.reader = threading.Thread(target=self.forward, daemon=True)
        self.reader.start()
        self.running.append(self)

    def forward(self):
        for line in self.process.stdout:
            LOG.log(logging.ERROR if " ERROR " in line else logging.INFO, "%s", line.rstrip())

    def stop(self):
        if self.keeps or self not in self.running:
            return
        self.running.remove(self)
        self.process.terminate()
        self.process.wait()
        self.reader.join()
        self.directory.cleanup()


def bind_patiently(bind):
    """Waits for an address that a thread of libzmq still closes: the tests bind the one that they closed a moment before."""

    def patient(self, address):
        give_up = time.monotonic() + 5
        while True:
            try:
                return bind(self, address)
            except zmq.ZMQError as error:
                if error.errno != zmq.EADDRINUSE or time.monotonic() > give_up:
                    raise
            time.sleep(0.01)

    return patient


def pytest_configure():
    zmq.Socket.bind = bind_patiently(zmq.Socket.bind)
    if "ORCHESTRATOR" in os.environ:
        use_ours()


def use_ours():
    import uvicorn
    from dranspose.distributed import DistributedService
    from dranspose.ingester import Ingester
    from dranspose.ingesters import http_sardana

    async def run(self):
        self.program = Program(*command_line(self))
        await asyncio.Future()

    async def close(self):
        self.program.stop()
        await DistributedService.close(self)

    Ingester.run, Ingester.close = run, close
    serve = uvicorn.Server.serve

    async def serve_ours(self, sockets=None):
        if self.config.app is not http_sardana.app:
            return await serve(self, sockets)
        port = self.config.port
        words = ["dranspose-http-ingester", "--ingesterapp", "dranspose.ingesters.http_sardana:app", "--port", str(port)]
        program = Program(words, {})
        while not self.should_exit:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                self.started = True
            await asyncio.sleep(0.1)
        program.stop()

    uvicorn.Server.serve = serve_ours


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown():
    Program.keeps = True
    try:
        return (yield)
    finally:
        Program.keeps = False
        for program in list(Program.running):
            program.stop()


def passed(python, directory, name, environment):
    """Whether all tests of the file `name` pass on a Redis server of its own, and what pytest printed."""
    with tempfile.TemporaryDirectory() as data, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        server = subprocess.Popen(
            ["redis-server", "--port", str(port), "--save", "", "--dir", data, "--bind", "127.0.0.1"],
            stdout=subprocess.DEVNULL,
        )
        run = subprocess.Popen(
            [python, "-m", "pytest", "-q", "-p", "dranspose_suite", *(f"--deselect={test}" for test in LEFT_OUT), f"tests/{name}.py"],
            cwd=directory,
            env={**os.environ, **environment, "REDIS_URL": f"redis://127.0.0.1:{port}/0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = run.communicate(timeout=TIME_OUT)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            said = f"{run.communicate()[0]}\nended after {TIME_OUT} s"
        server.kill()
        server.wait()
        return run.returncode == 0, said


def unpack(directory):
    """Puts the source distribution below `directory`, unless it is there, and returns its folder."""
    folder = Path(directory, "dranspose-0.2.0")
    if not folder.exists():
        with urllib.request.urlopen(SOURCE) as answer:
            archive = answer.read()
        if hashlib.sha256(archive).hexdigest() != SHA256:
            sys.exit(f"{SOURCE} is not the file that it was")
        with tarfile.open(fileobj=io.BytesIO(archive)) as members:
            members.extractall(directory, filter="data")
    return folder


def main(binary, directory, rounds, *names):
    rounds = int(rounds)
    here = Path(__file__).parent
    directory = unpack(directory)
    names = names or sorted(path.stem for path in Path(directory, "tests").glob("test_*.py"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    common = {"PYTHONPATH": str(here), "PYTHONDONTWRITEBYTECODE": "1", "PATH": path}
    ours = {**common, "ORCHESTRATOR": str(Path(binary).resolve())}
    worse = []
    for name in names:
        counts, done = {"dranspose's": 0, "ours": 0}, 0
        for more in (rounds, 3 * rounds):
            for _ in range(more):
                for who, environment in (("dranspose's", common), ("ours", ours)):
                    good, said = passed(sys.executable, directory, name, environment)
                    counts[who] += good
                    if not good:
                        Path(directory, f"{name}-{who[:4]}.log").write_text(said)
            done += more
            print(f"{name:32}", *(f"{who} {count}/{done}" for who, count in counts.items()), flush=True)
            if counts["ours"] >= counts["dranspose's"]:
                break
        if counts["ours"] < counts["dranspose's"]:
            worse.append(name)
    if worse:
        sys.exit(f"with our ingester these pass less often: {', '.join(worse)}; their output is in {directory}")


if __name__ == "__main__":
    main(*sys.argv[1:])
