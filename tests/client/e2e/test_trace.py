"""Message trace in a broker's trace topic: found by the keys of the message that it is of."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from pyrmq import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage
from tests.support.fixtures import Serve

pytestmark = pytest.mark.usefixtures("deadline")


async def test_consumer_trace(serve: Serve) -> None:
    options: Any = {"consume_from": ConsumeFrom.FIRST_OFFSET}
    async with serve(trace_topic_enable=True) as server:
        done = trio.Event()

        async def listener(message: ReceivedMessage) -> None:
            done.set()

        options["namesrv"] = server.namesrv
        async with (
            Producer("pg", namesrv=server.namesrv) as producer,
            PushConsumer("cg", {"T": "*"}, listener=listener, trace=True, **options),
        ):
            result = await producer.send(Message("T", b"body", keys="order-1"))
            with trio.fail_after(30):
                await done.wait()
        async with PushConsumer("reader", {"RMQ_SYS_TRACE_TOPIC": "*"}, **options) as consumer:
            with trio.fail_after(30):
                found = await anext(aiter(consumer))
    before, after = (r.split("\x01") for r in found.body.decode().split("\x02")[:-1])
    assert [before[0], *before[2:4], *before[5:]] == [
        "SubBefore", "DefaultRegion", "cg", result.msg_id, "0", "order-1",
    ]  # fmt: skip
    assert [after[0], *after[1:3], after[4]] == ["SubAfter", before[4], result.msg_id, "true"]
    assert found.keys == [result.msg_id, "order-1"]


@pytest.mark.parametrize("auto_batch", [False, True])
async def test_producer_trace(auto_batch: bool, serve: Serve) -> None:
    async with serve(trace_topic_enable=True) as server:
        async with Producer(
            "pg", namesrv=server.namesrv, trace=True, auto_batch=auto_batch
        ) as producer:
            result = await producer.send(Message("T", b"body", tags="a", keys="order-1"))
        async with PushConsumer(
            "reader",
            {"RMQ_SYS_TRACE_TOPIC": "*"},
            namesrv=server.namesrv,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ) as consumer:
            with trio.fail_after(30):
                found: ReceivedMessage = await anext(aiter(consumer))
    fields = found.body.decode().rstrip("\x02").split("\x01")
    assert (fields[0], *fields[3:6]) == ("Pub", "pg", "T", result.msg_id)
    assert fields[8] == f"{server.broker_address[0]}:{server.broker_address[1]}"
    assert fields[12:] == [result.offset_msg_id, "true"]
    assert result.msg_id in found.keys
    assert ("order-1" in found.keys) is not auto_batch
