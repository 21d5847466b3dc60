"""Runs a dranspose ingester class of a site, or an HTTP application with such a class, and sends its items to the
ingester that started this process.

Standard input is a socket. It brings lines of JSON: first the settings, then
  {"run": STREAM, "mapping": N, "uuid": UUID, "active": [STREAM, ..]}   with the socket of that stream
  {"events": [[MASK, COUNT], ..], "mapping": N}                         bit P of a mask: the stream at position P
  {"finished": N}
It takes {"ready": true}, {"started": N} and {"failed": TEXT}. Its end, and the end of a stream's socket, stop the class.

A message on the socket of a stream has the frames of ZMTP. Its first part is a letter and a text: `r` the generator runs,
`i` and the type of an item, whose parts follow, `n` the generator has ended, `e` and the description of an exception.
"""

import asyncio
import collections
import contextlib
import ctypes
import importlib
import json
import logging
import os
import signal
import socket
import struct
import sys
import traceback
import uuid

# Bytes after which items are written, and the generators wait until the ingester has taken them.
FLUSH_BYTES = 64 * 1024
# Longest description of an exception, characters.
DESCRIPTION_MAX = 4000
# Time between two attempts to reach a source before the first event, seconds.
RETRY_SECONDS = 0.2
# Time for a started HTTP application to run its ingester, seconds.
ADOPT_SECONDS = 10


def describe(error):
    """Text of an exception and its frames, innermost first, on one line."""
    texts = ["".join(traceback.format_exception_only(type(error), error)).strip()]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename != "orchestrator_ingester.py":
            texts.append(f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}")
    return " | ".join(texts)[:DESCRIPTION_MAX]


class Control:
    """Standard input: lines of JSON in both directions, with sockets in one."""

    def __init__(self, channel):
        self.channel = channel
        self.text = bytearray()
        self.sockets = collections.deque()

    def read(self):
        """Objects that have arrived, or None at the end."""
        data, descriptors, _, _ = socket.recv_fds(self.channel, 65536, 16)
        self.sockets.extend(socket.socket(fileno=descriptor) for descriptor in descriptors)
        if not data:
            return None
        self.text += data
        *lines, rest = self.text.split(b"\n")
        self.text = bytearray(rest)
        return [json.loads(line) for line in lines]

    def write(self, **fields):
        try:
            self.channel.send(json.dumps(fields).encode() + b"\n")
        except OSError:
            # The end of the socket is read soon.
            pass


class Output:
    """Messages to the socket of one stream, many small ones in one write."""

    def __init__(self, loop, channel):
        channel.setblocking(False)
        self.loop, self.channel = loop, channel
        self.buffer = bytearray()
        self.scheduled, self.sending = False, None

    def write(self, letter, text="", frames=()):
        begin = len(self.buffer)
        try:
            self.encode(letter, text, frames)
        except BaseException:
            # Without this, the next message would be taken for the rest of this one.
            del self.buffer[begin:]
            raise
        if not self.scheduled and self.sending is None:
            # Runs when the generators have nothing ready, so that items which are ready at once travel together.
            self.scheduled = True
            self.loop.call_soon(self.flush)

    def encode(self, letter, text, frames):
        parts = [(letter + text).encode(), *frames]
        for at, part in enumerate(parts, 1):
            view = memoryview(getattr(part, "buffer", part))
            more = at < len(parts)
            if view.nbytes < 256:
                self.buffer += bytes((more, view.nbytes))
            else:
                self.buffer += struct.pack(">BQ", 2 | more, view.nbytes)
            self.buffer += view

    def flush(self):
        self.scheduled = False
        if self.buffer and self.sending is None:
            self.sending = self.loop.create_task(self.send())

    async def send(self):
        try:
            while self.buffer:
                data, self.buffer = self.buffer, bytearray()
                await self.loop.sock_sendall(self.channel, data)
        except OSError:
            # The ingester has closed the socket, which also ends the run.
            self.buffer.clear()
        finally:
            self.sending = None

    async def room(self):
        if len(self.buffer) >= FLUSH_BYTES:
            await self.drain()

    async def drain(self):
        self.flush()
        if self.sending is not None:
            await asyncio.shield(self.sending)


