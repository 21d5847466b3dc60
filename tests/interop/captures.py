"""Makes what a source of one protocol sends in a series, with the sizes and types of a real one. Usage: captures.py CASE FILE.
Writes the messages to FILE, a CBOR array of byte strings for each, and prints as JSON:
  {"typ": ..., "items": [{"parts": [[length, sha1]...], "parsed": {...}}...], "messages": [[text...]...] where all are text}

An item is what one event carries, and `parsed` what a worker is to understand of it. None of it comes from a parser.
"""

import hashlib
import json
import pickle
import sys
from datetime import datetime, timezone

import cbor2
import numpy as np
from plain import plain


def js(*parts, **fields):
    return json.dumps(dict(*parts, **fields)).encode()


def noise(seed, shape, dtype):
    return np.random.default_rng(seed).integers(0, 4000, shape).astype(dtype)


class Series:
    """Messages, and the items that they are to become."""

    def __init__(self, typ):
        self.typ, self.messages, self.items = typ, [], []

    def send(self, *parts):
        self.messages.append(list(parts))
        return list(parts)

    def item(self, parts, name, fields):
        digests = [[len(part), hashlib.sha1(part).hexdigest()] for part in parts]
        self.items.append({"parts": digests, "parsed": {"is": name} | plain(fields)})

    def one(self, name, parts, fields):
        """A message that is an item."""
        self.item(self.send(*parts), name, fields)

    def text(self):
        try:
            return [[part.decode() for part in message] for message in self.messages]
        except UnicodeDecodeError:
            return None


def stins():
    """A stream of one kind of messages for all detectors: an image is its JSON and its pixels."""
    series = Series("STINS")
    header = dict(htype="header", filename="/data/scan-7.h5", msg_number=0)
    series.one("Stream1Start", [js(header), js(meta=[1, {"motor": "samy"}])], header)
    for frame in range(8):
        pixels = noise(frame, [831, 1475], "uint16")
        image = dict(htype="image", frame=frame, shape=[831, 1475], type="uint16", compression="none", msg_number=frame + 1)
        series.one("Stream1Data", [js(image), pixels.tobytes()], image | {"data": pixels})
    end = dict(htype="series_end", msg_number=9)
    series.one("Stream1End", [js(end)], end)
    return series


def xspress():
    """Spectra of four channels and what is known of each, in one message or, in the older form, in three."""
    series = Series("xspress")
    names = ["ocr", "AllEvents", "AllGood", "ClockTicks", "TotalTicks", "ResetTicks", "event_widths", "dtc"]
    header = dict(htype="header", filename="/data/x.hdf5", overwritable=False)
    series.one("XspressStart", [js(header)], header)
    for frame in range(10):
        spectra = noise(frame, [4, 4096], "uint32")
        meta = [noise(90 + n, [4], "float64" if n % 7 == 0 else "uint32") for n in range(8)]
        image = dict(htype="image", frame=frame, shape=[4, 4096], exptime=0.0999, type="uint32", compression="none")
        parts = [js(image), spectra.tobytes(), pickle.dumps(meta)]
        for message in [parts] if frame % 2 else [[part] for part in parts]:
            series.send(*message)
        series.item(parts, "XspressImage", image | {"data": spectra, "meta": dict(zip(names, meta))})
    end = dict(htype="series_end")
    series.one("XspressEnd", [js(end)], end)
    return series


def eiger_legacy():
    """DECTRIS' stream, with `header_detail` all and appendices, of a 500K detector."""
    series, size = Series("EIGER_LEGACY"), [1030, 514]
    across = size[::-1]

    def blob(htype, shape, array):
        return [js(htype=htype, shape=shape, type=str(array.dtype)), array.tobytes()]

    detector = dict(nimages=8, ntrigger=1, bit_depth_image=32, x_pixels_in_detector=1030, y_pixels_in_detector=514)
    detector |= dict(compression="none", count_time=0.0999, beam_center_x=-0.5)
    header = dict(htype="dheader-1.0", header_detail="all", series=66)
    sample = dict(sample="lysozyme", scan=[1, {"motor": "samy"}])
    parts = [js(header), js(detector)]
    parts += blob("dflatfield-1.0", size, noise(1, across, "float32"))
    parts += blob("dpixelmask-1.0", size, noise(2, across, "uint32"))
    parts += blob("dcountrate_table-1.0", [2, 1000], noise(3, [1000, 2], "float32"))
    series.one("EigerLegacyHeader", [*parts, js(sample)], header | {"info": detector, "appendix": sample})
    for frame in range(8):
        pixels = noise(10 + frame, across, "uint32")
        image = dict(htype="dimage-1.0", series=66, frame=frame, hash=hashlib.md5(pixels.tobytes()).hexdigest())
        shape = dict(htype="dimage_d-1.0", shape=size, type="uint32", encoding="<", size=pixels.nbytes)
        times = dict(htype="dconfig-1.0", start_time=frame * 10**8, stop_time=frame * 10**8 + 99900000, real_time=99900000)
        parts = [js(image), js(shape), pixels.tobytes(), js(times), js(position=frame / 10)]
        series.one("EigerLegacyImage", parts, image | {"data": shape | {"buffer": pixels}, "config": times})
    end = dict(htype="dseries_end-1.0", series=66)
    series.one("EigerLegacyEnd", [js(end), js(sample)], end)
    return series


