"""Polling, with offsets that are written when the work is done.

    python examples/lite_pull_subscribe.py [--namesrv HOST:PORT]

A nightly import moves page views into a warehouse. The members of its group share the queues;
a place is committed when its rows are stored, so that a crash repeats some and loses none.
"""

from __future__ import annotations

import argparse
import asyncio

from pyrmq.aio import ConsumeFrom, LitePullConsumer, Message, Producer


async def main(namesrv: str) -> None:
    missing = set()
    async with Producer("web", namesrv=namesrv) as producer:
        for number in range(100):
            view = Message("PageViews", b"/books/%d" % (number % 7))
            missing.add((await producer.send(view)).msg_id)

    warehouse: dict[str, bytes] = {}
    async with LitePullConsumer(
        "importer",
        {"PageViews": "*"},
        namesrv=namesrv,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        auto_commit=False,
        pull_batch_size=32,
    ) as consumer:
        while missing:
            messages = await consumer.poll(timeout=5)  # of one queue; empty after 5 seconds
            # By id: any consumer may get a message twice.
            warehouse |= {message.msg_id: message.body for message in messages}
            await consumer.commit()
            missing.difference_update(message.msg_id for message in messages)
        queues = {queue.queue_id: await consumer.committed(queue) for queue in consumer.assigned}
    print(f"{len(warehouse)} page views imported from {len(queues)} queues")
    print("the group goes on at", ", ".join(f"{n}:{queues[n]}" for n in sorted(queues)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
