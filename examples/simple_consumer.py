"""Receiving one call at a time: jobs that take as long as they take.

    python examples/simple_consumer.py [--namesrv HOST:PORT]

Workers convert films. A film that a worker has received is invisible to the others for a while; the
worker asks for more time if it needs it. One worker dies in the middle of its work, and another one
gets the film when its time is over.
"""

from __future__ import annotations

import argparse
import asyncio

from pyrmq.aio import ConsumeFrom, Message, Producer, SimpleConsumer
from pyrmq.errors import InvalidHandleError


async def main(namesrv: str) -> None:
    async with Producer("studio", namesrv=namesrv) as producer:
        for film in ("short", "long", "broken"):
            await producer.send(Message("Films", film.encode(), keys=film))

    async with SimpleConsumer(
        "converters", {"Films": "*"}, namesrv=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        done = 0
        while done < 3:
            for film in await consumer.receive(1, invisible_duration=2, timeout=10):
                name = film.body.decode()
                if name == "broken" and film.reconsume_times == 0:
                    print("broken: its worker dies")
                    continue  # nothing is acknowledged
                if name == "long":
                    await consumer.change_invisible(film, 30)
                    await asyncio.sleep(2.5)
                try:
                    await consumer.ack(film)
                except InvalidHandleError:
                    print(f"{name}: too late, somebody else has it")
                    continue
                done += 1
                print(f"{name}: converted, attempt {film.reconsume_times + 1}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
