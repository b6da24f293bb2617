"""Selecting messages by tag: the broker sends a group only the messages that it wants.

    python examples/filter_tags.py [--namesrv HOST:PORT]

One topic has all that happens to payments. Accounting wants what was paid or paid back, the fraud
team what failed.
"""

from __future__ import annotations

import argparse
import asyncio

from pyrmq.aio import ConsumeFrom, Message, Producer, PushConsumer

HAPPENED = ["paid", "failed", "paid", "refunded", "failed", "paid"]


async def consume(namesrv: str, group: str, tags: str, missing: set[str]) -> None:
    async with PushConsumer(
        group, {"Payments": tags}, namesrv=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        async for message in consumer:
            print(f"{group}: {message.keys[0]} {message.tags}")
            missing.discard(message.msg_id)
            if not missing:
                await consumer.acknowledge(message)
                break


async def main(namesrv: str) -> None:
    sent: dict[str, set[str]] = {tag: set() for tag in HAPPENED}
    async with Producer("payments", namesrv=namesrv) as producer:
        for number, tag in enumerate(HAPPENED, 1):
            message = Message("Payments", b"10.00", tags=tag, keys=f"payment-{number}")
            sent[tag].add((await producer.send(message)).msg_id)
    await consume(namesrv, "accounting", "paid || refunded", sent["paid"] | sent["refunded"])
    await consume(namesrv, "fraud-team", "failed", sent["failed"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
