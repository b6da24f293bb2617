"""Timer messages, their recall, and priorities, through `Producer`."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from pyrmq.client import ConsumeFrom, Producer, PushConsumer
from pyrmq.errors import IllegalOperationError, MessageIllegalError, NoPermissionError
from pyrmq.model.message import Message
from pyrmq.model.recall import RecallHandle
from pyrmq.server import Running
from tests.support.consumed import bodies, take
from tests.support.fixtures import Serve

pytestmark = pytest.mark.usefixtures("deadline")

PRECISION_MS = 1000
"""Apache's broker may deliver a message so much too early."""
THREE_DAYS = 3 * 86_400


async def test_a_delay_and_a_time(embedded: Running) -> None:
    """None comes before its time, and what is not delayed comes first."""
    at = datetime.now(UTC) + timedelta(seconds=3)
    async with (
        Producer("pg", namesrv=embedded.namesrv) as producer,
        PushConsumer(
            "g", {"Later": "*"}, namesrv=embedded.namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
        ) as consumer,
    ):
        sent = [
            await producer.send(Message("Later", b"at", deliver_at=at)),
            await producer.send(Message("Later", b"delay", delay=2.5, tags="a", keys="k")),
            await producer.send(Message("Later", b"over", deliver_at=time.time() - 5)),
            await producer.send(Message("Later", b"now")),
        ]
        first = await take(consumer, 2)
        later = await take(consumer, 2)
    assert bodies(first) == [b"now", b"over"]
    assert bodies(later) == [b"at", b"delay"]
    by_body = {m.body: m for m in later}
    due = {b"at": at.timestamp() * 1000, b"delay": by_body[b"delay"].born_timestamp + 2500}
    for body, message in by_body.items():
        assert message.store_timestamp >= due[body] - PRECISION_MS
    assert (by_body[b"delay"].tags, by_body[b"delay"].keys) == ("a", ["k"])
    assert {m.msg_id for m in later} == {sent[0].msg_id, sent[1].msg_id}
    for result in sent[:2]:
        assert result.recall_handle is not None
        handle = RecallHandle.parse(result.recall_handle)
        assert (handle.topic, handle.broker_name) == ("Later", result.queue.broker_name)
        assert handle.key == result.msg_id
    assert sent[2].recall_handle is None
    assert sent[3].recall_handle is None


async def test_a_delay_that_is_too_long(embedded: Running) -> None:
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        await producer.send(Message("Later", b"x", delay=THREE_DAYS - 60))
        for message in (
            Message("Later", b"x", delay=THREE_DAYS + 60),
            Message("Later", b"x", deliver_at=time.time() + THREE_DAYS + 60),
        ):
            with pytest.raises(MessageIllegalError, match="max delay"):
                await producer.send(message)


async def test_a_recall(serve: Serve) -> None:
    async with (
        serve(recall_message_enable=True, timer_wheel_enable=True) as server,
        Producer("pg", namesrv=server.namesrv) as producer,
        Producer("other", namesrv=server.namesrv) as other,
        PushConsumer(
            "g", {"Recalled": "*"}, namesrv=server.namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
        ) as consumer,
    ):
        first = await producer.send(Message("Recalled", b"recalled", delay=4))
        await producer.send(Message("Recalled", b"stays", delay=4))
        assert first.recall_handle is not None
        assert await other.recall("Recalled", first.recall_handle) == first.msg_id
        assert await producer.recall("Recalled", first.recall_handle) == first.msg_id
        await producer.send(Message("Recalled", b"after", delay=6))
        got = await take(consumer, 2)
        assert bodies(got) == [b"after", b"stays"]
        with pytest.raises(IllegalOperationError, match="its time is over") as late:
            await producer.recall("Recalled", first.recall_handle)
    assert (late.value.code, late.value.answered) == (604, True)


async def test_recalls_are_off_unless_a_broker_says_so(embedded: Running) -> None:
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        sent = await producer.send(Message("Kept", b"x", delay=60))
        assert sent.recall_handle is not None
        with pytest.raises(NoPermissionError, match="recallMessageEnable=true"):
            await producer.recall("Kept", sent.recall_handle)


async def test_a_priority_is_the_queue(embedded: Running) -> None:
    """Without an answer that says so the producer would believe that its choice was taken."""
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        last = len(await producer.queues("Urgent")) - 1
        queues = [
            (await producer.send(Message("Urgent", b"x", priority=n))).queue.queue_id
            for n in (0, 1, last, last + 5, (1 << 31) - 1)
        ]
    assert queues == [0, 1, last, last, last]
