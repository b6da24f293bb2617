"""What the server of the browser tests has: topics, messages with hostile texts, a group that lags.

orders      20 messages with keys order-0 …, tags paid and open, bodies of JSON
hostile     messages whose keys, tags, properties and bodies try to be HTML and scripts
binary      bodies that are no text, and one of 1 MiB
orders-group   has consumed 5 of the orders, and lags
"""

from __future__ import annotations

import json

import trio

from pyrmq.client import ConsumeFrom, Producer, PushConsumer
from pyrmq.model.message import Message
from tests.support.consumed import take

SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
REVERSED = "safe\u202egnp.exe"
HOSTILE = (SCRIPT, IMAGE, "'\"&<>", "{{ 7*7 }}", "javascript:alert(1)", REVERSED, "\x1b[2J")
"""Texts that must be shown as texts."""
ORDERS = 20


def seed(namesrv: str) -> None:
    """Fills a new server."""
    trio.run(_seed, namesrv)


async def _seed(namesrv: str) -> None:
    async with Producer("seed-producers", namesrv=namesrv) as producer:
        for i in range(ORDERS):
            body = json.dumps({"order": i, "state": "paid" if i % 2 else "open"}).encode()
            tags = "paid" if i % 2 else "open"
            await producer.send(Message("orders", body, tags=tags, keys=f"order-{i}"))
        for i, text in enumerate(HOSTILE):
            properties = {"note": text, f"name{i}": IMAGE}
            await producer.send(
                Message("hostile", text.encode(), keys=f"hostile-{i}", properties=properties)
            )
        await producer.send(Message("binary", bytes(range(256)) * 4, keys="bytes"))
        await producer.send(Message("binary", b"x" * (1 << 20), keys="large"))
    consumer = PushConsumer(
        "orders-group", {"orders": "*"}, namesrv=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    )
    async with consumer:
        await take(consumer, 5)
