"""Starts the parts of dranspose: imports it once, then forks for each part, which takes no time and little memory.

One JSON object per line on standard input, one per line in answer. With the end of standard input, or its own end, all
parts are gone.
  {"start": [program, argument...], "env": {...}, "directory": "...", "log": "..."}  ->  {"pid": 1}
  {"signal": 9, "pid": 1}  ->  {}
  {"ended": 1}             ->  {"code": null | exit code, negative for a signal}
"""

import ctypes
import gc
import json
import os
import signal
import sys
import traceback

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import uvicorn
from dranspose import cli, controller, debug_worker, replay  # noqa: F401  imported for the parts

# A part does not visit, and thereby copy, what is imported.
gc.collect()
gc.freeze()


def program(arguments):
    """The command line `dranspose`, also with numbered workers, or `uvicorn` for what the former only runs on port 5000."""
    sys.path.insert(0, os.getcwd())
    if arguments[0] == "dranspose":
        sys.argv = arguments
        # Read at import, before the part had its environment.
        cli.settings = cli.CliSettings()
        cli.run()
    elif arguments[0] == "numbered":
        from numbered import NumberedWorker

        cli.Worker = NumberedWorker
        program(["dranspose", *arguments[1:]])
    elif arguments[0] == "uvicorn":
        uvicorn.main.main(args=arguments[1:], standalone_mode=False)
    else:
        raise ValueError(arguments[0])


def become(order):
    """In the child: never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        parent_death = 1
        ctypes.CDLL(None).prctl(parent_death, signal.SIGKILL)
        log = os.open(order["log"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.chdir(order["directory"])
        os.environ.update(order["env"])
        program(order["start"])
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: B902  whatever it was, the log is where to tell
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def answer(order, parts):
    if "start" in order:
        pid = os.fork()
        if pid == 0:
            become(order)
        parts.add(pid)
        return {"pid": pid}
    if "signal" in order:
        if order["pid"] in parts:
            os.kill(order["pid"], order["signal"])
        return {}
    pid, status = os.waitpid(order["ended"], os.WNOHANG) if order["ended"] in parts else (0, 0)
    if pid == 0:
        return {"code": None}
    parts.discard(pid)
    return {"code": os.waitstatus_to_exitcode(status)}


def main():
    parts = set()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), parts)), flush=True)
    for pid in parts:
        os.kill(pid, signal.SIGKILL)


main()
