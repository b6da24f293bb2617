"""asyncio: a web service that sends orders and consumes their confirmations.

    python examples/asyncio_service.py [--namesrv HOST:PORT]

The structure is FastAPI's: `lifespan` opens the clients when the service starts, and handlers use
them. (In FastAPI: `FastAPI(lifespan=lifespan)`, with the clients in `app.state`.) This program
calls the handlers itself, without a web server.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pyrmq import ConsumeFrom
from pyrmq.aio import Message, Producer, PushConsumer, ReceivedMessage


class App:
    """What handlers and listeners share."""

    producer: Producer

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv
        self.confirmed: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[None]:
    async def confirm(message: ReceivedMessage) -> None:
        """A listener: it runs in the asyncio loop, beside the handlers."""
        app.confirmed[message.keys[0]].set()

    async with (
        Producer("web", namesrv=app.namesrv) as app.producer,
        PushConsumer(
            "confirmations",
            {"WebOrders": "*"},
            namesrv=app.namesrv,
            listener=confirm,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ),
    ):
        yield


async def post_order(app: App, number: int, item: str) -> str:
    """In FastAPI: `@app.post("/orders")`."""
    order = f"order-{number}"
    await app.producer.send(Message("WebOrders", item.encode(), keys=order))
    return order


async def get_confirmation(app: App, order: str) -> str:
    """In FastAPI: `@app.get("/orders/{order}/confirmation")`. The browser waits for the answer."""
    await asyncio.wait_for(app.confirmed[order].wait(), 60)
    return "confirmed"


async def main(namesrv: str) -> None:
    app = App(namesrv)
    async with lifespan(app):
        orders = await asyncio.gather(*(post_order(app, n, "book") for n in range(1, 6)))
        for order in orders:
            print(f"{order}: {await get_confirmation(app, order)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
