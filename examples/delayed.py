"""A message that is delivered later.

    python examples/delayed.py [--namesrv HOST:PORT]

A cinema keeps seats for somebody who has to pay in time (here: in one second). The check is a
delayed message: it comes also when the process that wanted it is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from pyrmq.aio import ConsumeFrom, Message, Producer, PushConsumer

TIME_TO_PAY = 1  # seconds; any time up to three days


async def main(namesrv: str) -> None:
    async with Producer("cinema", namesrv=namesrv) as producer:
        check = Message("SeatChecks", b"row 7, seat 12", keys="booking-1", delay=TIME_TO_PAY)
        sent = await producer.send(check)
    print("booking-1: seats kept")
    async with PushConsumer(
        "seats", {"SeatChecks": "*"}, namesrv=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        async for message in consumer:
            waited = time.time() - message.born_timestamp / 1000
            print(f"{message.keys[0]}: not paid after {waited:.1f} s, seats are free again")
            if message.msg_id == sent.msg_id:
                await consumer.acknowledge(message)  # needed before a `break`
                break


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
