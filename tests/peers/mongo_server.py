#!/usr/bin/env python3
"""Fake MongoDB server for tests: its wire protocol (OP_MSG, and OP_QUERY for the first hello) on a loopback port, with
the documents in mongomock, which has the operators' meaning. One lock, so that every command is atomic. What it adds to
mongomock: lookups by `_id` and by unique keys (mongomock walks over all documents), the limit of 16 MiB a document, and a
journal, so that documents outlive the process as a real server's do: what was answered survives a kill -9.

Usage: mongo_server.py PORT JOURNAL [USER PASSWORD]     until standard input ends; needs what requirements.txt beside this pins
Not there: transactions, pipelines as updates, roles, TLS.
"""

import datetime
import itertools
import os
import socketserver
import struct
import sys
import threading
import traceback
from pathlib import Path

import bson
import mongomock
import pymongo
from bson import json_util
from mongomock import DuplicateKeyError, OperationFailure

import mongo_indexes
from mongo_scram import Users

DOCUMENT_MAX = 16 * 1024 * 1024
CODES = {1: "InternalError", 2: "BadValue", 26: "NamespaceNotFound", 28: "PathNotViable", 43: "CursorNotFound", 48: "NamespaceExists", 59: "CommandNotFound", 11000: "DuplicateKey"}


def code_of(error):
    """The code of an error; 1 for what mongomock does not expect."""
    if isinstance(error, DuplicateKeyError):
        return 11000
    if isinstance(error, NotImplementedError):
        return 115
    if code := getattr(error, "code", None):
        return code
    traceback.print_exception(error)
    return 2 if isinstance(error, OperationFailure) else 1


def shown(value):
    """A value as the server's messages show it."""
    return "null" if value is None else json_util.dumps(value)


def refuse_unviable(document, change):
    """Refuses what a server refuses: `$addToSet` below a field that is no document, or to one that is no array."""
    if not isinstance(change, dict):
        return
    for path in change.get("$addToSet", {}):
        *above, last = path.split(".")
        value, parent = document, None
        for name in above:
            value, parent = value.get(name, {}), name
            if not isinstance(value, dict):
                raise OperationFailure(f"Cannot create field '{last}' in element {{{parent}: {shown(value)}}}", 28)
        if last in value and not isinstance(value[last], list):
            kind = "null" if value[last] is None else type(value[last]).__name__
            text = f"Cannot apply $addToSet to non-array field. Field named '{last}' has non-array type {kind}"
            raise OperationFailure(text, 2)


class Journal:
    """Documents and indexes as they became, one BSON document each, written before the answer leaves."""

    def __init__(self, path, client):
        self.client = client
        if os.path.exists(path):
            with open(path, "rb") as file:
                self.replay(file.read())
        self.file = open(path, "ab", buffering=0)

    def replay(self, data):
        pos = 0
        # The last record may be cut off; it was not acknowledged.
        while pos + 4 <= len(data) and pos + (size := struct.unpack_from("<i", data, pos)[0]) <= len(data):
            record = bson.decode(data[pos:pos + size])
            pos += size
            collection = self.client[record["db"]][record["name"]]
            if "is" in record:
                collection.replace_one({"_id": record["is"]["_id"]}, record["is"], upsert=True)
                if (ids := collection._store.ids_by) and not ids.keys() <= record["is"].keys():
                    collection._store.index_again()
            elif "gone" in record:
                collection.delete_one({"_id": record["gone"]})
            elif "index" in record:
                collection.create_index(list(record["index"]["key"].items()), unique=record["index"].get("unique", False))

    def note(self, collection, **what):
        self.file.write(bson.encode({"db": collection.database.name, "name": collection.name, **what}))

    def note_documents(self, collection, ids):
        for key in ids:
            document = collection._store._documents.get(key)
            self.note(collection, **({"gone": key} if document is None else {"is": document}))


