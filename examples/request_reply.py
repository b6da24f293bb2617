"""Request and reply: a message as a request, and its reply.

    python examples/request_reply.py [--namesrv HOST:PORT]

A shop asks for prices. It need not know which member of the group "price-service" answers, and
where that runs. `request` raises RequestTimeoutError if no reply comes in time.
"""

from __future__ import annotations

import argparse
import asyncio

from pyrmq import reply_to
from pyrmq.aio import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage

PRICES = {b"book": b"12.50", b"pen": b"1.20"}


async def main(namesrv: str) -> None:
    async with Producer("price-repliers", namesrv=namesrv) as replier:

        async def answer(message: ReceivedMessage) -> None:
            price = PRICES.get(message.body, b"not for sale")
            await replier.send(reply_to(message, price))

        async with (
            PushConsumer(
                "price-service",
                {"PriceRequests": "*"},
                namesrv=namesrv,
                listener=answer,
                consume_from=ConsumeFrom.FIRST_OFFSET,
            ),
            Producer("shop", namesrv=namesrv) as shop,
        ):
            for item in (b"book", b"pen", b"boat"):
                reply = await shop.request(Message("PriceRequests", item), timeout=10)
                print(f"{item.decode()}: {reply.body.decode()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
