"""A detector: binds a socket of ZeroMQ and sends the requested messages. Usage: source.py push|pub PORT|*. It prints its port first.

Orders and answers are lines of JSON:
  {"send": [[part...], ...]}   part: a text, or {"len": n, "seed": s}  ->  {"sent": [[[length, sha1], ...], ...]}
  {"play": "file of CBOR arrays of byte strings"}                      ->  the same
  {"subscriptions": n}         waits for n new ones (pub)              ->  {}
  {"connections": n}           waits for n new ones                    ->  {}
"""

import hashlib
import json
import random
import sys

import zmq
from zmq.utils.monitor import recv_monitor_message


def noise(length, seed):
    """The same bytes for the same numbers."""
    return random.Random(seed).randbytes(length)


def part(text):
    return text.encode() if isinstance(text, str) else noise(text["len"], text["seed"])


def recorded(path):
    import cbor2

    with open(path, "rb") as file:
        while file.peek(1):
            yield cbor2.load(file)


def send(socket, messages):
    sent = []
    for message in messages:
        socket.send_multipart(message)
        sent.append([[len(p), hashlib.sha1(p).hexdigest()] for p in message])
    return {"sent": sent}


def main():
    # XPUB with this option tells of every subscription: so there is no need to guess when a subscriber listens.
    push = sys.argv[1] == "push"
    socket = zmq.Context().socket(zmq.PUSH if push else zmq.XPUB)
    if not push:
        socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        socket.setsockopt(zmq.SNDHWM, 0)
    connections = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
    socket.bind(f"tcp://127.0.0.1:{sys.argv[2]}")
    port = socket.getsockopt_string(zmq.LAST_ENDPOINT).rsplit(":", 1)[1]
    print(json.dumps({"port": int(port)}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        answer = {}
        if "send" in order:
            answer = send(socket, [[part(text) for text in message] for message in order["send"]])
        elif "play" in order:
            answer = send(socket, recorded(order["play"]))
        elif "connections" in order:
            for _ in range(order["connections"]):
                recv_monitor_message(connections)
        else:
            while order["subscriptions"]:
                order["subscriptions"] -= socket.recv()[:1] == b"\1"
        print(json.dumps(answer), flush=True)
    socket.close(linger=0)


main()
