"""A message for a time of its own, and one that is taken back.

    python examples/timers.py [--namesrv HOST:PORT]

A clinic reminds its patients of their appointments, here some seconds ahead. Who has cancelled is
not reminded. The broker has to permit that: recallMessageEnable=true.
"""

from __future__ import annotations

import argparse
import asyncio
from datetime import UTC, datetime, timedelta

from pyrmq.aio import ConsumeFrom, Message, Producer, PushConsumer


async def main(namesrv: str) -> None:
    now = datetime.now(UTC)
    async with Producer("clinic", namesrv=namesrv) as producer:
        handles: dict[str, str | None] = {}
        for name, seconds in ("ann", 3), ("bob", 2), ("cid", 2):
            at = now + timedelta(seconds=seconds)
            reminder = Message("Reminders", b"your appointment", keys=name, deliver_at=at)
            handles[name] = (await producer.send(reminder)).recall_handle
            print(f"{name}: to be reminded")
        handle = handles["cid"]
        if handle is not None:  # None: its time was over when the broker got it
            await producer.recall("Reminders", handle)
            print("cid: has cancelled")
    left = {"ann", "bob"}
    async with PushConsumer(
        "phones", {"Reminders": "*"}, namesrv=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        async for message in consumer:
            name = message.keys[0]
            print(f"{name}: {message.body.decode()}")
            await consumer.acknowledge(message)
            left.discard(name)
            if not left:
                break


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
