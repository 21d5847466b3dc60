#!/usr/bin/env python3
"""A worker that is not ours, for tests: pyfaktory's consumer with a function that says what it was called with, one JSON array a line.

Usage: faktory_worker.py URL QUEUE JOBTYPE     until standard input ends; needs what requirements.txt beside this file pins
"""

import json
import os
import sys
import threading

from pyfaktory import Client, Consumer


def work(*args):
    # One write, so that lines of the consumer's processes stay whole.
    os.write(1, (json.dumps(args) + "\n").encode())


def end_with_input():
    # Not through `sys.stdin`: the consumer's processes close theirs, and would wait for ever for the lock of this read.
    while os.read(0, 4096):
        pass
    os.killpg(0, 9)


if __name__ == "__main__":
    url, queue, jobtype = sys.argv[1:]
    # The consumer's own processes go with this one.
    os.setpgid(0, 0)
    threading.Thread(target=end_with_input, daemon=True).start()
    with Client(faktory_url=url, role="consumer") as client:
        consumer = Consumer(client=client, queues=[queue], concurrency=1)
        consumer.register(jobtype, work)
        consumer.run()
