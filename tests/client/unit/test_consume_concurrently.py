"""Listeners with several workers: what they fail on, what they are given, and how they end."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from pyrmq.client import ConsumeResult, PushConsumer, ReconsumeLater
from pyrmq.client.hooks import ConsumeOutcome
from pyrmq.errors import ClientError
from pyrmq.model.message import ReceivedMessage
from pyrmq.model.properties import decode_properties
from tests.client.members import after, client_id, consumer
from tests.support.scripted.groups import SEND, SEND_BACK, UPDATE_OFFSET, GroupBroker
from tests.support.scripted.script import times
from tests.support.scripted.streams import SILENCE
from tests.support.waiting import eventually_trio
from tests.support.wire import Command


class Seen:
    """A listener that fails on bodies that begin with `bad`, and notes each message."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.got: list[tuple[bytes, int]] = []
        self.failure = failure or ValueError("bad")

    async def __call__(self, message: ReceivedMessage) -> None:
        self.got.append((message.body, message.reconsume_times))
        if message.body.startswith(b"bad"):
            raise self.failure


async def test_failing_messages_go_back_and_hold_no_worker(
    alone: GroupBroker, clock: MockClock
) -> None:
    """More of them than workers: the others are consumed at once, and the offset moves on."""
    seen = Seen()
    async with consumer(listener=seen, concurrency=2):
        await after(1)
        sent = [alone.put(b"bad %d" % n, TAGS="t", UNIQ_KEY=f"K{n}") for n in range(25)]
        alone.put(b"good")
        await after(0.5)
        assert (b"good", 0) in seen.got
        assert len(seen.got) == 26
        assert [c.ext for c in sorted(alone.sent_back, key=lambda c: int(c.ext["offset"]))] == [
            {
                "offset": str(record.physical_offset),
                "group": "g",
                "delayLevel": "0",
                "originMsgId": f"K{n}",
                "originTopic": "T",
                "unitMode": "false",
                "maxReconsumeTimes": "16",
                "bname": "broker-a",
            }
            for n, record in enumerate(sent)
        ]
        await after(5)
        assert alone.offsets["g", "T", 0] == 26


async def test_a_body_that_cannot_be_decompressed_goes_back(
    alone: GroupBroker, clock: MockClock
) -> None:
    """Its listener fails when it reads it; nothing is acknowledged that nobody has seen."""
    seen = Seen()
    async with consumer(listener=seen):
        await after(1)
        bad = alone.put(b"this is no ZSTD", sys_flag=0x201)
        alone.put(b"good")
        await after(1)
        assert seen.got == [(b"good", 0)]
        assert [c.ext["offset"] for c in alone.sent_back] == [str(bad.physical_offset)]
        await after(5)
        assert alone.offsets["g", "T", 0] == 2


@pytest.mark.parametrize("answer", ["refuses", "is silent"])
async def test_what_the_broker_does_not_take_comes_again_here(
    alone: GroupBroker, answer: str, clock: MockClock
) -> None:
    alone.change[SEND_BACK] = times(2, lambda c: c.reply(1) if answer == "refuses" else SILENCE)
    alone.change[SEND] = lambda c: c.reply(14)
    seen = Seen()
    async with consumer(listener=seen, concurrency=1):
        await after(1)
        alone.put(b"bad")
        alone.put(b"good", queue=1)
        await after(0.1)
        assert sorted(seen.got) == [(b"bad", 0), (b"good", 0)]
        assert not alone.sent_back
        await after(60)
        assert seen.got[2:] == [(b"bad", 1), (b"bad", 2)]
        assert len(alone.sent_back) == 1
        assert alone.offsets["g", "T", 0] == 1


