"""An HTTP application as a site writes it, for the tests of applications in Python: each posted text is an item."""

import asyncio
from contextlib import asynccontextmanager

import zmq
from dranspose.event import StreamData
from dranspose.helpers.utils import cancel_and_wait
from dranspose.ingester import Ingester
from fastapi import FastAPI, Request


class PostedIngester(Ingester):
    """Texts in the order in which they were posted."""

    def __init__(self, settings=None):
        super().__init__(settings=settings)
        self.posted = asyncio.Queue()

    async def run_source(self, stream):
        while True:
            yield StreamData(typ="POSTED", frames=[zmq.Frame(await self.posted.get())])


@asynccontextmanager
async def lifespan(app):
    app.state.ingester = PostedIngester()
    running = asyncio.create_task(app.state.ingester.run())
    yield
    await cancel_and_wait(running)
    await app.state.ingester.close()


app = FastAPI(lifespan=lifespan)
idle = FastAPI()


@app.post("/text")
async def post_text(request: Request):
    await app.state.ingester.posted.put(await request.body())
