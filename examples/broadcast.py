"""Broadcasting: every member of a group gets every message.

    python examples/broadcast.py [--namesrv HOST:PORT]

Each web server of a shop keeps prices in memory; each of them must get a changed price. Each
member keeps its own offsets, in a file.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from pyrmq.aio import ConsumeFrom, Message, MessageModel, Producer, PushConsumer

PRICES = {"book": "12.50", "pen": "1.20", "map": "7.90"}


async def web_server(namesrv: str, name: str, offsets: Path, began: int) -> None:
    cache: dict[str, str] = {}
    async with PushConsumer(
        "web-servers",
        {"Prices": "*"},
        namesrv=namesrv,
        message_model=MessageModel.BROADCASTING,
        instance_name=name,  # members on one machine need different names for their files
        offset_folder=offsets,  # default: ~/.rocketmq_offsets
        consume_from=ConsumeFrom.TIMESTAMP,  # the time when this server loaded the prices
        consume_timestamp=began,
    ) as consumer:
        async for message in consumer:
            cache[message.keys[0]] = message.body.decode()
            if cache == PRICES:
                await consumer.acknowledge(message)
                break
    print(f"{name}: {dict(sorted(cache.items()))}")


async def main(namesrv: str) -> None:
    began = time.time_ns() // 1_000_000
    with TemporaryDirectory(prefix="pyrmq-") as folder:
        async with Producer("prices", namesrv=namesrv) as producer, asyncio.TaskGroup() as tasks:
            for name in ("web-1", "web-2"):
                tasks.create_task(web_server(namesrv, name, Path(folder), began))
            for item, price in PRICES.items():
                await producer.send(Message("Prices", price.encode(), keys=item))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