@pytest.mark.parametrize(
    ("back", "sent"),
    [
        ((12, "FLUSH_SLAVE_TIMEOUT"), None),
        ((10, None), None),
        ((1, "FLUSH_SLAVE_TIMEOUT"), None),  # as RocketMQ answers
        ((1, "no"), (11, "SLAVE_NOT_AVAILABLE")),
    ],
)
async def test_what_the_broker_has_less_safely_is_sent_back_once(
    alone: GroupBroker, back: Any, sent: Any, clock: MockClock
) -> None:
    """Its slave is slow, say: each time more would be one more message."""
    tries: Counter[int] = Counter()

    def answer(c: Command, said: Any) -> Command:
        tries[c.code] += 1
        return replace(c.reply(said[0]), remark=said[1])

    alone.change[SEND_BACK] = lambda c: answer(c, back)
    alone.change[SEND] = lambda c: answer(c, sent)
    seen = Seen()
    async with consumer(listener=seen):
        await after(1)
        alone.put(b"bad")
        await after(60)
        assert tries == {SEND_BACK: 1} | ({} if sent is None else {SEND: 1})
        assert seen.got == [(b"bad", 0)]
        assert alone.offsets["g", "T", 0] == 1


async def test_a_message_that_is_not_taken_back_holds_the_offset(
    alone: GroupBroker, clock: MockClock
) -> None:
    alone.change[SEND_BACK] = lambda c: c.reply(1)
    alone.change[SEND] = lambda c: c.reply(14)
    async with consumer(listener=Seen()):
        await after(1)
        alone.put(b"bad")
        alone.put(b"good")
        await after(200)
    assert alone.offsets["g", "T", 0] == 0


async def test_a_message_that_cannot_go_back_by_its_offset_is_sent_as_a_new_one(
    alone: GroupBroker, clock: MockClock
) -> None:
    """One of an inner batch, say. [sendMessageBackAsNormalMessage]"""
    sent: list[Any] = []
    alone.change[SEND_BACK] = lambda c: c.reply(1)
    alone.change[SEND] = lambda c: sent.append(c)
    async with consumer(listener=Seen()):
        await after(1)
        alone.put(b"bad", TAGS="t", UNIQ_KEY="K", TRAN_MSG="true")
        await after(6)
        assert alone.offsets["g", "T", 0] == 1
    (command,) = sent
    ext = command.ext
    assert (ext["b"], ext["j"], ext["l"], command.body) == ("%RETRY%g", "1", "16", b"bad")
    assert decode_properties(ext["i"]) == {
        "TAGS": "t", "UNIQ_KEY": "K", "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "K", "DELAY": "3",
    }  # fmt: skip


