#!/usr/bin/env python3
"""SecantusDB, an independent implementation of MongoDB's protocol on WiredTiger, on a loopback port.

Usage: secantus_server.py PORT DIRECTORY [USER PASSWORD]     until standard input ends; needs what secantus-requirements.txt pins
"""

import sys

import pymongo
from secantus import SecantusDBServer


def server(port, directory, **options):
    """A standalone server whose answered writes survive a kill -9."""
    return SecantusDBServer(port=port, storage_path=directory, replica_set_name=None, durable=True, **options)


port, directory, user = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
if user:
    with server(0, directory) as first, pymongo.MongoClient(first.uri) as client:
        if not client.admin.command("usersInfo", user[0])["users"]:
            client.admin.command("createUser", user[0], pwd=user[1], roles=["root"])
with server(port, directory, require_auth=bool(user)):
    print("listening", flush=True)
    sys.stdin.read()
