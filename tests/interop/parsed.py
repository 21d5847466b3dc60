"""Code of workers that parse their events: records also the result of dranspose's own parser of
that type makes of it."""

import hashlib

import cbor2
import numpy as np
from dranspose.data.albaem import AlbaemPacket
from dranspose.middlewares import contrast, eiger_legacy, lecroy, pcap, sardana, stream1, xspress
from dranspose.middlewares.positioncap import PositioncapParser
from plain import plain
from recorder import Recorder, content


def of_eiger(data):
    """The parser leaves it to the worker's code to make an array of an image."""
    packet = eiger_legacy.parse(data)
    if packet.htype == "dimage-1.0":
        image = packet.data
        pixels = np.frombuffer(content(image["buffer"]), image["type"])
        image["buffer"] = pixels.reshape(image["shape"][::-1])
    return packet


def of_tag(_, tag):
    """Arrays of DECTRIS' Stream V2. A compressed one is left as it is, with a digest."""
    if tag.tag == 56500:
        algorithm, size, packed = tag.value
        return [algorithm, size, hashlib.sha1(packed).hexdigest()]
    if tag.tag == 40:
        shape, array = tag.value
        return array.reshape(shape) if isinstance(array, np.ndarray) else [shape, array]
    types = {69: "<u2", 70: "<u4", 85: "<f4"}
    return np.frombuffer(tag.value, types[tag.tag]) if isinstance(tag.value, bytes) else [tag.tag, tag.value]


def of_eiger_v2(data):
    """dranspose has no parser of this type."""
    (message,) = data.frames
    fields = cbor2.loads(content(message), tag_hook=of_tag)
    return {"is": f"EigerV2.{fields['type']}"} | fields


def of_albaem(data):
    """There is no parser of this type, but a model of its messages."""
    (message,) = data.frames
    return AlbaemPacket.validate_json(content(message))


class Parser(Recorder):
    """A new one for each mapping."""

    def __init__(self, parameters=None, context=None, state=None, **_):
        super().__init__(parameters, context, state)
        self.parsers = {
            "STINS": stream1.parse,
            "xspress": xspress.parse,
            "EIGER_LEGACY": of_eiger,
            "EIGER_V2": of_eiger_v2,
            "albaem": of_albaem,
            "PCAP": pcap.parse,
            "PCAP_RAW": self.of_pandabox,
            "contrast": contrast.parse,
            lecroy.LECROY_TYPE: lecroy.parse,
            "sardana": sardana.parse,
        }

    def of_pandabox(self, data):
        """The parser keeps the fields that a header record. It adds those of the next one to them, so each arm has its own."""
        if content(data.frames[0]).startswith(b"arm_time"):
            self.arm = PositioncapParser()
        return self.arm.parse(data)

    def record(self, data):
        return super().record(data) | {"parsed": plain(self.parsers[data.typ](data))}
