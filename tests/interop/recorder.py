"""Code of the real workers and the real reducer in the tests: records every event as the worker's code received it.

Each worker appends one JSON line per event to `$RECORDER_DIR/<worker>.jsonl`. While `$RECORDER_DIR/hold-<worker>` exists,
the worker stays busy with its current event.
"""

import hashlib
import json
import os
import time
from pathlib import Path

DIRECTORY = Path(os.environ.get("RECORDER_DIR", "."))


def content(frame):
    """Content of bytes and of zmq frames."""
    return frame if isinstance(frame, bytes) else frame.bytes


class Recorder:
    """Records each event and sends the reducer its number."""

    def __init__(self, parameters=None, context=None, state=None, **_):
        self.name = state.name
        self.mapping = str(state.mapping_uuid)

    def record(self, data):
        """Record of one stream's part of an event."""
        return {"typ": data.typ, "parts": [[len(content(f)), hashlib.sha1(content(f)).hexdigest()] for f in data.frames]}

    def process_event(self, event, parameters=None, tick=False, *_, **__):
        streams = {name: self.record(data) for name, data in event.streams.items()}
        line = {"mapping": self.mapping, "event": event.event_number, "streams": streams}
        with open(DIRECTORY / f"{self.name}.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        hold = DIRECTORY / f"hold-{self.name}"
        while hold.exists():
            time.sleep(0.005)
        return event.event_number


class Silent(Recorder):
    """Sends the reducer nothing, so that only the worker itself reports an event as finished."""

    def process_event(self, *arguments, **keywords):
        super().process_event(*arguments, **keywords)


class Counter:
    """A reducer that keeps the numbers of the events."""

    def __init__(self, parameters=None, context=None, state=None, **_):
        self.publish = {"events": []}

    def process_result(self, result, parameters=None, *_, **__):
        self.publish["events"].append(result.event_number)