SERIES_UNIQUE_ID = "01HBV3JPF9T4ZDPADX8EMK6XMZ"


class StreamV2:
    """DECTRIS' Stream V2 of a detector with two thresholds: one map of CBOR in each message."""

    def __init__(self, image_ids):
        self.series, self.ids = Series("EIGER_V2"), dict(series_id=66, series_unique_id=SERIES_UNIQUE_ID)
        self.date = datetime(2024, 2, 19, 14, 33, 41, tzinfo=timezone.utc)
        self.start(len(image_ids))
        for image_id in image_ids:
            self.image(image_id)
        self.one("end", {}, {})

    def one(self, kind, fields, expected):
        """Maps of the detector may be of indefinite length and have a tag; `expected` replaces what is not plain."""
        whole = dict(type=kind, **fields, **self.ids)
        part = cbor2.dumps(cbor2.CBORTag(55799, whole), indefinite_containers=kind == "image")
        self.series.one(f"EigerV2.{kind}", [part], whole | expected)

    @staticmethod
    def array(pixels, compressed=False):
        data = cbor2.CBORTag(56500, ["lz4", 0, pixels.tobytes()]) if compressed else pixels.tobytes()
        tag = {"uint16": 69, "uint32": 70, "float32": 85}[str(pixels.dtype)]
        return cbor2.CBORTag(40, [list(pixels.shape), cbor2.CBORTag(tag, data)])

    def start(self, count):
        mask, flat = noise(1, [514, 1030], "uint32"), noise(2, [514, 1030], "float32")
        fields = dict(arm_date=self.date, beam_center_x=-0.5, channels=["threshold_1", "threshold_2"], number_of_images=count)
        fields |= dict(image_size_x=1030, image_size_y=514, goniometer={"omega": {"increment": 0.1, "start": 0.0}})
        arrays = dict(pixel_mask={"threshold_1": mask}, flatfield={"threshold_1": flat})
        tagged = {name: {"threshold_1": self.array(of["threshold_1"])} for name, of in arrays.items()}
        self.one("start", fields | tagged, arrays)

    def image(self, image_id):
        plainly, packed = noise(10 + image_id, [514, 1030], "uint16"), noise(50 + image_id, [514, 1030], "uint32")
        data = {"threshold_1": self.array(plainly), "threshold_2": self.array(packed, compressed=True)}
        fields = dict(data=data, image_id=image_id, real_time=[99900, 10**6], series_date=self.date)
        fields |= dict(user_data={"motor": ["samy", image_id / 10, None]})
        digest = hashlib.sha1(packed.tobytes()).hexdigest()
        self.one("image", fields, {"data": {"threshold_1": plainly, "threshold_2": [[514, 1030], [70, ["lz4", 0, digest]]]}})


def eiger_v2():
    return StreamV2(range(8)).series


def eiger_v2_damaged():
    """Images are missing, and between the others there is what no detector sends."""
    series = StreamV2([0, 1, 2, 5, 6]).series
    whole = series.messages[3][0]
    bad = [[b""], [b"{}"], [whole[:-1]], [whole + b"\x00"], [whole, b"2"], [b"\x81" * 100_000], [b"\xbb" + b"\xff" * 8]]
    bad += [[cbor2.dumps(dict(type="image", image_id=-1, series_id=66))], [cbor2.dumps(dict(type="image", series_id=66))]]
    bad += [[cbor2.dumps(dict(type="image", image_id=3, series_id=66, user_data=[0] * 300_000))]]
    # Nothing is wrong with it, but it is of the series before.
    late = [cbor2.dumps(dict(type="image", image_id=9, series_id=65))]
    series.messages[3:3] = bad
    series.messages.insert(1, late)
    return series


