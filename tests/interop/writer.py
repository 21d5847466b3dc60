"""Writes to the queue while others do: runs each line of standard input as one transaction, with triggers and foreign
keys on. Usage: writer.py DATABASE [TIMES]. With TIMES all lines are run so many times. Prints the SQLite version and the
number of transactions."""

import sqlite3
import sys

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA foreign_keys = ON")
statements = [line for line in sys.stdin.read().splitlines() if line]
count = 0
# The store leaves time to programs that it has seen to write. SQLite lets each later transaction wait for 5 s.
connection.execute("PRAGMA busy_timeout = 60000")
for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 1):
    for statement in statements:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(statement)
        connection.execute("COMMIT")
        connection.execute("PRAGMA busy_timeout = 5000")
        count += 1
connection.close()
print(sqlite3.sqlite_version, count)
