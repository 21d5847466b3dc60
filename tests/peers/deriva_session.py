#!/usr/bin/env python3
"""Says what the library deriva makes of the block `session` in a config.json, as one JSON object. For tests.

Usage: deriva_session.py FILE     needs what deriva-requirements.txt beside this file pins
"""
import json
import sys

from deriva.core import get_new_requests_session, read_config

config = read_config(sys.argv[1])["session"]
session = get_new_requests_session("https://localhost/", config)
adapter = session.get_adapter("https://localhost/")
timeout, retries = adapter.timeout, adapter.max_retries
connect, read = timeout if isinstance(timeout, tuple) else (timeout, timeout)
unverified = [host for host in ("localhost", "lab") if not get_new_requests_session(f"https://{host}/", config).verify]
print(json.dumps({
    "timeouts": [connect, read], "connect": retries.connect, "read": retries.read, "all": retries.total,
    "factor": retries.backoff_factor, "statuses": list(retries.status_forcelist),
    "unverified": unverified,
}))
