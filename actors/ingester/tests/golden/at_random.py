"""Makes a folder like this one with random messages in it, to compare ours with the original beyond what is kept here.

    v/bin/python actors/ingester/tests/golden/at_random.py FOLDER SEED      # v as in make.py
    ORCHESTRATOR_GOLDEN=FOLDER cargo test -p orchestrator-ingester --lib originals
"""

import asyncio
import datetime
import json
import logging
import pathlib
import pickle
import random
import shutil
import sys
from collections import OrderedDict
from decimal import Decimal

import make
import numpy as np
import zmq
from dranspose.data import albaem, contrast, eiger_legacy, lecroy, pcap, stream1, xspress3

VECTORS, PICKLES, MESSAGES = 30_000, 12_000, 120
GOOD = {
    "int": ["0", "5", "123456789", "-3", '"5"', "5.0", "true"],
    "str": ['"a"', '""', '"\\u00e9\\n"', '"ü"'],
    "float": ["1.5", "2", '"3.5"', "1e300", "NaN", "-Infinity"],
    "ints": ["[]", "[1,2]", '["3"]', "[4.0]"],
    "one": ["1", "1.0", "true"],
    "time": ['"2024-10-07T08:49:10.627Z"', "1728290950"],
}
SERIES = ['"header"', '"image"', '"series_end"']
TYPES = ['"series-start"', '"data"', '"series-end"']
MODELS = {
    "stins": (stream1.Stream1Packet, dict(msg_number="int", htype=SERIES, filename="str", frame="int", shape="ints", type="str", compression="str")),
    "xspress": (xspress3.XspressPacket, dict(htype=SERIES, filename="str", frame="int", shape="ints", type="str", compression="str", exptime="float")),
    "eiger_legacy": (eiger_legacy.EigerLegacyPacket, dict(htype=['"dheader-1.0"', '"dimage-1.0"', '"dseries_end-1.0"'], frame="int")),
    "albaem": (albaem.AlbaemPacket, dict(message_id="int", version="one", message_type=TYPES, frame_number="int", timestamp="float", acquisition_timestamp="int")),
    "pcap": (pcap.PCAPPacket, dict(message_id="int", version="one", message_type=TYPES, frame_number="int", arm_time="time")),
    "lecroy": (lecroy.LecroyPacket, dict(htype=['"msg"', '"traces"'], what=["0", "1", "2", "3", "3.0", "true"], frame="int", frames="int", ntriggers="int", seqno="int",
                                         channels="ints", ch="int", ts="float", shape="ints", dtype="str", horiz_offset="float", horiz_interval="float")),
}
OBJECTS = [1, -1, 1.5, 2.0, "1", "1.5", "x", "", None, True, b"1", b"x", bytearray(b"2"), (1,), [1], {}, 10**30, -(2**63), 2**63 - 1, 2**64, -300, 255, 65536, -129,
           float("nan"), float("inf"), Decimal("2"), Decimal("2.5"), np.int8(-3), np.int64(-(2**40)), np.uint64(2**63), np.float16(2), np.float32(1.5), np.float64(2),
           np.bool_(0), np.array(2), np.array([2], dtype=">f8"), np.array([[3]], dtype="u2"), np.array([1, 2]), np.array(["a"]), np.str_("ab"), np.str_("running"),
           np.dtype(">i4").type(4), datetime.datetime(2024, 1, 1), datetime.timedelta(1), frozenset([1]), "running", "started", "finished", "heartbeat", "é", "\n\\x",
           "\u20ac", "\U0001f600", b"\xe9", [[]], {"status": "running"}, OrderedDict(a=1), complex(1, 2), range(2), np.longdouble(2)]
KEYS = [1, None, b"a", ("x",), 2.5, True, np.str_("z"), np.int64(1), frozenset()]


def chance(of):
    return random.random() < of


def number():
    text = "".join(random.choice("0123456789.-+eE_ ") for _ in range(random.choice([1, 1, 2, 3, 8, 20])))
    # The original takes "0-9" for -9. We do not.
    text = text.replace("0-", "0").replace("0_-", "0")
    return random.choice([text, f'"{text}"'])


def time():
    text = list(random.choice(["2024-10-07T08:49:10.627Z", "2024-10-07 08:49:10+02:00", "2024-10-07", "1728290950.5", "2024-10-07T08:49"]))
    for _ in range(random.choice([0, 1, 1, 2])):
        text[random.randrange(len(text))] = random.choice(list("0123456789T:-+.Zz _,") + [""])
    return '"' + "".join(text) + '"'


def header(fields):
    absent, odd = random.choice([0.05, 0.15, 0.4]), random.choice([0, 0.05, 0.2])
    members = []
    for key, kind in fields.items():
        if chance(absent):
            continue
        value = random.choice(kind if isinstance(kind, list) else GOOD[kind])
        if chance(odd):
            value = time() if kind == "time" else random.choice([random.choice(ANY), number()])
        members.append(f'"{key}"{random.choice(["", " "])}:{random.choice(["", " "])}{value}')
    if chance(0.3):
        members.append('"extra":' + random.choice(ANY + [number()]))
    if chance(0.05) and members:
        members.append(random.choice(members))
    random.shuffle(members)
    return ("{" + ",".join(members) + "}").encode()


