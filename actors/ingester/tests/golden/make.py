"""Makes the golden files of this folder by running dranspose's own ingesters over real sockets.

    python3 -m venv v && v/bin/pip install --require-hashes -r tests/peers/dranspose-requirements.txt
    v/bin/python actors/ingester/tests/golden/make.py          # writes beside itself

<protocol>-<case>.cbor   what the source sent: one CBOR array of byte strings a message (pandabox: pieces of the TCP stream;
                         sardana: path, content type, body of a POST)
<protocol>-<case>.cbors  what the original made of it, as its own dump file (event = number of the item)
sardana-<case>.status.json  the answers' status codes
vectors.json             part 0 of messages and what the original's models take them for: [protocol, hex, class or null]
"""

import asyncio
import http.client
import io
import json
import logging
import pathlib
import pickle
import threading
from collections import OrderedDict
from datetime import datetime, timezone
from decimal import Decimal

import cbor2
import numpy as np
import uvicorn
import zmq
import zmq.asyncio
from cbor2 import CBORTag
from dranspose import ingesters
from dranspose.data import albaem, contrast, eiger_legacy, lecroy, pcap, stream1, xspress3
from dranspose.event import InternalWorkerMessage, StreamData, message_encoder
from dranspose.ingesters import http_sardana

HERE = pathlib.Path(__file__).parent
QUIET = 0.7  # seconds without an item after which a run counts as over
STAMP = datetime(2026, 11, 20, 12, 45, 47, 663238, tzinfo=timezone.utc)


def js(**fields):
    return json.dumps(fields).encode()


def ingester(name, port):
    settings = getattr(ingesters, name.replace("Ingester", "Settings"))
    scheme = {"upstream_url": f"tcp://127.0.0.1:{port}"} if name != "HttpSardanaIngester" else {}
    made = getattr(ingesters, name)(
        settings(ingester_streams=["golden"], ingester_url="tcp://localhost:0", **scheme)
    )
    made.ctx = zmq.asyncio.Context()
    return made


def write(case, messages, items):
    with open(HERE / f"{case}.cbor", "wb") as file:
        for parts in messages:
            cbor2.dump(list(parts), file)
    with open(HERE / f"{case}.cbors", "wb") as file:
        for number, item in enumerate(items):
            # A whole second in between: the text form of the time is shorter then.
            at = STAMP if number % 3 else STAMP.replace(microsecond=0)
            message = InternalWorkerMessage(event_number=number, streams={"golden": item}, created_at=at)
            cbor2.dump(CBORTag(55799, message), file, default=message_encoder)
    print(case, len(messages), "messages", len(items), "items")


async def collect(source, items):
    async for item in source:
        items.append(StreamData(typ=item.typ, frames=[bytes(f) for f in item.frames]))


async def settle(items, task):
    count = -1
    while count != len(items):
        count = len(items)
        await asyncio.sleep(QUIET)
    task.cancel()
    ended = (await asyncio.gather(task, return_exceptions=True))[0]
    if isinstance(ended, Exception):
        print("  the original ended with", repr(ended))


async def zmq_case(name, kind, case, messages):
    context = zmq.asyncio.Context()
    socket = context.socket(kind)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    made = ingester(name, port)
    items = []
    task = asyncio.create_task(collect(made.run_source("golden"), items))
    if kind == zmq.XPUB:
        await socket.recv()
    for parts in messages:
        await socket.send_multipart(parts)
    await settle(items, task)
    await made.stop_source("golden")
    socket.close(linger=0)
    write(case, messages, items)


# ---------------------------------------------------------------- STINS

