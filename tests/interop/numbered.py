"""A worker that takes one stream from several ingesters: it matches their messages by event number.

dranspose 0.2.0 reads each stream from one ingester. Everything else is its own worker.
"""

import json

import redis.exceptions
import zmq.asyncio
from dranspose.event import EventData, InternalWorkerMessage
from dranspose.protocol import RedisKeys, WorkAssignmentList
from dranspose.worker import Worker


class NumberedWorker(Worker):
    """`received` has the streams of each event that is not processed yet."""

    async def manage_assignments(self):
        key, last, self.received = RedisKeys.assigned(self.state.mapping_uuid), 0, {}
        while True:
            try:
                entries = await self.redis.xread({key: last}, block=1000)
            except redis.exceptions.ConnectionError:
                return
            for last, entry in entries[key][0] if key in entries else []:
                for assignment in WorkAssignmentList.validate_json(entry["data"]):
                    streams = {s for s, workers in assignment.assignments.items() if self.state.name in workers}
                    if streams:
                        await self.assignment_queue.put((assignment.event_number, streams))

    async def poll_internals(self, wanted):
        event, streams = wanted
        while set(self.received.get(event, {})) != streams:
            poller = zmq.asyncio.Poller()
            for ingester in self._ingesters.values():
                poller.register(ingester.socket, zmq.POLLIN)
            # Ingesters that connect meanwhile are polled a second later.
            for socket, _ in await poller.poll(1000):
                self.keep(await socket.recv_multipart(copy=False))
        return [zmq.POLLIN]

    def keep(self, parts):
        header, frames = json.loads(parts[0].bytes), iter(parts[1:])
        for data in header["streams"].values():
            data["frames"] = [next(frames) for _ in range(data["length"])]
        message = InternalWorkerMessage.model_validate(header)
        of_event = self.received.setdefault(message.event_number, {})
        assert not set(of_event) & set(message.streams), f"event {message.event_number} came twice"
        of_event.update(message.streams)

    async def build_event(self, wanted):
        return EventData(event_number=wanted[0], streams=self.received.pop(wanted[0]))