def albaem():
    """An electrometer of four channels."""
    series = Series("albaem")
    start = dict(message_id=1, version=1, message_type="series-start")
    series.one("AlbaemStart", [js(start)], start)
    for frame in range(10):
        stamp = 1704807770443944912 + frame * 10**8
        data = dict(message_id=2 + frame, version=1, message_type="data", frame_number=frame)
        data |= dict(timestamp=stamp / 10**9, acquisition_timestamp=stamp)
        data |= {f"channel{n}": -2.8171e-11 * n + frame * 1e-13 for n in range(1, 5)}
        series.one("AlbaemData", [js(data)], data)
    flags = {"read_overflow": False, "memory_overflow": False}
    end = dict(message_id=12, version=1, message_type="series-end", detector_specific=flags)
    series.one("AlbaemEnd", [js(end)], end)
    return series


def pcap():
    """Rows come in batches; each row is an item, written anew."""
    series, rows = Series("PCAP"), 0
    start = dict(message_id=1, version=1, message_type="series-start", arm_time="2024-10-07T08:49:10.627000+00:00")
    series.one("PCAPStart", [js(start)], start)
    for number, count in enumerate([3, 1, 5, 2]):
        data = dict(message_id=2 + number, version=1, message_type="data", frame_number=rows)
        columns = {
            "PCAP.BITS2.Value": [33554401 + rows + n for n in range(count)],
            "PCAP.TS_TRIG.Value": [0.43175968 + 0.1 * (rows + n) for n in range(count)],
            "INENC1.VAL.Mean": [-12.0 - rows - n for n in range(count)],
            "COUNTER1.OUT.Diff": [None if n else 592910919 for n in range(count)],
        }
        # A scalar stands in each of the rows.
        series.send(js(data | {"batch": number} | columns))
        for row in range(count):
            fields = data | {"frame_number": rows + row, "batch": number}
            fields |= {name: values[row] for name, values in columns.items()}
            series.item([json.dumps(fields, separators=(",", ":")).encode()], "PCAPData", fields)
        rows += count
    end = dict(message_id=6, version=1, message_type="series-end")
    series.one("PCAPEnd", [js(end)], end)
    return series


def contrast():
    """What the acquisition software of a beamline publishes: dictionaries with arrays, and its heartbeat, which is no item."""
    series = Series("contrast")

    def send(name, protocol=None, **fields):
        series.one(name, [pickle.dumps(fields, protocol)], fields)

    series.send(pickle.dumps({"status": "heartbeat"}))
    scan = dict(path="/data/visitors/20240101/raw", scannr=2, description="mesh sx -2 2 4 sy -2 2 4 eiger 0.1")
    send("ContrastStarted", status="started", **scan, snapshot={"energy": 9000.0, "sx": -2, "gap": np.float64(6.25)})
    for n in range(9):
        image = noise(20 + n, [1, 512, 515], "uint16")
        eiger = {"frames": image, "thumbs:": None, "type": "Link", "path": "entry/measurement/eiger"}
        waveform = np.asfortranarray(noise(40 + n, [4, 300], "float64"))
        motor, panda = np.array([-2.0 + n]), {"wave": waveform}
        send("ContrastRunning", n % 6, status="running", dt=0.125 * n, sx=motor, eiger=eiger, panda=panda)
        series.send(pickle.dumps({"status": "heartbeat"}))
    send("ContrastFinished", status="finished", **scan, snapshot={"energy": 9000.0})
    return series


def lecroy(continuous):
    """An oscilloscope: the traces of a sequence are one item, together with its start and its end."""
    series, channels = Series("lecroy_9fwdWp6Rq7"), [2, 4]
    segments, dtype = (1, "float32") if continuous else (10, "float64")

    def message(what, **fields):
        return dict(htype="msg", what=what, frame=0) | fields

    prepare, stop = message(0), message(3, frame=6, frames=6)
    series.one("LecroyPrepare", [js(prepare)], prepare)
    gathered = []
    for number in range(6):
        if not (continuous and number):
            start = message(1, ntriggers=-1 if continuous else segments, seqno=number, channels=channels)
            first = series.send(js(start))
        # In this mode the one start stands before each of the items.
        gathered, metas, data, times = first[:], [], [], []
        for channel in channels:
            meta = dict(htype="traces", ch=channel, ts=1740563614.96875 + number, frame=number)
            meta |= dict(shape=[segments, 2502], dtype=dtype, horiz_offset=-1e-07, horiz_interval=1.25e-11)
            trace = noise(60 + 10 * number + channel, [segments, 2502], dtype)
            stamps = [0.5 * n for n in range(segments)]
            gathered += series.send(js(meta), trace.tobytes(), pickle.dumps(stamps))
            metas, data, times = [*metas, {"is": "LecroyData"} | meta], [*data, trace], [*times, stamps]
        gathered += series.send(js(message(2)))
        series.item(gathered, "LecroyParsed", start | dict(meta=metas, data=data, timestamps=times))
    series.one("LecroyEnd", [js(stop)], dict(what=3, frame=6, frames=6))
    return series