def stins():
    def image(number, **change):
        fields = dict(htype="image", frame=number, shape=[2, 3], type="uint16", compression="none", msg_number=int(number) + 1)
        fields.update(change)
        return {k: v for k, v in fields.items() if v is not None}

    pixels = bytes(range(12))
    header = dict(htype="header", filename="/data/scan-7.h5", msg_number=0)
    plain = [[js(**header), js(meta=[1, 2])]]
    plain += [[js(**image(n)), pixels] for n in range(4)]
    plain += [[js(htype="series_end", msg_number=5)]]
    odd = [
        [b"no json"], [js(**image(9)), pixels], [js(htype="series_end", msg_number=1)], [b""], [b"[1]"], [b"\xff\xfe"],
        [js(htype="header", msg_number=0)], [js(htype="header", msg_number="x", filename="a")],
        [js(msg_number="0", filename="")],                       # no htype, a numeric string, an empty name: a start
        [js(**image(0)), pixels],
        [js(**image(1, compression=None)), pixels],              # invalid: shifts the rest
        [js(**image("2", msg_number=3.0, shape=["2", 3.0])), pixels],
        [js(**header)],                                          # a start while running
        [js(**image(5)), pixels, b"third part"],                 # a hole in the numbers
        [js(**image(6, htype=None)), pixels],                    # no htype, all of an image
        [js(**image(7, extra={"deep": [1, {"x": None}]}, filename="also here"))],
        [b'{"htype":"image","frame":8,"shape":[1],"type":"f","compression":"none","msg_number":1,"x":NaN,"y":-Infinity}', b""],
        [b'{"htype":"image","frame":9,"shape":[1],"type":"f","compression":"none","msg_number":1,}', b""],
        [b' \n{"htype":"ima\\u0067e","frame":10,"frame":11,"shape":[],"type":"","compression":"","msg_number":1} \t', b""],
        [js(**image(12, frame=True)), pixels], [js(**image(13, shape="2")), pixels], [js(**image(14, type=3)), pixels],
        [js(**image(15, frame=1.5)), pixels], [js(**image(16, frame=None)), pixels], [js(**image(17, msg_number=None)), pixels],
        [js(htype="image", msg_number=3)], [js(htype="heartbeat", msg_number=3)],
        [js(**image(3)), pixels],                                # backwards
        [js(msg_number=4)],                                      # no htype: an end
        [js(**image(18)), pixels], [js(**header)], [js(**image(0)), pixels],
    ]
    return {"plain": plain, "odd": odd}


def eiger_legacy_messages():
    start = [js(htype="dheader-1.0", header_detail="all", series=6), js(nimages=3)] + [b"x"] * 6 + [js(a=1)]

    def image(number, **change):
        return [js(htype="dimage-1.0", frame=number, series=6, **change),
                js(htype="dimage_d-1.0", shape=[2, 2], type="uint32", encoding="<"), b"\1" * 16,
                js(htype="dconfig-1.0", real_time=1), js(app=number)]

    plain = [start] + [image(n) for n in range(3)] + [[js(htype="dseries_end-1.0", series=6), b"appendix"]]
    odd = [image(1), [js(htype="dseries_end-1.0")], [js(header_detail="all")], [js(htype="dheader-1.1")], start,
           image("0"), image(1.0), image(1.5), start, [js(htype="dimage-1.0")], [js(htype="dimage-1.0", frame=7)],
           [b"{}"], image(3), [js(htype="dseries_end-1.0", series=None)], image(4), start, image(0)]
    return {"plain": plain, "odd": odd}


def xspress():
    start = [js(htype="header", filename="/data/x.hdf5", overwritable=False)]
    meta = pickle.dumps([np.zeros(4), np.zeros(4, "uint32")])

    def image(number, **change):
        fields = dict(htype="image", frame=number, shape=[2, 4], exptime=0.0999, type="uint32", compression="none")
        fields.update(change)
        return js(**{k: v for k, v in fields.items() if v != "gone"})

    data, end = b"\2" * 32, [js(htype="series_end")]
    plain = [start] + [[image(n), data, meta] for n in range(3)] + [end]
    old = [start]
    for n in range(3):
        old += [[image(n)], [data], [meta]]
    old += [end]
    odd = [[image(0), data, meta], end, start + [b"second part"], [b"{}"], [js(filename="")],
           [image(0), data, meta], [image(1)], [data, b"two"], [meta, b"three"], [image(2), data], [b"{}"], start,
           start, [image(3, exptime="gone", compression=None), data, meta], [image(4, exptime="x"), data, meta],
           [image(5, htype="gone", frame="5"), data, meta], [b"nothing"], [image(6), data, meta, b"four"], end, end,
           [image(7, type="gone"), data, meta], [image(8, exptime="1.5", filename="f"), data, meta],
           [b"{}", b"more"], [image(9), data, meta], start]
    return {"plain": plain, "old": old, "odd": odd}