def thing(depth=0):
    kind = random.random()
    if depth > 3 or kind < 0.7:
        return random.choice(OBJECTS)
    if kind < 0.8:
        return [thing(depth + 1) for _ in range(random.choice([0, 1, 3]))]
    if kind < 0.9:
        return tuple(thing(depth + 1) for _ in range(random.choice([0, 1, 2, 3, 4, 9])))
    return {random.choice(["status", "path", "a", "b", 1, "dt"]): thing(depth + 1) for _ in range(3)}


def pickled():
    fields = {}
    good = dict(status=["running", "started", "finished", "heartbeat"], path=["a", ""], scannr=[1, "2", 3.0], description=["d"], dt=[1.5, 2])
    for key, values in good.items():
        if not chance(0.25):
            fields[key] = random.choice(values if chance(0.8) else OBJECTS)
    if chance(0.5):
        fields["extra"] = thing()
    if chance(0.1):
        fields[random.choice(KEYS)] = 1
    if chance(0.1):
        fields["self"] = fields
    top = OrderedDict(fields) if chance(0.1) else fields
    return pickle.dumps(top if chance(0.97) else thing(), random.randrange(6))


def vectors():
    rows = []

    def take(name, validate, raw):
        try:
            rows.append([name, raw.hex(), type(validate(raw)).__name__])
        except Exception:
            rows.append([name, raw.hex(), None])

    for _ in range(VECTORS):
        name = random.choice(list(MODELS))
        model, fields = MODELS[name]
        take(name, model.validate_json, header(fields))
    for _ in range(PICKLES):
        take("contrast", lambda raw: contrast.ContrastPacket.validate_python(pickle.loads(raw)), pickled())
    (make.HERE / "vectors.json").write_text(json.dumps(rows))


def mixed(cases, is_end):
    """Runs and single messages of the golden captures in any order, with few ends among them."""
    every, out = [message for case in cases.values() for message in case], []
    while len(out) < MESSAGES:
        if chance(0.35):
            case = random.choice(list(cases.values()))
            begin = random.randrange(len(case))
            out += case[begin : begin + random.randrange(1, 6)]
        else:
            out.append(random.choice(every))
    return [message for message in out if not is_end(message[0]) or chance(0.1)]


def value():
    plain = [random.randrange(-5, 10 ** random.choice([1, 5, 25])), random.uniform(-1, 1) * 10 ** random.randrange(-20, 25), None, True, [1, 2.0], {"a": 1.5, "b": [None]},
             float("nan"), float(random.randrange(10**6)), random.choice(["ü\n", 'a"b', "\x7f\u2028", "", "\U0001f600"])]
    return random.choice(plain)


def shuffled(fields):
    members = list(fields.items())
    random.shuffle(members)
    return json.dumps(dict(members), ensure_ascii=chance(0.5)).encode()


def pcap_data(frame):
    fields = dict(message_id=random.choice([1, "2", 3.0]), version=1, message_type="data", frame_number=random.choice([frame, str(frame), float(frame)]))
    length = random.randrange(0, 4)
    for name in random.sample(["x", "y", "INENC1.VAL.Mean", "ü", 'a"b'], random.randrange(0, 5)):
        fields[name] = [value() for _ in range(length + chance(0.07))] if chance(0.7) else value()
    return [shuffled(fields)]


def record(at):
    fields = dict(timestamp=random.choice([at, at + 0.5, str(at), float("nan"), 1e300]))
    for name in random.sample(["x", "y", "type2", "ü"], random.randrange(0, 4)):
        fields[name] = value()
    return [b"/v1/record_data", make.JSON, shuffled(fields)]


async def captures():
    start, end = make.pcap_messages()["plain"][0], [b'{"message_id":9,"version":1,"message_type":"series-end"}']
    await make.zmq_case("ZmqSubPCAPIngester", zmq.XPUB, "pcap-odd", [start, *map(pcap_data, range(300)), end])
    for protocol, name, kind, cases, ends in [
        ("lecroy", "ZmqSubLecroyIngester", zmq.XPUB, make.lecroy_messages(), (b'"what": 3',)),
        ("xspress", "ZmqSubXspressIngester", zmq.XPUB, make.xspress(), (b"series_end", b"{}")),
        ("stins", "ZmqPullSingleIngester", zmq.PUSH, make.stins(), (b"series_end", b'{"msg_number": 4}')),
        ("contrast", "ZmqSubContrastIngester", zmq.XPUB, make.contrast_messages(), (b"finished",)),
    ]:
        await make.zmq_case(name, kind, f"{protocol}-odd", mixed(cases, lambda part: any(end in part for end in ends)))
    plain = make.sardana()["plain"]
    await make.http_case("sardana-odd", [plain[0], *map(record, range(150)), plain[-1]])
    lines = [b"arm_time: 1\n", b"\n", b"x 1 2\n", b"END\n", b"END 5 ok\r\n", b" \n", b"a\r\n", b"arm_time: \n"]
    pieces = [[b"".join(random.choices(lines, k=6))] for _ in range(40)]
    await make.tcp_case("pandabox-odd", [[b"OK\n"], *pieces, [b"arm_time: 1\n\nEND\n"]])


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    ANY = make.NUMBERS + make.TEXTS + make.LISTS + make.TIMES
    folder = pathlib.Path(sys.argv[1])
    shutil.copytree(make.HERE, folder, dirs_exist_ok=True)
    make.HERE = folder
    random.seed(int(sys.argv[2]))
    vectors()
    asyncio.run(captures())
