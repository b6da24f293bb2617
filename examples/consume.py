"""Consuming with a listener that fails on one message and gets it again a second later.

    python examples/consume.py [--namesrv HOST:PORT]

A warehouse ships parcels. One of them has no label at first: its message goes back to the broker,
while the others are consumed. A message that fails 16 times goes to the dead-letter topic,
%DLQ%warehouse.
"""

from __future__ import annotations

import argparse
import asyncio

from pyrmq.aio import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage, ReconsumeLater


async def main(namesrv: str) -> None:
    async with Producer("shop", namesrv=namesrv) as producer:
        parcels = [Message("Parcels", b"1 book", keys=f"parcel-{n}") for n in range(1, 6)]
        missing = {(await producer.send(parcel)).msg_id for parcel in parcels}
    all_shipped = asyncio.Event()

    async def ship(message: ReceivedMessage) -> None:
        """Returning acknowledges the message. Up to `concurrency` calls run at a time."""
        (parcel,) = message.keys
        if parcel == "parcel-3" and message.reconsume_times == 0:
            print("parcel-3: no label, later")
            # Any exception sends it back, first for ten seconds; this one chooses the delay.
            raise ReconsumeLater("no label", delay_level=1)
        print(f"{parcel}: shipped, attempt {message.reconsume_times + 1}")
        # At least once: a message may come twice, so a plain counter would be wrong.
        missing.discard(message.msg_id)
        if not missing:
            all_shipped.set()

    async with PushConsumer(
        "warehouse",
        {"Parcels": "*"},
        namesrv=namesrv,
        listener=ship,
        concurrency=8,
        consume_from=ConsumeFrom.FIRST_OFFSET,  # the default for a new group is the end
    ):
        await all_shipped.wait()  # in a service: await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
