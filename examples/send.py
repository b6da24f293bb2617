"""Sending: acknowledged, many at a time, one-way; and errors.

    python examples/send.py [--namesrv HOST:PORT]

A shop sends its orders. The first send waits for the broker, as in a web request. Then a hundred
orders are sent concurrently, as in an import. Clicks are sent one-way, because they may be lost.
"""

from __future__ import annotations

import argparse

import trio

from pyrmq import Message, Producer, PyrmqError, SendResult


async def main(namesrv: str) -> None:
    async with Producer("shop", namesrv=namesrv) as producer:
        # Returns when the broker has the message. After a failure it tries again by itself.
        result = await producer.send(Message("Orders", b"1 book", tags="created", keys="order-1"))
        print(f"order-1: {result.status}")

        # Many at a time: each send is a task, and all of them share one connection.
        results: list[SendResult] = []

        async def report(number: int) -> None:
            message = Message("Orders", b"1 pen", tags="created", keys=f"order-{number}")
            results.append(await producer.send(message))

        async with trio.open_nursery() as nursery:
            for number in range(2, 102):
                nursery.start_soon(report, number)
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
    trio.run(main, parser.parse_args().namesrv)