class Server:
    """The commands."""

    def __init__(self, journal, users):
        mongo_indexes.install()
        self.client = mongomock.MongoClient()
        self.users = users
        self.journal = Journal(journal, self.client)
        # Code and text of the error that writes get, while there is such a file.
        self.refusal = Path(journal).with_name("refusal")
        self.lock = threading.RLock()
        self.cursors = {}
        self.ids = itertools.count(1000)
        # How much was sent for a document, to look at its size only when it may be large.
        self.sent = {}

    def answer(self, request, sections, connection):
        name = next(iter(request))
        if self.users and (answer := self.users.answer(name, request, connection)):
            return answer
        command = getattr(self, "do_" + name.lower(), None)
        if command is None:
            raise OperationFailure(f"no such command: '{name}'", 59)
        if request.get("startTransaction") or request.get("autocommit") is False:
            raise OperationFailure("Transaction numbers are only allowed on a replica set member or mongos", 20)
        if name.lower() in ("insert", "update", "findandmodify", "delete") and self.refusal.exists():
            code, text = self.refusal.read_text().split(maxsplit=1)
            raise OperationFailure(text, int(code))
        database = self.client[request.get("$db", "test")]
        target = database[request[name]] if isinstance(request[name], str) else database
        with self.lock:
            return {"ok": 1.0, **(command(request, sections, target) or {})} | (
                {"connectionId": connection} if name.lower() in ("hello", "ismaster") else {})

    def do_hello(self, *_):
        mechanisms = {"saslSupportedMechs": ["SCRAM-SHA-256"]} if self.users else {}
        return mechanisms | {"helloOk": True, "isWritablePrimary": True, "ismaster": True, "maxBsonObjectSize": DOCUMENT_MAX,
                "maxMessageSizeBytes": 48000000, "maxWriteBatchSize": 100000, "minWireVersion": 0, "maxWireVersion": 21,
                "localTime": datetime.datetime.now(datetime.timezone.utc), "logicalSessionTimeoutMinutes": 30,
                "readOnly": False}

    do_ismaster = do_hello

    def do_ping(self, *_):
        return {}

    do_endsessions = do_ping

    def do_buildinfo(self, *_):
        return {"version": "7.0.0", "versionArray": [7, 0, 0, 0]}

    def do_listcollections(self, request, sections, database):
        documents = [{"name": name, "type": "collection"} for name in database.list_collection_names()]
        return self.batch(f"{database.name}.$cmd.listCollections", documents, None)

    def do_insert(self, request, sections, collection):
        def insert(document):
            key = collection.insert_one(document).inserted_id
            self.journal.note_documents(collection, [key])
            return 1
        return self.each(request, sections, "documents", insert)

    def do_delete(self, request, sections, collection):
        def delete(entry):
            ids = [document["_id"] for document in collection.find(entry["q"], {"_id": 1})]
            ids = ids[:1] if entry.get("limit") == 1 else ids
            for key in ids:
                collection.delete_one({"_id": key})
            self.journal.note_documents(collection, ids)
            return len(ids)
        return self.each(request, sections, "deletes", delete)

    def do_update(self, request, sections, collection):
        modified, upserted, index = 0, [], itertools.count()

        def update(entry):
            nonlocal modified
            at = next(index)
            if isinstance(entry["u"], list):
                raise OperationFailure("pipeline updates are not supported here", 115)
            ids = [document["_id"] for document in mongo_indexes.iter_documents(collection, entry["q"])]
            ids = ids if entry.get("multi") else ids[:1]
            for key in ids:
                refuse_unviable(collection._store._documents[key], entry["u"])
            undo = self.undo_if_large(collection, ids, entry["u"])
            operators = any(key.startswith("$") for key in entry["u"])
            change = collection.update_one if operators else collection.replace_one
            change = collection.update_many if entry.get("multi") else change
            result = change(entry["q"], entry["u"], upsert=bool(entry.get("upsert")))
            undo()
            self.reindex(collection, entry["u"], operators)
            if result.upserted_id is not None:
                upserted.append({"index": at, "_id": result.upserted_id})
                ids = [result.upserted_id]
            # Upserts that find what they would insert change nothing.
            if result.upserted_id is not None or result.modified_count:
                self.journal.note_documents(collection, ids)
            modified += result.modified_count or 0
            return 1 if result.upserted_id is not None else result.matched_count

        done = self.each(request, sections, "updates", update)
        return {**done, "nModified": modified, **({"upserted": upserted} if upserted else {})}

    def undo_if_large(self, collection, ids, change):
        """Looks at the sizes of documents that may have grown beyond the limit; gives what to call after the change."""
        size = len(bson.encode(change))
        suspects = []
        for key in ids:
            self.sent[key] = self.sent.get(key, 0) + size
            if self.sent[key] > DOCUMENT_MAX * 3 // 4:
                suspects.append((key, bson.encode(collection._store._documents[key])))

        def undo():
            for key, before in suspects:
                if len(bson.encode(collection._store._documents[key])) > DOCUMENT_MAX:
                    collection._store._documents[key] = bson.decode(before)
                    raise OperationFailure("Resulting document after update is larger than 16777216", 17419)
        return undo

    @staticmethod
    def reindex(collection, change, operators):
        changed = itertools.chain.from_iterable(v for k, v in change.items() if k != "$setOnInsert") if operators else change
        if set(changed) & set(collection._store.ids_by):
            collection._store.index_again()

    @staticmethod
    def each(request, sections, name, act):
        """Does `act` for each entry of a write; what fails stands in `writeErrors`."""
        done, errors = 0, []
        for at, entry in enumerate(sections.get(name, request.get(name, []))):
            try:
                done += act(entry)
            except Exception as error:  # any error is sent to the client
                errors.append({"index": at, "code": code_of(error), "errmsg": str(error)})
                if request.get("ordered", True):
                    break
        return {"n": done, **({"writeErrors": errors} if errors else {})}

    def do_findandmodify(self, request, sections, collection):
        query, sort = request.get("query") or {}, list((request.get("sort") or {}).items()) or None
        fields = request.get("fields") or None
        before = collection.find_one(query, sort=sort)
        if request.get("remove"):
            value = collection.find_one_and_delete(query, projection=fields, sort=sort)
        else:
            change = request["update"]
            operators = any(key.startswith("$") for key in change)
            act = collection.find_one_and_update if operators else collection.find_one_and_replace
            after = pymongo.ReturnDocument.AFTER if request.get("new") else pymongo.ReturnDocument.BEFORE
            upsert = bool(request.get("upsert"))
            value = act(query, change, projection=fields, upsert=upsert, return_document=after, sort=sort)
            self.reindex(collection, change, operators)
        touched = [document["_id"] for document in (before, value) if document and "_id" in document]
        self.journal.note_documents(collection, touched)
        done = int(before is not None or bool(request.get("upsert")))
        return {"value": value, "lastErrorObject": {"n": done, "updatedExisting": before is not None}}

    def do_find(self, request, sections, collection):
        found = mongo_indexes.find(
            collection, request.get("filter") or {}, request.get("sort") or {}, request.get("projection") or None
        )
        skip = request.get("skip") or 0
        limit = abs(request.get("limit") or 0) or None
        found = itertools.islice(found, skip, limit and skip + limit)
        return self.batch(collection.full_name, found, request.get("batchSize"), request.get("singleBatch", False))

    def do_aggregate(self, request, sections, collection):
        documents = iter(list(collection.aggregate(request["pipeline"])))
        return self.batch(collection.full_name, documents, (request.get("cursor") or {}).get("batchSize"))

    def do_count(self, request, sections, collection):
        return {"n": collection.count_documents(request.get("query") or {})}

    def batch(self, namespace, documents, size, single=False):
        first, rest = self.taken(documents, 101 if size is None else size)
        cursor = next(self.ids) if rest and not single else 0
        if cursor:
            self.cursors[cursor] = rest
        return {"cursor": {"id": bson.Int64(cursor), "ns": namespace, "firstBatch": first}}

    @staticmethod
    def taken(documents, size):
        """The next documents of a cursor, and what is left, if anything is."""
        batch = list(itertools.islice(documents, size))
        following = list(itertools.islice(documents, 1))
        return batch, itertools.chain(following, documents) if following else None

    def do_getmore(self, request, sections, database):
        cursor = int(request["getMore"])
        if cursor not in self.cursors:
            raise OperationFailure("cursor id not found", 43)
        batch, rest = self.taken(self.cursors.pop(cursor), request.get("batchSize") or 1000)
        if rest:
            self.cursors[cursor] = rest
        namespace = f"{database.name}.{request['collection']}"
        return {"cursor": {"id": bson.Int64(cursor if rest else 0), "ns": namespace, "nextBatch": batch}}

    def do_killcursors(self, request, *_):
        for cursor in request.get("cursors", []):
            self.cursors.pop(int(cursor), None)

    def do_createindexes(self, request, sections, collection):
        before = len(collection.index_information())
        for index in request["indexes"]:
            known = [set(i["key"]) for i in collection.index_information().values()]
            options = {k: v for k, v in index.items() if k in ("unique", "sparse", "expireAfterSeconds", "name")}
            collection.create_index(list(index["key"].items()), **options)
            if set(index["key"].items()) not in known:
                self.journal.note(collection, index=index)
        return {"numIndexesBefore": before, "numIndexesAfter": len(collection.index_information())}

    def do_listindexes(self, request, sections, collection):
        indexes = {"_id_": {"key": [("_id", 1)]}, **collection.index_information()}
        documents = [{"v": 2, "name": name, **index, "key": dict(index["key"])} for name, index in indexes.items()]
        return self.batch(collection.full_name, documents, None, True)