def pandabox():
    """Two arms with other fields each. A message is a piece of the stream, as long as a read may be."""
    series, stream = Series("PCAP_RAW"), b""
    bits, stamp = "PCAP.BITS2 uint32 Value", "PCAP.TS_TRIG double Value scale: 8e-09 offset: 0 units: s"
    counter = "COUNTER1.OUT double Min scale: 1 offset: 0 units: "
    position = "SFP3_SYNC_IN.POS1 double Mean scale: 1 offset: 0 units: "
    arms = [
        ("2024-02-19T14:33:41.585", [bits, counter, stamp], [33554401, 0, 0.43175968]),
        ("2024-02-19T14:35:02.017", [stamp, position], [1.5, -592910919]),
    ]
    for time, fields, first in arms:
        lines = [f"arm_time: {time}Z", "missed: 0", "process: Scaled", "format: ASCII", "fields:"]
        header = "\n".join([*lines, *(f" {field}" for field in fields), "", ""]).encode()
        series.item([header], "PositionCapStart", {"arm_time": time + "000"})
        stream += header
        for n in range(5):
            row, values = [value + n for value in first], {}
            for field, value in zip(fields, row):
                name, kind, capture = field.split()[:3]
                name = f"{name}.{capture}"
                values[name] = {"is": "PositionCapField", "name": name, "type": kind}
                values[name]["value"] = float(value) if kind == "double" else value
            line = f" {' '.join(map(str, row))}\n".encode()
            series.item([line], "PositionCapValues", {"fields": values})
            stream += line
        end = b"END 5 Disarmed\n"
        series.item([end], "PositionCapEnd", {})
        # Between arms nothing is an item.
        stream += end + b"\n"
    for at in range(0, len(stream), 37):
        series.send(stream[at : at + 37])
    return series


def sardana():
    """Posts, path and body. They are written anew: the type first, then what each of that type has, then the rest."""
    series = Series("sardana")

    def post(path, name, first, body):
        series.send(path.encode(), js(body))
        fields = first | body
        series.item([json.dumps(fields, separators=(",", ":")).encode()], name, fields)

    columns = [{"name": "point_nb", "label": "#Pt No", "shape": []}, {"name": "ct01", "shape": [2]}]
    described = dict(serialno=20338, scandir="/data/visitors", title="ascan mot01 0 1 8 0.1")
    body = dict(estimatedtime=-2.65, column_desc=columns) | described
    post("/v1/data_desc", "SardanaDataDescription", dict(type="DataDescription") | described, body)
    for point in range(9):
        record = dict(point_nb=point, mot01=point / 8, ct01=[0.5 * point, None], timestamp=0.6101 + point)
        post("/v1/record_data", "SardanaRecordData", dict(type="RecordData", timestamp=record["timestamp"]), record)
        series.send(b"/v1/custom_data", js(message="in between"))
    post("/v1/record_end", "SardanaRecordEnd", dict(type="RecordEnd"), {"endtime": "2024-02-19"})
    return series


CASES = {
    "stins": stins,
    "xspress": xspress,
    "eiger_legacy": eiger_legacy,
    "eiger_v2": eiger_v2,
    "eiger_v2_damaged": eiger_v2_damaged,
    "albaem": albaem,
    "pcap": pcap,
    "contrast": contrast,
    "lecroy_sequential": lambda: lecroy(False),
    "lecroy_continuous": lambda: lecroy(True),
    "pandabox": pandabox,
    "sardana": sardana,
}


def main():
    series = CASES[sys.argv[1]]()
    with open(sys.argv[2], "wb") as file:
        for message in series.messages:
            cbor2.dump(message, file)
    print(json.dumps({"typ": series.typ, "messages": series.text(), "items": series.items}))


main()
