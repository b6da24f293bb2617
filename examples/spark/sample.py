"""A sample store: a shop with orders, payments in transactions, a consumer that is behind, dead
letters and traces. An embedded broker writes it and stops.

    python examples/spark/sample.py STORE
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import trio

import pyrmq.testing
from pyrmq import (
    ConsumeFrom,
    Message,
    Producer,
    PushConsumer,
    SendResult,
    TransactionalProducer,
    TransactionState,
)

ORDERS, PAYMENTS, TRACE = 600, 30, 50
CONSUMED = 400
DEAD = 3
GROUP = "shipping"
OUTCOMES = (TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN)


@dataclass(frozen=True)
class Sample:
    """The contents of the store: the place of each order, by number."""

    store: Path
    orders: list[SendResult]


def order(number: int) -> Message:
    size = "large" if number % 10 == 0 else "small"
    body = b"%d books" % number + b"." * (2000 if size == "large" else 20)
    keys = f"order-{number} customer-{0 if number % 2 else number + 1}"
    return Message("Orders", body, tags=size, keys=keys)


def traced(number: int, sent: SendResult) -> bytes:
    """The trace of a send and its consumption, as clients write it. [TraceDataEncoder]"""
    time, cost = 1_700_000_000_000 + number, number % 10 + 1
    request = f"R{number}"
    good = str(number % 25 != 0).lower()
    records = (
        ("Pub", time, "DefaultRegion", "shop", "Orders", sent.msg_id, "null", "null",
         "127.0.0.1:10911", 20, cost, 0, sent.offset_msg_id, "true"),
        ("SubBefore", time + cost + 5, "DefaultRegion", GROUP, request, sent.msg_id, 0, "null"),
        ("SubAfter", request, sent.msg_id, 3 * cost, good, "null", 0, time + 4 * cost + 5, GROUP),
    )  # fmt: skip
    return "".join("\x01".join(map(str, record)) + "\x02" for record in records).encode()


class Bank:
    """Commits the first payment, rolls back the second, leaves the third open, and so on."""

    def execute_local_transaction(self, message: Message, number: int) -> TransactionState:
        return OUTCOMES[number % 3]

    def check_local_transaction(self, message: object) -> TransactionState:
        return TransactionState.UNKNOWN


async def consume(namesrv: str) -> None:
    """Consumes so many messages and stops, so that the group is behind."""
    seen = 0
    async with PushConsumer(
        GROUP, {"Orders": "*"}, namesrv=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        async for message in consumer:
            consumer.acknowledge(message)
            seen += 1
            if seen == CONSUMED:
                return


async def fill(store: Path) -> Sample:
    # The broker does not ask about undecided halves here: they stay pending.
    settings = {"transaction_check_interval": 3_600_000}
    orders = []
    async with pyrmq.testing.broker(store, **settings) as server:
        async with Producer("shop", namesrv=server.namesrv) as producer:
            for number in range(ORDERS):
                orders.append(await producer.send(order(number)))
            for number, sent in enumerate(orders[:TRACE]):
                await producer.send(Message("RMQ_SYS_TRACE_TOPIC", traced(number, sent)))
            for number, sent in enumerate(orders[:DEAD]):
                properties = {
                    "UNIQ_KEY": sent.msg_id,
                    "RETRY_TOPIC": "Orders",
                    "ORIGIN_MESSAGE_ID": sent.offset_msg_id,
                }
                dead = Message(f"%DLQ%{GROUP}", order(number).body, properties=properties)
                await producer.send(dead)
        async with TransactionalProducer("bank", Bank(), namesrv=server.namesrv) as bank:
            for number in range(PAYMENTS):
                message = Message("Payments", b"%d coins" % number, keys=f"payment-{number}")
                await bank.send_in_transaction(message, number)
        await consume(server.namesrv)
    return Sample(store, orders)


def make(store: Path) -> Sample:
    """Writes the store; `store` must not exist or be empty. It runs in a thread, because a notebook
    has its own event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(trio.run, fill, store).result()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    make(Path(sys.argv[1]))
    print(f"a store with {ORDERS} orders: {sys.argv[1]}")
