"""Ingester classes as a site writes them, for the tests of classes in Python.

As a program it prints what workers record of items: the length and SHA-1 of each part.
  made COUNT    items of `Made`
  texts LIST    items of one part each, from a JSON list of texts
"""

import asyncio
import hashlib
import json
import os
import sys

import zmq
from dranspose.event import StreamData
from dranspose.ingester import Ingester, IsSoftwareTriggered
from dranspose.ingesters import TcpPcapIngester, ZmqPullSingleIngester

LENGTHS = [0, 1, 255, 256, 70_000, 3_000_000]


class CountedPositions(TcpPcapIngester):
    """Positions over TCP, and a stream whose item is the number of the trigger."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

    async def run_source(self, stream):
        if stream == "trigger":
            while True:
                yield IsSoftwareTriggered()
        async for item in super().run_source(stream):
            yield item

    def software_trigger(self):
        number = 0
        while True:
            frame = zmq.Frame(json.dumps({"trigger": number}).encode())
            self._logger.debug("trigger %s", number)
            yield {"trigger": StreamData(typ="JSON", frames=[frame])}
            number += 1


class Annotated(ZmqPullSingleIngester):
    """Images with a further part."""

    async def run_source(self, stream):
        async for item in super().run_source(stream):
            note = zmq.Frame(f"note on {len(item.frames)} parts".encode())
            yield StreamData(typ="NOTED", frames=[*item.frames, note])


def made(number):
    """Parts of an item, from nothing to some MiB."""
    length = LENGTHS[number % len(LENGTHS)]
    return [f"item {number}".encode(), bytes([number % 251]) * length, b""]


class Made(Ingester):
    """Items that are computed; each run begins with the first one."""

    async def run_source(self, stream):
        number = 0
        while True:
            yield StreamData(typ="MADE", frames=made(number))
            number += 1


class Raises(Made):
    """Fails after three items while a file `raise` exists."""

    async def run_source(self, stream):
        left = 3
        async for item in super().run_source(stream):
            if left == 0 and os.path.exists("raise"):
                raise ValueError("the \x1b[31mdetector is on fire")
            left -= 1
            yield item

    async def stop_source(self, stream):
        await asyncio.sleep(0)
        with open("stopped", "a", encoding="utf-8") as file:
            file.write(f"{stream}\n")

    async def finish_work(self):
        await super().finish_work()
        with open("finished", "a", encoding="utf-8") as file:
            file.write(f"{self.state.mapping_uuid}\n")


class NotStarting(Made):
    """Cannot be created."""

    def __init__(self, settings=None):
        raise RuntimeError("no licence for this detector")


class Environ(Made):
    """Writes its environment into a file of the working directory."""

    def __init__(self, settings=None):
        super().__init__(settings=settings)
        with open("environ.new", "w", encoding="utf-8") as file:
            json.dump(dict(os.environ), file)
        os.rename("environ.new", "environ.json")


class Numbered(Ingester):
    """Small items with their number."""

    async def run_source(self, stream):
        number = 0
        while True:
            yield StreamData(typ="NUMBERED", frames=[f"item {number}".encode(), bytes([number % 251]) * 1000])
            number += 1


class BenchImages(Ingester):
    """The series of the bench, as fast as it is taken. The number of pixels is in the environment."""

    async def run_source(self, stream):
        length = int(os.environ["ORCHESTRATOR_BENCH_BYTES"])
        yield StreamData(typ="STINS", frames=[b'{"htype":"header","msg_number":0,"filename":"bench"}'])
        event, rest = 1, b"\x5a" * (length - 8)
        while True:
            number = 1_000_000_000 + event
            text = (
                f'{{"htype":"image","frame":{number - 1},"shape":[{length}],"type":"uint8",'
                f'"compression":"none","msg_number":{number}}}'
            )
            yield StreamData(typ="STINS", frames=[text.encode(), event.to_bytes(8, "little") + rest])
            event += 1


def record(parts):
    """Record of an item, as `recorder.py` makes it."""
    return [[len(part), hashlib.sha1(part).hexdigest()] for part in parts]


if __name__ == "__main__":
    if sys.argv[1] == "made":
        print(json.dumps([record(made(number)) for number in range(int(sys.argv[2]))]))
    else:
        print(json.dumps([record([text.encode()]) for text in json.loads(sys.argv[2])]))
