"""Continues with a database of the queue: hands out up to COUNT jobs by the contract's rules, directly on
the tables. Usage: takeover.py DATABASE COUNT [done]. Prints `attr_path payload` of each job; with `done` each is finished
at once with exit code 0."""

import sqlite3
import sys
import time

HOLD = 43200

# A group is an attribute path of one fetcher; its newest run's row stands for it.
NEXT = """
    WITH newest AS (
        SELECT fetcher_id, attr_path, max(fetcher_run_started) AS run FROM queue GROUP BY fetcher_id, attr_path)
    SELECT queue.fetcher_id, queue.attr_path, queue.payload
    FROM newest JOIN queue ON queue.fetcher_id = newest.fetcher_id AND queue.attr_path = newest.attr_path
        AND queue.fetcher_run_started = newest.run
    LEFT JOIN log ON log.attr_path = queue.attr_path
    WHERE is_dequeued = 0 AND (log.attr_path IS NULL OR finished IS NOT NULL OR started + :hold < :now)
    ORDER BY last_started NULLS FIRST, order_jitter, queue.attr_path, queue.fetcher_id LIMIT 1"""
MARK = "UPDATE queue SET is_dequeued = 1 WHERE fetcher_id = ? AND attr_path = ?"
START = """
    INSERT INTO log (attr_path, started) VALUES (?, ?)
    ON CONFLICT (attr_path) DO UPDATE SET started = excluded.started, finished = NULL, exit_code = NULL"""
FINISH = "UPDATE log SET finished = ?, exit_code = 0 WHERE attr_path = ?"


def dequeue(connection, now):
    with connection:
        found = connection.execute(NEXT, {"hold": HOLD, "now": now}).fetchone()
        if found is not None:
            fetcher_id, attr_path, _payload = found
            connection.execute(MARK, (fetcher_id, attr_path))
            connection.execute(START, (attr_path, now))
        return found


connection = sqlite3.connect(sys.argv[1])
connection.execute("PRAGMA foreign_keys = ON")
assert connection.execute("PRAGMA user_version").fetchone() == (2,)
for _ in range(int(sys.argv[2])):
    job = dequeue(connection, int(time.time()))
    if job is None:
        break
    print(job[1], job[2])
    if "done" in sys.argv[3:]:
        with connection:
            connection.execute(FINISH, (int(time.time()), job[1]))
assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
connection.close()
