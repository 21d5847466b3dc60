"""What the real workers and the real reducer run in the tests: every event is noted, as the worker's code got it.

Each worker appends one JSON line per event to `$RECORDER_DIR/<worker>.jsonl`. While `$RECORDER_DIR/hold-<worker>` exists,
the worker is busy with the event in hand.
"""

import hashlib
import json
import os
import time
from pathlib import Path

DIRECTORY = Path(os.environ.get("RECORDER_DIR", "."))


def content(frame):
    """Of bytes and of frames that still lie in the socket's memory."""
    return frame if isinstance(frame, bytes) else frame.bytes


class Recorder:
    """Notes each event; sends the reducer its number."""

    def __init__(self, parameters=None, context=None, state=None, **_):
        self.name = state.name
        self.mapping = str(state.mapping_uuid)

    def told(self, data):
        """What is noted of one stream's part of an event."""
        return {"typ": data.typ, "parts": [[len(content(f)), hashlib.sha1(content(f)).hexdigest()] for f in data.frames]}

    def process_event(self, event, parameters=None, tick=False, *_, **__):
        streams = {name: self.told(data) for name, data in event.streams.items()}
        line = {"mapping": self.mapping, "event": event.event_number, "streams": streams}
        with open(DIRECTORY / f"{self.name}.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        hold = DIRECTORY / f"hold-{self.name}"
        while hold.exists():
            time.sleep(0.005)
        return event.event_number


class Counter:
    """A reducer that keeps which events came."""

    def __init__(self, parameters=None, context=None, state=None, **_):
        self.publish = {"events": []}

    def process_result(self, result, parameters=None, *_, **__):
        self.publish["events"].append(result.event_number)