class Run:
    """One mapping: calls the generators of its streams, event by event, as the class itself would."""

    def __init__(self, site, number, order, former):
        self.site, self.number, self.former = site, number, former
        self.uuid, self.active = order["uuid"], order["active"]
        self.outputs, self.generators, self.first = {}, {}, {}
        self.trigger, self.pending = None, []
        self.events, self.wake, self.begun = collections.deque(), asyncio.Event(), False
        self.task, self.stopping, self.closed = None, False, False

    def add_stream(self, stream, channel):
        if self.stopping:
            channel.close()
            return
        self.outputs[stream] = Output(self.site.loop, channel)
        # Nothing is sent to this side: it becomes readable at its end.
        self.site.loop.add_reader(channel, self.stop)
        if self.task is None and set(self.outputs) == set(self.active):
            self.task = self.site.loop.create_task(self.run())

    def add_events(self, events):
        self.begun = True
        self.events.extend(events)
        self.wake.set()

    def stop(self):
        if self.stopping:
            return
        self.stopping = True
        if self.task is None:
            self.close()
        else:
            # The readers would run again and again until the task has ended.
            self.remove_readers()
            self.task.cancel()

    def remove_readers(self):
        for output in self.outputs.values():
            self.site.loop.remove_reader(output.channel)

    def close(self):
        if not self.closed:
            self.closed = True
            self.remove_readers()
            for output in self.outputs.values():
                output.channel.close()

    async def ended(self):
        if not self.closed:
            self.stop()
        if self.task is not None:
            await asyncio.wait([self.task])
        if self.former is not None:
            await self.former.ended()
            self.former = None

    async def run(self):
        try:
            if self.former is not None:
                await self.former.ended()
                self.former = None
            ingester = self.site.ingester
            ingester.state.mapping_uuid = uuid.UUID(self.uuid)
            ingester.active_streams = list(self.active)
            self.site.control.write(started=self.number)
            await self.ingest_and_report(ingester)
        except asyncio.CancelledError:
            pass
        finally:
            self.stopping = True
            self.close()

    async def ingest_and_report(self, ingester):
        try:
            await self.ingest(ingester)
        except StopAsyncIteration:
            await self.report("n")
        except Exception as error:
            traceback.print_exc()
            await self.report("e", describe(error))
        finally:
            await self.stop_sources(ingester)

    async def report(self, letter, text=""):
        for output in self.outputs.values():
            output.write(letter, text)
            await output.drain()

    async def ingest(self, ingester):
        self.generators = {stream: ingester.run_source(stream) for stream in self.active}
        software_trigger = getattr(ingester, "software_trigger", None)
        self.trigger = None if software_trigger is None else software_trigger()
        # Sources are opened now, so that they miss nothing between the mapping and its first event.
        self.first = {stream: asyncio.ensure_future(self.first_item(stream)) for stream in self.active}
        await asyncio.sleep(0)
        for output in self.outputs.values():
            output.write("r")
        while True:
            while not self.events:
                self.wake.clear()
                await self.wake.wait()
            mask, count = self.events.popleft()
            streams = [stream for stream in self.active if mask >> self.site.positions[stream] & 1]
            for _ in range(count):
                await self.event(streams)

    async def first_item(self, stream):
        """First item; a source that cannot be reached is tried again until the first event."""
        while True:
            begun = self.begun
            try:
                return await self.generators[stream].__anext__()
            except OSError:
                if begun:
                    raise
            await asyncio.sleep(RETRY_SECONDS)
            self.generators[stream] = self.site.ingester.run_source(stream)

    async def event(self, streams):
        items = [self.first.pop(stream, None) or self.generators[stream].__anext__() for stream in streams]
        if len(items) == 1:
            items = [await items[0]]
        else:
            self.pending = [asyncio.ensure_future(item) for item in items]
            items = await asyncio.gather(*self.pending)
        items = dict(zip(streams, items))
        if self.trigger is not None:
            try:
                items.update(next(self.trigger))
            except StopIteration:
                raise StopAsyncIteration from None
        for stream in streams:
            item = items[stream]
            if isinstance(item, self.site.software_triggered):
                raise LookupError(f"software_trigger() gave nothing for the stream {stream}")
            self.outputs[stream].write("i", item.typ, item.frames)
        for stream in streams:
            await self.outputs[stream].room()

    async def stop_sources(self, ingester):
        pending = [*self.first.values(), *self.pending]
        for item in pending:
            item.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for stream in self.active:
            try:
                await ingester.stop_source(stream)
            except Exception:
                traceback.print_exc()
        for generator in self.generators.values():
            try:
                await generator.aclose()
            except Exception:
                traceback.print_exc()