def albaem_messages():
    base = dict(message_id=1, version=1)
    start, end = js(**base, message_type="series-start"), js(message_id=9, version=1, message_type="series-end", d={"r": False})

    def data(number, **change):
        fields = dict(message_id=2, version=1, message_type="data", frame_number=number, timestamp=7.7,
                      acquisition_timestamp=1704807770443944912, channel1=-2.8e-11)
        fields.update(change)
        return js(**{k: v for k, v in fields.items() if v is not None})

    plain = [[start]] + [[data(n)] for n in range(3)] + [[end]]
    odd = [[data(0)], [end], [js(version=1, message_type="series-start")], [js(**base)], [js(message_id=1, version=2, message_type="series-start")],
           [js(message_id="1", version=1, message_type="series-start", arm=1), b"second"], [data("0")], [data(1, timestamp="7")],
           [data(2, timestamp=None)], [data(3, acquisition_timestamp=1.5)], [data(4, version="1")], [data(5, version=1.0)],
           [data(6, version=True)], [data(7, timestamp=True)], [start], [data(9), b"part"], [data(8)], [js(**base, message_type="other")],
           [end], [data(9)], [start]]
    return {"plain": plain, "odd": odd}


def pcap_messages():
    start = js(message_id=1, version=1, message_type="series-start", arm_time="2024-10-07T08:49:10.627Z")
    end = js(message_id=9, version=1, message_type="series-end")

    def data(number, **change):
        return js(message_id=2, version=1, message_type="data", frame_number=number, **change)

    plain = [[start], [data(0, x=[1.0, 2.0, 3.0], y=[1, 2, 3])], [data(3, x=[4.5], y=[None])], [data(4, x=[1e20, 1e-7], s="scalar")], [end]]
    odd = [[data(0, x=[1])], [end], [js(message_id=1, version=1, message_type="series-start")],
           [js(message_id=1, version=1, message_type="series-start", arm_time="yesterday")],
           [js(message_id=1, version=1, message_type="series-start", arm_time=1728290950.627), b"second part"],
           [data(0)], [data(0, x=[1], y=[1, 2])], [data(0, x=[1]), b"part"], [data(0, x=[])], [data("0", x=[1, 2.0], a=True, b=None, f=1.0)],
           [start], [data(2.0, x=[float("nan"), float("inf")], t="ü\u2028\n\x7f\"\\/\x01 \U0001f600", n=float("-inf"), i=12345678901234567890123)],
           [data(4, x=[[1, 2], {"b": 1.50, "a": [None, True, "x"]}], d={"z": 1, "a": {}}, e=-0.0, o=1e16, p=123456789.0, q=1e15, r=1.5e-5, u=5e-324)],
           [b'{"frame_number": 6, "w": 1, "message_type": "data", "x": [1E2, 1e+2], "version": 1, "v": -0, "message_id": "7", "w": 2, "h": 1e400}'],
           [data(9, x=[1])], [b"x"], [data(-3, x=[0.1, 1.7976931348623157e308])], [end, b"two"], [data(10, x=[1])], [start]]
    floats = [sign * digits * 10.0**exponent for exponent in (-310, -30, -8, -7, -6, -5, -4, -3, -1, 0, 1, 9, 14, 15, 16, 17, 30, 300) for digits in (1, 1.5, 9.875, 1 / 3) for sign in (1, -1)]
    floats += [0.1 + 0.2, 1e23, 9007199254740993.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 123456789012345680.0, 4503599627370497.5, 98401953968808.125, 98401953968808.375, 0.5, 2.5]
    return {"plain": plain, "odd": odd, "floats": [[start], [data(0, x=floats)], [end]]}