async def test_a_message_that_no_broker_can_store_does_not_hold_its_queue_for_ever(
    alone: GroupBroker, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Too long for what a retry adds, and for a dead letter: it is consumed here as often as may
    be, and then given up, with its place."""
    alone.change[SEND_BACK] = lambda c: c.reply(1)
    alone.change[SEND] = lambda c: c.reply(13)
    seen = Seen()
    async with consumer(listener=seen, max_reconsume_times=3):
        await after(1)
        alone.put(b"bad", UNIQ_KEY="K")
        alone.put(b"good")
        await after(60)
        assert [times for body, times in seen.got if body == b"bad"] == [0, 1, 2, 3]
        assert alone.offsets["g", "T", 0] == 2
    (line,) = [r.getMessage() for r in caplog.records if "given up" in r.getMessage()]
    assert "message K of group g" in line
    assert "offset 0 of " in line


async def test_attempts_and_levels(alone: GroupBroker, clock: MockClock) -> None:
    seen = Seen(ReconsumeLater("not yet", delay_level=5))
    async with consumer(listener=seen, max_reconsume_times=3):
        await after(1)
        alone.put(b"bad", topic="%RETRY%g", times=2, RETRY_TOPIC="T")
        await after(1)
    assert seen.got == [(b"bad", 2)]
    (back,) = alone.sent_back
    assert back.ext["delayLevel"] == "5"
    assert back.ext["originTopic"] == "T"
    assert back.ext["maxReconsumeTimes"] == "3"


@pytest.mark.parametrize(
    ("answer", "back"),
    [
        (None, 0),
        (ConsumeResult.SUCCESS, 0),
        (ConsumeResult.RECONSUME_LATER, 3),
        (2, 1),
        (0, 3),
        (99, 3),
        (-1, 3),
        (True, 3),
        (False, 3),
        ("RECONSUME_LATER", 3),
    ],
)
async def test_batches_and_the_index_of_what_is_acknowledged(
    alone: GroupBroker, answer: Any, back: int, clock: MockClock
) -> None:
    sizes = []
    for n in range(3):
        alone.put(b"%d" % n)

    async def listener(messages: list[ReceivedMessage]) -> Any:
        sizes.append(len(messages))
        return answer

    async with consumer(listener=listener, batch_size=8):
        await after(1)
    assert sizes == [3]
    given_back = sorted(c.ext["offset"] for c in alone.sent_back)
    assert given_back == ["0", "100", "200"][3 - back :]
    assert alone.offsets["g", "T", 0] == 3


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    "answer",
    [False, True, 0, 1, "RECONSUME_LATER", "", ConsumeOutcome.FAILED, [], ReconsumeLater()],
)
async def test_what_is_no_answer_is_a_failure(
    alone: GroupBroker,
    orderly: bool,
    plain: bool,
    answer: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Other languages' clients return numbers, and programs False: that acknowledges nothing."""
    times = 0

    def listener(message: ReceivedMessage) -> Any:
        nonlocal times
        times += 1
        return answer

    async def coroutine(message: ReceivedMessage) -> Any:
        return listener(message)

    alone.put(b"x", UNIQ_KEY="K1", KEYS="order-7")
    called = listener if plain else coroutine
    async with consumer(listener=called, orderly=orderly, suspend_time=0.01):
        if orderly:
            await eventually_trio(lambda: times > 1, "the message again")
        else:
            await eventually_trio(lambda: alone.sent_back, "sent back")
    assert alone.offsets["g", "T", 0] == (not orderly)
    record = next(r for r in caplog.records if "listener of group" in r.getMessage())
    assert "group g failed on message K1 of topic T (" in record.getMessage()
    assert "keys order-7" in record.getMessage()
    assert record.exc_info is not None
    assert f"returned {answer!r}" in str(record.exc_info[1])


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_batch_of_one_message_has_an_index_as_well(
    alone: GroupBroker, orderly: bool, clock: MockClock
) -> None:
    async def listener(messages: list[ReceivedMessage]) -> int:
        return 0

    alone.put(b"x")
    async with consumer(listener=listener, batch_size=8, orderly=orderly):
        await after(1)
    assert len(alone.sent_back) == (not orderly)
    assert alone.offsets["g", "T", 0] == (not orderly)


@pytest.mark.parametrize("level", ["3", None, -2, 1.0, 1 << 31])
async def test_what_is_no_level_is_an_error_of_the_listener(
    alone: GroupBroker, level: Any, clock: MockClock
) -> None:
    """It ends no worker, and the message goes the way of others."""
    got: list[bytes] = []

    async def listener(message: ReceivedMessage) -> None:
        got.append(message.body)
        raise ReconsumeLater(delay_level=level)

    alone.put(b"x")
    async with consumer(listener=listener, orderly=True) as member:
        await after(3.5)
        assert got == [b"x"] * 4
        with pytest.raises(ClientError, match="delay_level"):
            await member.send_back(None, delay_level=level)  # type: ignore[arg-type]


async def test_an_interruption_of_something_else_is_a_failure(alone: GroupBroker) -> None:
    """asyncio's CancelledError out of a thread is no Exception; it ends no worker."""

    def listener(message: ReceivedMessage) -> None:
        raise asyncio.CancelledError

    alone.put(b"x")
    async with consumer(listener=listener):
        await eventually_trio(lambda: alone.sent_back, "sent back")


# Leaving.


async def test_listeners_under_way_have_time_to_return(
    alone: GroupBroker, clock: MockClock
) -> None:
    events: list[bytes] = []

    async def listener(message: ReceivedMessage) -> None:
        await trio.sleep(3)
        events.append(message.body)

    async with consumer(listener=listener, concurrency=2, close_grace=4):
        await after(1)
        for n in range(5):
            alone.put(b"%d" % n)
        await after(1)
        began = trio.current_time()
    assert trio.current_time() - began == pytest.approx(2, abs=0.5)
    assert sorted(events) == [b"0", b"1"], "nothing new is begun"
    assert alone.offsets["g", "T", 0] == 2


async def test_who_does_not_return_in_time_is_cancelled(
    alone: GroupBroker, clock: MockClock
) -> None:
    ended: list[str] = []

    async def listener(message: ReceivedMessage) -> None:
        try:
            await trio.sleep(3600)
        except trio.Cancelled:
            ended.append("cancelled")
            raise

    with trio.CancelScope() as scope:
        async with consumer(listener=listener, close_grace=4):
            await after(1)
            alone.put(b"x")
            await after(1)
            began = trio.current_time()
            scope.cancel()  # a cancellation of the body gives the same time
            await trio.sleep(1)
    assert ended == ["cancelled"]
    assert trio.current_time() - began == pytest.approx(4, abs=0.5)
    assert alone.offsets["g", "T", 0] == 0


async def test_a_failure_while_leaving_is_still_sent_back(
    alone: GroupBroker, clock: MockClock
) -> None:
    async def listener(message: ReceivedMessage) -> None:
        await trio.sleep(2)
        raise ValueError("late")

    async with consumer(listener=listener, close_grace=4):
        await after(1)
        alone.put(b"early")
        await after(4)
        alone.put(b"x")
        await after(1)
    assert len(alone.sent_back) == 2
    assert alone.offsets["g", "T", 0] == 2


async def test_a_listener_that_hangs_loses_its_message_in_the_end(
    alone: GroupBroker, clock: MockClock
) -> None:
    async def listener(message: ReceivedMessage) -> None:
        await trio.sleep_forever()

    async with consumer(listener=listener, consume_timeout=60, close_grace=0):
        await after(1)
        alone.put(b"x")
        await after(130)
        assert [c.ext["delayLevel"] for c in alone.sent_back] == ["3"]
        assert alone.offsets["g", "T", 0] == 1


# Plain functions.


async def test_plain_listeners_run_in_threads(alone: GroupBroker, mock_clock: MockClock) -> None:
    mock_clock.rate = 20
    ran: list[tuple[bytes, bool]] = []
    both = threading.Barrier(2, timeout=20)

    def listener(message: ReceivedMessage) -> None:
        ran.append((message.body, threading.current_thread() is threading.main_thread()))
        both.wait()
        if message.body == b"bad":
            raise ValueError("bad")

    async with consumer(listener=listener, concurrency=2):
        alone.put(b"bad")
        alone.put(b"good")
        await eventually_trio(lambda: alone.offsets.get(("g", "T", 0)) == 2, "both", 200)
    assert Counter(ran) == {(b"bad", False): 1, (b"good", False): 1}
    assert len(alone.sent_back) == 1


# In a loop.


async def test_a_loop_sends_back_by_itself(alone: GroupBroker, clock: MockClock) -> None:
    alone.put(b"x")
    alone.put(b"y")
    async with consumer() as member:
        stream = aiter(member)
        message = await anext(stream)
        await member.send_back(message, delay_level=-1)
        assert alone.sent_back[0].ext["delayLevel"] == "-1"
        with pytest.raises(ClientError, match="this consumer has"):
            await member.send_back(message)
        member.acknowledge(await anext(stream))
    assert alone.offsets["g", "T", 0] == 2


async def test_a_failed_message_is_not_consumed_twice_after_its_queue_went_to_another(
    alone: GroupBroker, clock: MockClock
) -> None:
    """What a listener says of a queue that is not this member's any more counts for nothing."""
    release = trio.Event()

    async def listener(message: ReceivedMessage) -> None:
        await release.wait()
        raise ValueError("late")

    async with consumer(listener=listener) as member:
        await after(1)
        for n in (0, 1):
            alone.put(b"x", queue=n)
        await after(1)
        async with consumer() as other:
            await after(2)
            (gone,) = other.assigned
            release.set()
            await after(1)
            assert [int(c.ext["offset"]) // 1000 for c in alone.sent_back] == [1 - gone.queue_id]
            assert isinstance(member, PushConsumer)
            assert not [
                c
                for c in alone.by(client_id(member), UPDATE_OFFSET)
                if int(c.ext["queueId"]) == gone.queue_id and c.ext["commitOffset"] != "0"
            ]