async def nothing(self, *args, **kwargs):
    """In place of methods that talk to Redis and workers, which is not the task of this process."""


def open_context(self):
    """In place of the method that also binds the port for workers."""
    import zmq.asyncio

    self.ctx = zmq.asyncio.Context()


def import_class(path):
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


def settings_class(ingester_class):
    """Settings of the class it inherits from, as dranspose chooses them; otherwise those of its nearest base class."""
    from dranspose import ingester, ingesters

    def known(one, module):
        found = getattr(module, one.__name__.replace("Ingester", "Settings"), None)
        return found if isinstance(found, type) and issubclass(found, ingester.IngesterSettings) else None

    found = known(ingester_class.__bases__[0], ingesters)
    for one in ingester_class.__mro__:
        found = found or known(one, sys.modules.get(one.__module__))
    return found or ingester.IngesterSettings


def replace_methods():
    """Base class of all ingesters, whose methods for Redis and workers are replaced; and the mark of a triggered item."""
    from dranspose.ingester import Ingester, IsSoftwareTriggered

    Ingester.open_socket = open_context
    Ingester.finish_work = Ingester.close = Ingester.publish_config = Ingester.register = nothing
    return Ingester, IsSoftwareTriggered


def create(settings):
    """Instance of the class, as dranspose's command line creates it."""
    ingester_class = import_class(settings["class"])
    chosen = settings_class(ingester_class)
    values = {
        "ingester_streams": list(settings["streams"]),
        "ingester_name": settings["name"],
        "ingester_url": settings["url"],
    }
    if settings["upstream_url"] is not None and "upstream_url" in chosen.model_fields:
        values["upstream_url"] = settings["upstream_url"]
    ingester = ingester_class(settings=chosen(**values))
    ingester.open_socket()
    return ingester


class Application:
    """An HTTP application (ASGI) and its server. The application creates its ingester itself, and runs it in a task."""

    def __init__(self, settings, base):
        import uvicorn

        self.name, loop = settings["class"], asyncio.get_running_loop()
        ingester = self.ingester = loop.create_future()

        async def run(self):
            if ingester.done():
                raise RuntimeError("the application runs a second ingester")
            self.open_socket()
            ingester.set_result(self)
            await loop.create_future()

        base.run = run
        # Its ingester reads its settings from the environment.
        os.environ["INGESTER_STREAMS"] = json.dumps(list(settings["streams"]))
        os.environ.update(INGESTER_NAME=settings["name"], INGESTER_URL=settings["url"])
        host, port = settings["listen"]
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, dualstack_ipv6=host == "::")
        application = import_class(self.name)
        self.server = uvicorn.Server(uvicorn.Config(application, host=host, port=port, log_level="info"))
        # The ingester decides when this process ends, not a signal.
        self.server.capture_signals = contextlib.nullcontext
        self.task = loop.create_task(self.server.serve(sockets=[listener]))

    async def adopt(self):
        """Ingester that the application runs."""
        left = ADOPT_SECONDS
        while not self.ingester.done():
            await asyncio.wait([self.ingester, self.task], timeout=1, return_when=asyncio.FIRST_COMPLETED)
            if self.task.done():
                await self.task
                raise RuntimeError(f"{self.name} has ended before it ran an ingester")
            left -= self.server.started
            if left <= 0 and not self.ingester.done():
                raise RuntimeError(f"{self.name} has started, but runs no ingester")
        return self.ingester.result()

    async def until(self, end):
        """Serves until `end` is done."""
        await asyncio.wait([end, self.task], return_when=asyncio.FIRST_COMPLETED)
        if self.task.done():
            await self.task
            raise RuntimeError(f"the HTTP server of {self.name} has ended")

    async def close(self):
        self.server.should_exit = True
        await self.task