def contrast_messages():
    def started(protocol=4, status="started", **change):
        fields = dict(status=status, path="/data/raw", scannr=2, description="mesh sx", snapshot={"x": 0.5, "n": np.arange(3)})
        fields.update(change)
        return pickle.dumps({k: v for k, v in fields.items() if v is not None}, protocol)

    def running(protocol=4, **change):
        fields = dict(status="running", dt=2.5, sx=-2.0, pseudo={"x": np.array([-2.0]), "f": np.zeros((2, 2), order="F")}, link={"type": "Link"})
        fields.update(change)
        return pickle.dumps({k: v for k, v in fields.items() if v is not None}, protocol)

    beat = pickle.dumps({"status": "heartbeat"})
    plain = [[beat], [started()]] + [[running(p)] for p in range(6)] + [[beat], [started(status="finished")]]
    odd = [[running()], [started(status="finished")], [b"no pickle"], [pickle.dumps([1, 2])], [started(path=None)], [started(scannr="x")],
           [b""], [started()[:-1]], [started(0, status=None, scannr="7"), b"second part"], [started()], [running(dt="1.5")], [running(dt="x")],
           [running(dt=np.float64(1.5))], [running(dt=np.float32(1.5))], [running(dt=np.int64(1))], [running(dt=True)],
           [running(status=None)], [running(dt=None)], [running(dt=np.array([1.0]))], [running(dt=Decimal("1.5"))],
           [running(dt=datetime(2024, 1, 1))], [running(**{"dt": 10**30})], [pickle.dumps({"status": "running", "dt": 1.0, 3: 4})],
           [pickle.dumps(OrderedDict(status="running", dt=1.0))], [pickle.dumps({"status": "heartbeat", 3: 4})], [beat],
           [running(0, dt=1)], [running(1, dt=-(2**40))], [running(2, dt=-1)], [pickle.dumps({"status": "heartbeat", "dt": 1.0})],
           [running(5), b"more"], [started(1, status="finished", scannr=3.0)], [running()], [started()]]
    return {"plain": plain, "odd": odd}


def lecroy_messages():
    def msg(what, **change):
        return js(htype="msg", what=what, frame=0, **change)

    def traces(ch, frame, **change):
        fields = dict(htype="traces", ch=ch, ts=1740563614.969933, frame=frame, shape=[1, 2], dtype="float64",
                      horiz_offset=-1e-7, horiz_interval=1.25e-11)
        fields.update(change)
        return [js(**fields), b"\3" * 16, pickle.dumps([0.5])]

    def seqstart(n=0, triggers=-1, **change):
        return [msg(1, ntriggers=triggers, seqno=n, channels=[2, 4], **change)]

    prepare, seqend, stop = [msg(0)], [msg(2)], [js(htype="msg", what=3, frame=66, frames=66)]
    continuous = [prepare, seqstart()]
    for n in range(3):
        continuous += [traces(2, n), traces(4, n), seqend]
    continuous += [stop, prepare, seqstart()]
    sequential = [prepare]
    for n in range(3):
        sequential += [seqstart(n, 10), traces(2, n), traces(4, n), seqend]
    sequential += [stop]
    odd = [traces(2, 0), seqend, seqstart(), stop, prepare, [b"invalid"], seqstart(), prepare, prepare, seqstart(),
           prepare, seqend, seqstart(), [b"x"], prepare + [b"second"], [js(htype="msg", what="1", frame=0, ntriggers="-1", seqno=0, channels=[])],
           seqstart(), prepare, seqstart() + [b"more"], traces(2, "0"), traces(2, 0, ts="x"), [b"x"], prepare,
           seqstart(1, 5), [js(what=1, frame=0, ntriggers=-1, seqno=0, channels=[])],
           traces("2", 1, extra=1)[:1], seqend + [b"tail"], seqend, traces(4, 2), seqstart(), seqend, traces(2, 3),
           [js(what="3", frame=1, frames=1)], [js(what=3.0, frame=1, frames=1)], [js(what=True, frame=1)],
           [js(what=3, frame="1", frames=1.0), b"last"], traces(2, 4), seqend, prepare, seqstart()]
    odd_sequential = [prepare, seqstart(0, 2) + [b"own part"], traces(2, 0), seqend, traces(2, 1), seqend, seqend, seqstart(1, 2), traces(2, 2), stop, stop]
    return {"continuous": continuous, "sequential": sequential, "odd": odd, "odd_sequential": odd_sequential}


