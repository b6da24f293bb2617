"""Messages in order: the steps of each order one after the other, many orders at a time.

    python examples/ordered.py [--namesrv HOST:PORT]

A sharding key sends all steps of an order to one queue; an orderly consumer takes each queue
strictly in order, one member of the group at a time.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import defaultdict

from pyrmq.aio import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage

STEPS = ("created", "paid", "packed", "shipped")
ORDERS = [f"order-{number}" for number in range(1, 6)]


async def main(namesrv: str) -> None:
    missing: set[str] = set()
    seen: defaultdict[str, list[str]] = defaultdict(list)
    all_seen = asyncio.Event()

    async with Producer("shop", namesrv=namesrv) as producer:

        async def live(order: str) -> None:
            for step in STEPS:  # sends the next step when the broker has this one
                message = Message("OrderSteps", step.encode(), keys=order)
                missing.add((await producer.send(message, sharding_key=order)).msg_id)

        await asyncio.gather(*(live(order) for order in ORDERS))

    async def follow(message: ReceivedMessage) -> None:
        """If it raises, it gets the same message again, before any later message of the queue."""
        if message.msg_id in missing:
            seen[message.keys[0]].append(message.body.decode())
        missing.discard(message.msg_id)
        if not missing:
            all_seen.set()

    async with PushConsumer(
        "tracking",
        {"OrderSteps": "*"},
        namesrv=namesrv,
        listener=follow,
        orderly=True,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        await all_seen.wait()
    for order in ORDERS:
        print(f"{order}: {', '.join(seen[order])}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
