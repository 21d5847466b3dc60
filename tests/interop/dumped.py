"""Reads files that an ingester has dumped: with dranspose's own reader, or without dranspose by cbor2 alone, whose versions from 6
on that reader does not take. Usage: dumped.py FILE... Prints a list for each."""

import datetime
import hashlib
import json
import sys

import cbor2

try:
    from dranspose.event import InternalWorkerMessage, message_tag_hook
except ImportError:
    InternalWorkerMessage = None

# The tag of an event; that of a stream is the next one.
EVENT = 42877


def record(number, streams):
    """An event in the format of the recorder; `streams` has the kind and the frames of each."""
    parts = lambda frames: [[len(frame), hashlib.sha1(frame).hexdigest()] for frame in frames]
    return {"event": number, "streams": {name: {"typ": typ, "parts": parts(frames)} for name, (typ, frames) in streams.items()}}


def of_dranspose(event):
    """Number and streams of dranspose's event."""
    return event.event_number, {name: (data.typ, data.frames) for name, data in event.streams.items()}


def read(file):
    """Creation time, number and streams of the next event."""
    if InternalWorkerMessage:
        event = cbor2.load(file, tag_hook=message_tag_hook)
        assert isinstance(event, InternalWorkerMessage), event
        return event.created_at, *of_dranspose(event)
    event = cbor2.load(file)
    number, streams, created_at = event.value
    assert {event.tag, *(data.tag - 1 for data in streams.values())} == {EVENT}, event
    return created_at, number, {name: data.value for name, data in streams.items()}


def dumped(path):
    with open(path, "rb") as file:
        while file.peek(1):
            created_at, number, streams = read(file)
            age = datetime.datetime.now(datetime.timezone.utc) - created_at
            assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=10), created_at
            yield record(number, streams)


if __name__ == "__main__":
    print(json.dumps([list(dumped(path)) for path in sys.argv[1:]]))