class Connection(socketserver.BaseRequestHandler):
    """One client: messages in, answers out."""

    numbers = itertools.count(1)

    def read(self, size):
        parts = []
        while size:
            part = self.request.recv(min(size, 1 << 20))
            if not part:
                raise ConnectionError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def handle(self):
        number = next(self.numbers)
        self.request.setsockopt(6, 1, 1)
        try:
            while True:
                length, request, _, kind = struct.unpack("<iiii", self.read(16))
                body = self.read(length - 16)
                if kind == 2013:
                    self.message(request, body, number)
                elif kind == 2004:
                    greeting = bson.encode({**STATE.do_hello(), "connectionId": number, "ok": 1.0})
                    self.send(request, 1, struct.pack("<iqii", 8, 0, 0, 1) + greeting)
                else:
                    return
        except OSError:
            return

    def send(self, request, kind, payload):
        self.request.sendall(struct.pack("<iiii", 16 + len(payload), next(self.numbers), request, kind) + payload)

    def message(self, number, body, connection):
        flags = struct.unpack_from("<I", body)[0]
        pos, end, request, sections = 4, len(body) - (4 if flags & 1 else 0), None, {}
        while pos < end:
            kind, pos = body[pos], pos + 1
            size = struct.unpack_from("<i", body, pos)[0]
            if kind == 0:
                request = bson.decode(body[pos:pos + size])
            else:
                zero = body.index(b"\0", pos + 4)
                sections[body[pos + 4:zero].decode()] = bson.decode_all(body[zero + 1:pos + size])
            pos += size
        try:
            answer = STATE.answer(request, sections, connection)
        except Exception as error:  # any error is sent to the client
            code = code_of(error)
            answer = {"ok": 0.0, "errmsg": str(error) or type(error).__name__, "code": code,
                      "codeName": CODES.get(code, f"Location{code}")}
        if not flags & 2:  # the client expects a reply
            self.send(number, 2013, b"\0\0\0\0\0" + bson.encode(answer))


class Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256


if __name__ == "__main__":
    STATE = Server(sys.argv[2], Users(*sys.argv[3:5]) if sys.argv[3:] else None)
    with Listener(("127.0.0.1", int(sys.argv[1])), Connection) as listener:
        threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
        print("listening on port", listener.server_address[1], flush=True)
        listener.serve_forever()
