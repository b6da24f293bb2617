"""Namespaces: tenants that use the same names on one broker, each with topics of its own.

    python examples/namespace.py [--namesrv HOST:PORT]

Two shops run the same program. For brokers its topic is `shop-a%Orders` for one of them and
`shop-b%Orders` for the other, and neither gets the other's messages.
"""

from __future__ import annotations

import argparse
import asyncio

from pyrmq.aio import ConsumeFrom, Message, Producer, PushConsumer


async def run_shop(namesrv: str, shop: str) -> None:
    async with Producer("orders", namesrv=namesrv, namespace=shop) as producer:
        body = f"an order of {shop}".encode()
        sent = await producer.send(Message("Orders", body))
    async with PushConsumer(
        "shipping",
        {"Orders": "*"},
        namesrv=namesrv,
        namespace=shop,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ) as consumer:
        async for message in consumer:
            print(f"{message.topic} of {shop}: {message.body.decode()}")
            if message.msg_id == sent.msg_id:
                await consumer.acknowledge(message)
                break


async def main(namesrv: str) -> None:
    for shop in ("shop-a", "shop-b"):
        await run_shop(namesrv, shop)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
