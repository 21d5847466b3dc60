"""Reads the queue as a status page does, again and again until standard input ends: a connection of its own for each
look, no special settings. Usage: reader.py DATABASE. Prints how often it looked and the most rows it saw."""

import select
import sqlite3
import sys

database = sys.argv[1]
looks, most = 0, 0
while looks == 0 or not select.select([sys.stdin], [], [], 0)[0]:
    connection = sqlite3.connect(database)
    with connection:
        # One look is one state of the database, however many statements it takes.
        connection.execute("BEGIN")
        fetchers = dict(connection.execute("SELECT fetcher_id, name FROM fetchers"))
        log = {row[0]: row[1:] for row in connection.execute("SELECT * FROM log")}
        rows = list(connection.execute("SELECT * FROM queue ORDER BY last_started, order_jitter, attr_path, fetcher_id"))
        counted = connection.execute("SELECT count(*) FROM queue").fetchone()[0]
    connection.close()
    assert len(rows) == counted, "two statements of one transaction saw different states"
    for fetcher_id, _run, attr_path, _payload, is_dequeued, last_started, order_jitter in rows:
        assert fetcher_id in fetchers and order_jitter is not None, attr_path
        assert not is_dequeued or attr_path in log, f"{attr_path} was handed out without a log row"
        assert last_started is None or attr_path in log, f"{attr_path} was started without a log row"
    for started, finished, exit_code in log.values():
        assert finished is None or finished >= started
        assert (finished is None) == (exit_code is None)
    looks, most = looks + 1, max(most, len(rows))
print(looks, most)
