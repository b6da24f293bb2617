"""Thousands of small messages in few requests, and a listener that gets many at a time.

    python examples/batch.py [--namesrv HOST:PORT]

Sends a night's meter readings from an iterator, so they are never in memory all at once. Each batch
is stored as a whole or not at all.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator

from pyrmq.aio import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage

READINGS = 2000


def readings() -> Iterator[Message]:
    """In a real program they come from a file or a database cursor."""
    for number in range(READINGS):
        yield Message("MeterReadings", b"%d kWh" % (number % 97), keys=f"meter-{number}")


async def main(namesrv: str) -> None:
    # Brokers accept batches of at most 4 MiB, which is also the default of the producer.
    async with Producer("utility", namesrv=namesrv, max_message_size=128 << 10) as producer:
        results = await producer.send_batches(readings())
    missing = {msg_id for result in results for msg_id in result.msg_id.split(",")}
    print(f"{len(missing)} readings sent in {len(results)} batches")
    calls = 0
    all_stored = asyncio.Event()

    async def store(messages: list[ReceivedMessage]) -> None:
        """One INSERT for up to 32 messages of a queue; `return n` acknowledges only the first n."""
        nonlocal calls
        calls += 1
        missing.difference_update(message.msg_id for message in messages)
        if not missing:
            all_stored.set()

    async with PushConsumer(
        "billing",
        {"MeterReadings": "*"},
        namesrv=namesrv,
        listener=store,
        batch_size=32,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        await all_stored.wait()
    print(f"all of them stored in {calls} calls")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
