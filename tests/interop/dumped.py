"""Reads files that an ingester has dumped, with dranspose's own reader. Usage: dumped.py FILE... Prints a list for each."""

import datetime
import hashlib
import json
import sys


def record(event):
    """An event in the format of the recorder."""
    streams = {
        name: {"typ": data.typ, "parts": [[len(f), hashlib.sha1(f).hexdigest()] for f in data.frames]}
        for name, data in event.streams.items()
    }
    return {"event": event.event_number, "streams": streams}


def dumped(path):
    import cbor2
    from dranspose.event import InternalWorkerMessage, message_tag_hook

    with open(path, "rb") as file:
        while file.peek(1):
            event = cbor2.load(file, tag_hook=message_tag_hook)
            assert isinstance(event, InternalWorkerMessage), event
            age = datetime.datetime.now(datetime.timezone.utc) - event.created_at
            assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=10), event.created_at
            yield record(event)


if __name__ == "__main__":
    print(json.dumps([list(dumped(path)) for path in sys.argv[1:]]))
