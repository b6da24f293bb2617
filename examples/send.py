"""Sending: acknowledged, many at a time, one-way; and errors.

    python examples/send.py [--namesrv HOST:PORT]

A shop sends its orders. The first send waits for the broker, as in a web request. Then a hundred
orders are sent concurrently, as in an import. Clicks are sent one-way, because they may be lost.
"""

from __future__ import annotations

import argparse
import asyncio

from pyrmq import PyrmqError
from pyrmq.aio import Message, Producer


async def main(namesrv: str) -> None:
    async with Producer("shop", namesrv=namesrv) as producer:
        # Returns when the broker has the message. After a failure it tries again by itself.
        result = await producer.send(Message("Orders", b"1 book", tags="created", keys="order-1"))
        print(f"order-1: {result.status}")

        # Many at a time: the sends share one connection.
        orders = [
            Message("Orders", b"1 pen", tags="created", keys=f"order-{number}")
            for number in range(2, 102)
        ]
        results = await asyncio.gather(*(producer.send(order) for order in orders))
        print(f"order-2 to order-101: {len(results)} sent, each of them acknowledged")

        # Returns when the bytes are sent. It does not learn whether they arrive.
        await producer.send_oneway(Message("Clicks", b"/books/42"))
        print("a click: sent, not acknowledged")

        # Every error is a PyrmqError; `retriable` says whether sending again can help.
        try:
            await producer.send(Message("No such topic!", b"1 book"))
        except PyrmqError as error:
            print(f"refused ({type(error).__name__}, retriable: {error.retriable})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
