"""Message trace: when each message was sent and consumed, and by whom.

    python examples/trace.py [--namesrv HOST:PORT]

A shop and its accounting record what they do, in RocketMQ's form, in the topic RMQ_SYS_TRACE_TOPIC.
Consoles show the records, `pyrmq pipeline trace` makes tables of them; here they are read as
messages.
"""

from __future__ import annotations

import argparse
import asyncio

from pyrmq.aio import ConsumeFrom, Message, Producer, PushConsumer

PLACE_OF_KEYS = {"Pub": 7, "SubBefore": 7, "SubAfter": 5}
"""Records of the three kinds: sent, about to be consumed, consumed."""


async def main(namesrv: str) -> None:
    # Records are sent in the background, within five seconds and when the client closes.
    async with Producer("shop", namesrv=namesrv, trace=True) as producer:
        sent = await producer.send(Message("Invoices", b"12.50", keys="invoice-1"))
    await consume(namesrv, sent.msg_id)

    missing = set(PLACE_OF_KEYS)
    async with PushConsumer(
        "auditor",
        {"RMQ_SYS_TRACE_TOPIC": "*"},
        namesrv=namesrv,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ) as consumer:
        async for message in consumer:
            # Its keys are the ids and keys of the recorded messages.
            if sent.msg_id not in message.keys:
                continue
            for record in message.body.decode().rstrip("\x02").split("\x02"):
                kind, *fields = record.split("\x01")
                print(f"{kind} {fields[PLACE_OF_KEYS[kind] - 1]}")
                missing.discard(kind)
            if not missing:
                await consumer.acknowledge(message)
                break


async def consume(namesrv: str, last: str) -> None:
    async with PushConsumer(
        "accounting",
        {"Invoices": "*"},
        namesrv=namesrv,
        trace=True,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ) as consumer:
        async for message in consumer:
            await consumer.acknowledge(message)
            if message.msg_id == last:
                break


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