# ---------------------------------------------------------------- other transports

PANDA_HEADER = (b"arm_time: 2024-02-19T14:33:41.585Z\nmissed: 0\nprocess: Scaled\nformat: ASCII\nfields:\n"
                b" PCAP.TS_TRIG double Value scale: 8e-09 offset: 0 units: s\n PCAP.BITS2 uint32 Value\n\n")


def pandabox():
    lines = b"".join(b" 33554401 0 0 0.4317596%d 0 592910919\n" % n for n in range(4))
    plain = [[b"OK\n"], [PANDA_HEADER], [lines], [b"END 11 Disarmed\n"]]
    odd = [[b"OK\n"], [b"noise\n\nmore noise\n"], [PANDA_HEADER[:30]], [PANDA_HEADER[30:]], [lines[:50]], [lines[50:] + b"\n  \nlast\n"],
           [b"END 11 Disarmed\nbetween\narm_time"], [b": again\r\n", b"a\r\n", b" \t\r\n", b"ENDLESS\n"],
           [b"arm_time: 3\n\nx\nEND\n"], [b"arm_time: cut", ]]
    return {"plain": plain, "odd": odd}


async def tcp_case(case, messages):
    done = asyncio.Event()

    async def serve(reader, writer):
        assert await reader.readline() == b"\n"
        for parts in messages:
            for piece in parts:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.02)
        await done.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    made = ingester("TcpPcapIngester", server.sockets[0].getsockname()[1])
    items = []
    task = asyncio.create_task(collect(made.run_source("golden"), items))
    await settle(items, task)
    done.set()
    server.close()
    write(case, messages, items)


JSON = b"application/json"


def sardana():
    desc, data, end = b"/v1/data_desc", b"/v1/record_data", b"/v1/record_end"

    def start(**change):
        fields = dict(serialno=20338, scandir="/data", title="burstscan", column_desc=[{"name": "point_nb", "shape": []}], estimatedtime=-2.65)
        fields.update(change)
        return [desc, JSON, js(**fields)]

    plain = [start(), [data, JSON, js(timestamp=0.61, point_nb=0)], [data, JSON, js(timestamp=1.5, point_nb=1)],
             [b"/v1/custom_data", JSON, js(a=1)], [end, JSON, b"{}"]]
    odd = [[data, JSON, js(timestamp=0.5)], [end, JSON, b"{}"], [desc, JSON, js(serialno=1, scandir="a")], [desc, JSON, b"nothing"],
           [desc, JSON, b"[]"], [desc, JSON, b""], [desc, b"text/plain", start()[2]], [desc, b"application/x-www-form-urlencoded", start()[2]],
           [desc, b"application/vnd.x+json; charset=utf-8", js(extra="first", title="", serialno="7", scandir="ü", type="DataDescription", f=float("nan"))],
           start(type="other"), start(), [data, JSON, js(timestamp=3)], [data, JSON, js(timestamp="4.5", type="RecordData", x=[1, 2.0, None])],
           [data, JSON, js(timestamp="x")], [data, JSON, js(timestamp=float("inf"))], [data, JSON, js(timestamp=True, z=1e20, a=1e-7)],
           [data, JSON, b'{"timestamp": 1, "b": 1, "a": 2, "b": 3, "big": 123456789012345678901234567890}'], [b"/v1/custom_data", JSON, b"[1]"],
           [b"/v1/other", JSON, b"{}"], [b"/v1/custom_data", JSON, js(type="mine")], [data, b"", js(timestamp=7)], [data, b"Application/JSON", js(timestamp=8)], [data, b"application/json-seq", js(timestamp=8)],
            [data, JSON, b'"x"'], [end, JSON, js(type="RecordEnd", more=[{}])], [data, JSON, js(timestamp=9)], start()]
    return {"plain": plain, "odd": odd}


