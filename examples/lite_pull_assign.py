"""Reading chosen queues, starting at a chosen time, without sharing them in a group.

    python examples/lite_pull_assign.py [--namesrv HOST:PORT]

A report of the last hour's payments. It reads what there is, up to now. No offsets are written: the
next report begins where it wants to.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter

from pyrmq.aio import LitePullConsumer, Message, Producer

PAYMENTS = [("ann", 10), ("bob", 5), ("ann", 7), ("cid", 3), ("bob", 20)]


async def main(namesrv: str) -> None:
    async with Producer("payments", namesrv=namesrv) as producer:
        for customer, amount in PAYMENTS:
            await producer.send(Message("Ledger", b"%d" % amount, keys=customer))

    payments: dict[str, tuple[str, int]] = {}
    now = time.time_ns() // 1_000_000 + 1
    async with LitePullConsumer("report", namesrv=namesrv, auto_commit=False) as consumer:
        queues = await consumer.queues("Ledger")
        await consumer.assign(queues)
        left = 0
        for queue in queues:
            first = await consumer.offset_for_timestamp(queue, now - 3_600_000)
            left += await consumer.offset_for_timestamp(queue, now) - first
            await consumer.seek(queue, first)
        while left > 0:
            for message in await consumer.poll():
                # By id: a message of a retried send may be stored twice.
                payments[message.msg_id] = (message.keys[0], int(message.body))
                left -= 1
    paid: Counter[str] = Counter()
    for customer, amount in payments.values():
        paid[customer] += amount
    for customer, amount in sorted(paid.items()):
        print(f"{customer} paid {amount}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