class Site:
    """The instance of the class, and the mapping that uses it."""

    def __init__(self, loop, control, settings, ingester, software_triggered):
        self.loop, self.control = loop, control
        self.positions = settings["streams"]
        self.ingester, self.software_triggered = ingester, software_triggered
        self.run = None
        # Events of a mapping whose run has not begun.
        self.early = (0, [])
        self.end = loop.create_future()

    def readable(self):
        orders = self.control.read()
        if orders is None:
            self.loop.remove_reader(self.control.channel)
            if not self.end.done():
                self.end.set_result(None)
            return
        for order in orders:
            self.take(order)

    def take(self, order):
        if "run" in order:
            self.begin(order, self.control.sockets.popleft())
        elif "events" in order:
            number = order["mapping"]
            if self.run is not None and self.run.number == number:
                self.run.add_events(order["events"])
            elif self.run is None or number > self.run.number:
                self.early = (number, (self.early[1] if self.early[0] == number else []) + order["events"])
        elif self.run is not None and self.run.number == order["finished"]:
            self.loop.create_task(self.finish())

    def begin(self, order, channel):
        number = order["mapping"]
        if self.run is None or self.run.number < number:
            self.run = Run(self, number, order, self.run)
            early, self.early = self.early, (0, [])
            if early[0] == number:
                self.run.add_events(early[1])
        if self.run.number == number:
            self.run.add_stream(order["run"], channel)
        else:
            channel.close()

    async def finish(self):
        try:
            await self.ingester.finish_work()
        except Exception:
            traceback.print_exc()


async def main(control, settings):
    base, software_triggered = replace_methods()
    application = Application(settings, base) if settings["listen"] else None
    ingester = create(settings) if application is None else await application.adopt()
    loop = asyncio.get_running_loop()
    site = Site(loop, control, settings, ingester, software_triggered)
    loop.add_reader(control.channel, site.readable)
    control.write(ready=True)
    await (site.end if application is None else application.until(site.end))
    if site.run is not None:
        await site.run.ended()
    await (ingester if application is None else application).close()


def begin(channel):
    control = Control(channel)
    orders = []
    while not orders:
        orders = control.read()
        if orders is None:
            return 0
    settings = orders[0]
    death_signal = 1
    ctypes.CDLL(None).prctl(death_signal, signal.SIGKILL)
    if os.getppid() != settings["parent"]:
        return 0
    # Standard input is the socket, and standard output is read by nobody.
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)
    # A service manager may signal the whole unit; the ingester decides when this process ends.
    signal.signal(signal.SIGTERM, lambda *_: None)
    level = os.environ.get("LOG_LEVEL", "").upper()
    # The ingester accepts levels that Python does not know, such as TRACE.
    logging.basicConfig(level=level if isinstance(logging.getLevelName(level), int) else "INFO")
    try:
        asyncio.run(main(control, settings))
    except Exception as error:
        traceback.print_exc()
        control.write(failed=describe(error))
        return 1
    return 0


sys.exit(begin(control))