async def http_case(case, messages):
    made = ingester("HttpSardanaIngester", 0)
    http_sardana.sardana_ingester = made
    server = uvicorn.Server(uvicorn.Config(http_sardana.app, port=0, lifespan="off", log_level="warning"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    items, codes = [], []
    task = asyncio.create_task(collect(made.run_source("golden"), items))
    await asyncio.sleep(0.1)

    def post():
        for path, kind, body in messages:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("POST", path.decode(), body, {"content-type": kind.decode()} if kind else {})
            answer = connection.getresponse()
            text = answer.read()
            codes.append([answer.status, text.decode() if answer.status == 200 else ""])
            connection.close()

    await asyncio.get_running_loop().run_in_executor(None, post)
    await settle(items, task)
    server.should_exit = True
    await serving
    write(case, messages, items)
    (HERE / f"{case}.status.json").write_text(json.dumps(codes) + "\n")


# ---------------------------------------------------------------- vectors

NUMBERS = ["0", "-0", "7", "-7", "1.0", "-0.0", "1.5", "1e3", "1E-2", "1e400", "12345678901234567890123", "1e19", "true", "false", "null",
           '"7"', '" 7 "', '"+7"', '"-7"', '"7.0"', '"7.5"', '"7."', '".0"', '"1e3"', '"1_000"', '"_1"', '"1__0"', '"1_"', '"0x10"', '"007"', '"-0"', '""', '" "',
           '"nan"', '"NaN"', '"inf"', '"-Infinity"', '"infinity"', '"1 0"', '"\\u0037"', '"true"', "NaN", "Infinity", "-Infinity", "[7]", "{}", '"12345678901234567890123"',
           '"9223372036854775808.0"', "9223372036854775807.0", '"\\n7"', '"\\u00a07"', '"٧"', '"1.5e1"', '"1E5"', '".5"', '"5."', '"1.00"', '"--7"', '"- 7"', '"+-7"', '"1_0.0"', '"1.0_0"', '"1_0 "', '" 1_0"', '"1_.5"', '"n_an"', '"1e1_0"']
TEXTS = ['""', '"a"', "1", "null", "true", '["a"]', '"\\ud800"', '"\\ud83d\\ude00"', '"\\x"', '"\t"', '"\\u0000"', '"\x7f"', "'a'"]
LISTS = ["[]", "[1]", '["1"]', "[1.0]", "[1.5]", "[null]", "[[1]]", "1", "null", '"[1]"', "{}", '{"0":1}', "[1,]", "[,1]", "[1 2]", "[true]"]
TIMES = ['"2024-10-07T08:49:10.627Z"', '"2024-10-07 08:49:10"', '"2024-10-07t08:49"', '"2024-10-07T08"', '"2024-10-07"', '"2024-10-07_08:49:10+02:00"',
         '"2024-10-07T08:49:10+0200"', '"2024-10-07T08:49:10+02"', '"2024-10-07T08:49:10,5"', '"2024-10-07T08:49:10.1234567"', '"2024-10-07T08:49:10.1234567890"', '"2024-13-07T08:49:10"', '"2024-02-30T08:49:10"',
         '"2024-10-07T24:00:00"', '"2024-10-07T08:60:00"', '"2024-10-07T08:49:60Z"', '"2024-10-07T08:49:10 Z"', '"2024-10-07T08:49:10z"', '" 2024-10-07T08:49:10"', '"0000-01-01T00:00:00"', '"0001-01-01T00:00:00"',
         '"2024-10-07T08:49:10-24:00"', '"2024-10-07T08:49:10-23:59"', '"2024-10-07T08:49:10+23:60"', '"2024-10-07T08:49:10\\u221202:00"', "1728290950", "1728290950.627", '"1728290950"', '"1728290950.627"', '"-5"', "-5", "1e20", "1728290950627",
         "-62135596800", "-62135596801", "20000000000", "253402300799", "253402300800", "253402300799999", "253402300800000", "NaN", '"NaN"', "Infinity", "true", "null", '""', '"+5"', '"5."', '".5"', '"1e3"', "[]", '"2024-10-7"', '"20241007"', '"2024-10-07T"', '"2024-10-07T084910"', "1e5", '" 5"', '"5 "', '"2024-10-07T08:49:10."', '"2024-10-07T08:49.5"', '"1.5e1"', '"1.e1"', '"1.5e30"', '".nan"']
SYNTAX = ["{}", "[]", "", " ", "null", "1", '{"a":1', '{"a" 1}', '{a:1}', '{"a":1}x', '{"a":1}{}', '{"a":01}', '{"a":1.}', '{"a":.1}', '{"a":+1}', '{"a":1e}', '{"a":-}', '{"a":nan}', '{"a":Nan}', '{"a":-NaN}',
          '{"a":tru}', '{"a":truefalse}', '{"a":1,}', '{,}', '{"a":1 "b":2}', '{"a":"\\q"}', '{"a":"\\u12"}', '{"a":"\\ud800"}', '{"a":"\n"}', '{"a":"\\/\\b\\f\\n\\r\\t"}', "\ufeff{}", '{"\\u0061":1}', '{1:1}', "// x\n{}",
          '{"a":' + "[" * 120 + "]" * 120 + "}", '{"a":' + "[" * 150 + "]" * 150 + "}", '{"a":' + "[" * 190 + "]" * 190 + "}", '{"a":' + "[" * 210 + "]" * 210 + "}", "\x0b{}", "{}\x00", '{"a":-Infinity}', '{"a":Infinity}', '{"a":1e5,"b":[1,[2,{"c":null}]]}']


def vectors():
    out = []

    def take(name, adapter, raw, loads=None):
        try:
            made = type(adapter.validate_python(pickle.loads(raw)) if loads else adapter.validate_json(raw)).__name__
        except Exception:
            made = None
        out.append([name, raw.hex(), made])

    def text(name, adapter, template, values):
        for value in values:
            take(name, adapter, template.replace("@", value).encode())

    one = stream1.Stream1Packet
    text("stins", one, '{"msg_number":@}', NUMBERS)
    text("stins", one, '{"msg_number":1,"filename":@}', TEXTS)
    text("stins", one, '{"msg_number":1,"htype":@}', TEXTS + ['"header"', '"image"', '"series_end"'])
    text("stins", one, '{"msg_number":1,"htype":"image","frame":0,"type":"a","compression":"b","shape":@}', LISTS)
    text("stins", one, '{"msg_number":1,"frame":0,"type":"a","compression":"b","shape":@,"filename":"x"}', LISTS)
    text("stins", one, "@", SYNTAX)
    for syntax in SYNTAX:
        if syntax.startswith('{"'):
            take("stins", one, ('{"msg_number":1,' + syntax[1:]).encode())
            take("xspress", xspress3.XspressPacket, syntax.encode())
    two = xspress3.XspressPacket
    text("xspress", two, '{"htype":"image","frame":0,"shape":[1],"type":"a","exptime":@}', NUMBERS)
    text("xspress", two, '{"htype":"image","frame":0,"shape":[1],"type":"a","compression":@}', TEXTS)
    text("xspress", two, '{"frame":0,"shape":[1],"type":"a","filename":@}', TEXTS)
    text("xspress", two, '{"htype":@}', TEXTS + ['"series_end"'])
    three = albaem.AlbaemPacket
    text("albaem", three, '{"message_id":1,"version":@,"message_type":"series-end"}', NUMBERS)
    text("albaem", three, '{"message_id":1,"version":1,"message_type":"data","frame_number":1,"timestamp":@,"acquisition_timestamp":1}', NUMBERS)
    text("pcap", pcap.PCAPPacket, '{"message_id":1,"version":1,"message_type":"series-start","arm_time":@}', TIMES)
    text("eiger_legacy", eiger_legacy.EigerLegacyPacket, '{"htype":"dimage-1.0","frame":@}', NUMBERS)
    text("eiger_legacy", eiger_legacy.EigerLegacyPacket, '{"htype":@}', TEXTS + ['"dheader-1.0"', '"dseries_end-1.0"'])
    four = lecroy.LecroyPacket
    text("lecroy", four, '{"htype":"msg","frame":0,"what":@}', NUMBERS + ["2", "2.0", '"2"', '"0"', '"1"', '"3"'])
    text("lecroy", four, '{"htype":"traces","frame":0,"what":3,"frames":1,"ch":1,"ts":1,"shape":@,"dtype":"a","horiz_offset":0,"horiz_interval":"1"}', LISTS)
    text("lecroy", four, '{"frame":0,"what":@,"frames":1}', NUMBERS + ["3", "3.0", '"3"'])
    text("lecroy", four, '{"htype":"msg","frame":0,"what":1,"ntriggers":@,"seqno":0,"channels":[1]}', NUMBERS[:20])
    five = contrast.ContrastPacket
    objects = [1, -1, 1.5, 2.0, "1", "1.5", "x", None, True, b"1", b"x", bytearray(b"1"), (1,), [1], {1: 2}, {1}, 10**30, -(10**400), 2**31, -(2**31), 2**63, float("nan"), 1j, Decimal("2"), np.int64(3), np.uint8(3),
               np.float64(2.5), np.float64(2.0), np.float32(2.0), np.bool_(True), np.array(2.0), np.array([2.0]), np.array([1, 2]), np.uint64(2**63), np.int64(2**63 - 1), np.array([2], dtype=">f8"), np.str_("a"), np.str_("1"), datetime(2024, 1, 1), OrderedDict(), frozenset(), range(3), slice(1), np.dtype("i4"), ..., int, "ü" * 130, "a" * 260, b"\xff"]
    for protocol in (0, 2, 4, 5):
        for value in objects:
            for fields in (dict(status="running", dt=value), dict(path="a", scannr=value, description="b"), dict(status="started", path=value, scannr=1, description="b"), dict(status=value), dict(dt=1.0, other=[value, {"status": value}], shared=(value, value)), value):
                take("contrast", five, pickle.dumps(fields, protocol), True)
    shared = {"status": "running", "dt": 1.0}
    shared["self"] = shared
    extra = [shared, OrderedDict(shared=shared, status="finished", path="p", scannr=1, description=""), {"status": "heartbeat", 1: 2}, {1: 2, "dt": 1}, {b"dt": 1.0}, {"dt": 1.0, ("a",): 1}, {"dt": 1.0, None: 1},
             {"dt": 1.0, np.str_("a"): 1}, {"path": "a", "scannr": 1, "description": "d", "dt": 1.0}, {"dt": 1.0, **{f"k{n}": n / 7 for n in range(2500)}}, {"dt": 1.0, "l": list(range(300, 2600))}, {"dt": 1.0, "l": [[]] * 300}]
    for protocol in range(6):
        for value in extra:
            take("contrast", five, pickle.dumps(value, protocol), True)
    seen, lines = set(), []
    for row in out:
        line = json.dumps(row)
        if line not in seen and len(row[1]) < 1200:
            seen.add(line)
            lines.append(line)
    (HERE / "vectors.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print("vectors", len(lines))


async def main():
    logging.disable(logging.CRITICAL)
    zmq_kinds = [("stins", "ZmqPullSingleIngester", zmq.PUSH, stins), ("eiger_legacy", "ZmqPullEigerLegacyIngester", zmq.PUSH, eiger_legacy_messages),
                 ("xspress", "ZmqSubXspressIngester", zmq.XPUB, xspress), ("albaem", "ZmqSubAlbaemIngester", zmq.XPUB, albaem_messages),
                 ("pcap", "ZmqSubPCAPIngester", zmq.XPUB, pcap_messages), ("contrast", "ZmqSubContrastIngester", zmq.XPUB, contrast_messages),
                 ("lecroy", "ZmqSubLecroyIngester", zmq.XPUB, lecroy_messages)]
    for protocol, name, kind, make in zmq_kinds:
        for case, messages in make().items():
            await zmq_case(name, kind, f"{protocol}-{case}", messages)
    for case, messages in pandabox().items():
        await tcp_case(f"pandabox-{case}", messages)
    for case, messages in sardana().items():
        await http_case(f"sardana-{case}", messages)
    vectors()


if __name__ == "__main__":
    asyncio.run(main())
