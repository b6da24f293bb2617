"""Message trace: when, and to which broker, each message was sent.

    python examples/trace.py [--namesrv HOST:PORT]

A shop records what it sends, in RocketMQ's form, in the topic RMQ_SYS_TRACE_TOPIC. Consoles show
the records, `pyrmq pipeline trace` makes tables of them; here they are read as messages.
"""

from __future__ import annotations

import argparse

import trio

from pyrmq import ConsumeFrom, Message, Producer, PushConsumer


async def main(namesrv: str) -> None:
    # Records leave in the background, within five seconds and when the producer is left.
    async with Producer("shop", namesrv=namesrv, trace=True) as producer:
        result = await producer.send(Message("Invoices", b"12.50", keys="invoice-1"))

    async with PushConsumer(
        "auditor",
        {"RMQ_SYS_TRACE_TOPIC": "*"},
        namesrv=namesrv,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ) as consumer:
        async for message in consumer:
            # The keys are the ids and keys of all messages that are recorded in it.
            if result.msg_id not in message.keys:
                continue
            for record in message.body.decode().rstrip("\x02").split("\x02"):
                kind, _time, _region, group, topic, _id, _tags, keys, *_ = record.split("\x01")
                print(f"{kind} {keys}: by group {group} to topic {topic}")
            consumer.acknowledge(message)
            break


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    trio.run(main, parser.parse_args().namesrv)
