"""Users for mongo_server.py: SCRAM-SHA-256 (RFC 5802, RFC 7677) with one user, as a server with authorization asks for it."""

import base64
import hashlib
import hmac
import os

import bson
from pymongo.errors import OperationFailure

ROUNDS = 4096
# What may be asked before one has said who one is.
OPEN = {"hello", "ismaster", "ping", "buildinfo", "endsessions"}


class Users:
    """Who may come in, and which connections have."""

    def __init__(self, user, password):
        self.user = user
        self.salt = os.urandom(16)
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), self.salt, ROUNDS)
        mac = lambda text: hmac.digest(salted, text, "sha256")
        self.stored, self.server = hashlib.sha256(mac(b"Client Key")).digest(), mac(b"Server Key")
        self.talks, self.known = {}, set()

    def answer(self, name, request, connection):
        """To what is said of users; to others nothing, if the connection may go on."""
        step = {"saslStart": self.start, "saslContinue": self.go_on}.get(name)
        if step:
            return {"ok": 1.0, **step(request, connection)}
        if name.lower() not in OPEN and connection not in self.known:
            raise OperationFailure(f"command {name} requires authentication", 13)

    def start(self, request, connection):
        if request["mechanism"] != "SCRAM-SHA-256":
            raise OperationFailure("Received authentication for mechanism that is unknown or not enabled", 334)
        bare = bytes(request["payload"]).decode().split(",", 2)[2]
        fields = dict(part.split("=", 1) for part in bare.split(","))
        nonce = fields["r"] + base64.b64encode(os.urandom(18)).decode()
        first = f"r={nonce},s={base64.b64encode(self.salt).decode()},i={ROUNDS}"
        self.talks[connection] = (fields["n"] == self.user, bare, first, nonce)
        return self.says(first, False)

    def go_on(self, request, connection):
        if connection not in self.talks:
            return self.says("", True)
        is_user, bare, first, nonce = self.talks.pop(connection)
        final = bytes(request["payload"]).decode()
        without_proof, proof = final.rsplit(",p=", 1)
        said = f"{bare},{first},{without_proof}".encode()
        signature = hmac.digest(self.stored, said, "sha256")
        key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature))
        if not is_user or f"r={nonce}" not in without_proof or hashlib.sha256(key).digest() != self.stored:
            raise OperationFailure("Authentication failed.", 18)
        self.known.add(connection)
        return self.says("v=" + base64.b64encode(hmac.digest(self.server, said, "sha256")).decode(), True)

    @staticmethod
    def says(text, done):
        return {"conversationId": 1, "done": done, "payload": bson.Binary(text.encode())}
