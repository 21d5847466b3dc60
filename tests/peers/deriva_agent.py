#!/usr/bin/env python3
"""An agent that is not ours, for tests: a condition-action agent on the library deriva, as that describes one. It claims rows of the
table Foo whose state is `actionable`, as many as LIMIT at once, and completes each by a write of its own. It says what it has done,
one JSON object a line: {"event": "claimed" or "completed", "id": N, "at": seconds since 1970, "agent": NAME}

Usage: deriva_agent.py URL AMQP_HOST LIMIT NAME     until standard input ends; needs what deriva-requirements.txt beside this file pins

URL is that of a catalog, http://host:port/ermrest/catalog/1. The library looks for the broker at the port 5672 of AMQP_HOST, and
polls every ten minutes beside.
"""
import json
import os
import sys
import threading
import time
import traceback
from urllib.parse import urlsplit

from deriva.core.polling_ermrest_catalog import PollingErmrestCatalog


def end_with_input():
    while os.read(0, 4096):
        pass
    os._exit(0)


def run(url, amqp_host, limit, name):
    parts = urlsplit(url)
    catalog = PollingErmrestCatalog(parts.scheme, parts.netloc, parts.path.rsplit("/", 1)[1], amqp_server=amqp_host)
    query = f"/entity/Foo/state=actionable?limit={limit}"
    update = "/attributegroup/Foo/id;state"
    idle_etag = None

    def say(event, row):
        action = {"event": event, "id": row["id"], "at": time.time(), "agent": name}
        # One write, so that the line is whole.
        os.write(1, (json.dumps(action) + "\n").encode())

    def look_for_work():
        nonlocal idle_etag
        idle_etag, batch = catalog.state_change_once(
            query, update, lambda row: {"id": row["id"], "state": "claimed"}, idle_etag
        )
        for row, _ in batch:
            say("claimed", row)
        for row, _ in batch:
            catalog.put(update, json=[{"id": row["id"], "state": "complete"}])
            say("completed", row)
        # There may be more.
        return bool(batch)

    catalog.blocking_poll(look_for_work)


if __name__ == "__main__":
    threading.Thread(target=end_with_input, daemon=True).start()
    # The library says every request and every row there.
    sys.stderr = open(os.devnull, "w")
    try:
        run(*sys.argv[1:])
    except Exception:
        traceback.print_exc(file=sys.__stderr__)
        sys.exit(1)
