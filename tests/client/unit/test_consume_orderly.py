"""Queues in order: locks, hand-overs, and messages that the listener fails on."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest
import trio
from trio.testing import MockClock

from pyrmq.client import ConsumeResult, PushConsumer, ReconsumeLater
from pyrmq.model.message import ReceivedMessage
from tests.client.members import after, client_id, consumer
from tests.support.scripted.groups import LOCK, SEND_BACK, UNLOCK, UPDATE_OFFSET, GroupBroker
from tests.support.scripted.streams import SILENCE


class InOrder:
    """Listeners of several members: what each queue saw, and whether two ran at once."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seen: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.running: set[tuple[str, int]] = set()
        self.twice = False
        self.seconds = seconds

    async def __call__(self, message: ReceivedMessage) -> None:
        place = message.topic, message.queue_id
        self.twice |= place in self.running
        self.running.add(place)
        try:
            await trio.sleep(self.seconds)
            self.seen[place].append(message.body)
        finally:
            self.running.discard(place)


async def test_locks_come_before_offsets_and_pulls(alone: GroupBroker, clock: MockClock) -> None:
    listener = InOrder()
    async with consumer(listener=listener, orderly=True) as member:
        await after(1)
        assert set(alone.locks.values()) == {client_id(member)}
        first: dict[int, int] = {}
        for at, (_, command) in enumerate(alone.seen):
            first.setdefault(command.code, at)
        assert first[34] < first[LOCK] < first[14] < first[11]
        lock = alone.requests(LOCK)[0]
        assert json.loads(lock.body) == {
            "clientId": client_id(member),
            "consumerGroup": "g",
            "mqSet": json.loads(lock.body)["mqSet"],
            "onlyThisBroker": False,
        }
        asked = len(alone.requests(LOCK))
        await after(21)
        (renewed,) = alone.requests(LOCK)[asked:]
        assert len(json.loads(renewed.body)["mqSet"]) == 4
    assert not alone.locks
    assert alone.requests(UNLOCK)


async def test_many_messages_keep_their_order(alone: GroupBroker, clock: MockClock) -> None:
    listener = InOrder(0.01)
    async with consumer(listener=listener, orderly=True, concurrency=2):
        for n in range(200):
            alone.put(b"%03d" % n, queue=n % 2)
        await after(5)
    for queue in (0, 1):
        assert listener.seen["T", queue] == [b"%03d" % n for n in range(queue, 200, 2)]
        assert alone.offsets["g", "T", queue] == 100
    assert not listener.twice


async def test_order_across_hand_overs(alone: GroupBroker, clock: MockClock) -> None:
    """The next owner begins when the listener of the last one has returned."""
    listener = InOrder(3)
    async with consumer(listener=listener, orderly=True, close_grace=10):
        await after(1)
        for n in range(4):
            alone.put(b"%d" % n, queue=0)
            alone.put(b"%d" % n, queue=1)
        await after(1)
        async with consumer(listener=listener, orderly=True, close_grace=10) as second:
            await after(30)
            assert len(second.assigned) == 1
            for n in range(4, 8):
                alone.put(b"%d" % n, queue=0)
                alone.put(b"%d" % n, queue=1)
            await after(4)
        await after(60)
    assert not listener.twice
    for queue in (0, 1):
        assert listener.seen["T", queue] == [b"%d" % n for n in range(8)], "once each, in order"


async def test_a_queue_that_another_has_locked_is_waited_for(
    alone: GroupBroker, clock: MockClock
) -> None:
    alone.locks["g", "T", 0] = "somebody"
    alone.put(b"x")
    listener = InOrder()
    async with consumer(listener=listener, orderly=True) as member:
        await after(3)
        assert [q.queue_id for q in member.assigned] == [1]
        assert not listener.seen
        del alone.locks["g", "T", 0]
        await after(1)
        assert listener.seen["T", 0] == [b"x"]


async def test_a_lock_that_went_to_another_stops_the_queue(
    alone: GroupBroker, clock: MockClock
) -> None:
    """And the offset is not written: it is the other one's business."""
    listener = InOrder()
    async with consumer(listener=listener, orderly=True) as member:
        await after(1)
        alone.put(b"0")
        await after(6)
        alone.locks["g", "T", 0] = "somebody"
        alone.offsets["g", "T", 0] = 7
        for n in range(1, 8):
            alone.put(b"other's %d" % n)
        before = len(alone.by(client_id(member), UPDATE_OFFSET))
        listener.seen.clear()
        await after(16)
        assert [q.queue_id for q in member.assigned] == [1]
        del alone.locks["g", "T", 0]
        alone.put(b"8")
        await after(20)
        late = alone.by(client_id(member), UPDATE_OFFSET)[before:]
        mine = [c.ext["commitOffset"] for c in late if c.ext["queueId"] == "0"]
        assert "7" not in mine
        assert mine == sorted(mine)
        assert listener.seen["T", 0][-1] == b"8"


async def test_a_lock_that_cannot_be_renewed_counts_for_30_seconds(
    alone: GroupBroker, clock: MockClock
) -> None:
    listener = InOrder()
    async with consumer(listener=listener, orderly=True):
        await after(1)
        alone.change[LOCK] = lambda c: c.reply(1)
        alone.put(b"0")
        await after(25)
        alone.put(b"1")
        await after(1)
        assert listener.seen["T", 0] == [b"0", b"1"]
        await after(10)
        alone.put(b"2")
        await after(3)
        assert listener.seen["T", 0] == [b"0", b"1"], "the lock is too old"
        del alone.change[LOCK]
        await after(25)
        assert listener.seen["T", 0] == [b"0", b"1", b"2"]


async def test_locks_are_taken_again_when_the_broker_was_restarted(
    alone: GroupBroker, clock: MockClock
) -> None:
    async with consumer(listener=InOrder(), orderly=True) as member:
        await after(1)
        await alone.restart()
        await after(1)
        assert set(alone.locks.values()) == {client_id(member)}


@pytest.mark.parametrize("how", ["raises", "returns"])
async def test_a_failing_message_blocks_its_queue_alone(
    alone: GroupBroker, how: str, clock: MockClock
) -> None:
    seen: list[tuple[bytes, int]] = []

    async def listener(message: ReceivedMessage) -> ConsumeResult | None:
        seen.append((message.body, message.reconsume_times))
        if message.body == b"bad" and message.reconsume_times < 3:
            if how == "raises":
                raise ValueError("not yet")
            return ConsumeResult.SUSPEND_CURRENT_QUEUE_A_MOMENT
        return None

    async with consumer(listener=listener, orderly=True, suspend_time=2, concurrency=1):
        await after(1)
        alone.put(b"bad")
        alone.put(b"next")
        alone.put(b"other", queue=1)
        await after(1)
        assert sorted(seen) == [(b"bad", 0), (b"other", 0)]
        await after(6)
        queue = [entry for entry in seen if entry[0] != b"other"]
        assert queue == [(b"bad", n) for n in range(4)] + [(b"next", 0)]
    assert not alone.sent_back
    assert alone.offsets["g", "T", 0] == 2


@pytest.mark.parametrize("limit", ["times", "at once"])
async def test_what_fails_too_often_is_put_aside(
    alone: GroupBroker, limit: str, clock: MockClock
) -> None:
    seen: list[bytes] = []

    async def listener(message: ReceivedMessage) -> None:
        seen.append(message.body)
        if message.body == b"bad":
            raise ReconsumeLater(delay_level=-1) if limit == "at once" else ValueError("bad")

    tries = 3 if limit == "times" else 1
    change = alone.change
    change[SEND_BACK] = lambda c: SILENCE if limit == "times" else None
    async with consumer(listener=listener, orderly=True, max_reconsume_times=2):
        await after(1)
        alone.put(b"bad")
        alone.put(b"next")
        await after(4)
        assert seen[:tries] == [b"bad"] * tries
        if limit == "times":
            assert b"next" not in seen, "the broker has not got it"
            del change[SEND_BACK]
            await after(20)
        assert seen[-1] == b"next"
    assert [c.ext["delayLevel"] for c in alone.sent_back] == ["-1"]
    assert alone.offsets["g", "T", 0] == 2


async def test_a_queue_is_locked_while_a_listener_of_it_runs(
    alone: GroupBroker, clock: MockClock
) -> None:
    """Also after another member should have it, and for longer than a broker keeps a lock."""
    release = trio.Event()

    async def slow(message: ReceivedMessage) -> None:
        await release.wait()

    other = InOrder()
    async with consumer(listener=slow, orderly=True) as first:
        await after(1)
        for n in (0, 1):
            alone.put(b"x", queue=n)
            alone.put(b"y", queue=n)
        await after(1)
        async with consumer(listener=other, orderly=True):
            await after(100)
            assert not other.seen
            mine = {key: who for key, who in alone.locks.items() if key[1] == "T"}
            assert set(mine.values()) == {client_id(first)}
            assert len(alone.by(client_id(first), LOCK)) > 5
            release.set()
            await after(2)
            (place,) = other.seen
            assert other.seen[place] == [b"y"]


async def test_leaving_unlocks_after_the_listener(alone: GroupBroker, clock: MockClock) -> None:
    ended: list[float] = []

    async def slow(message: ReceivedMessage) -> None:
        await trio.sleep(3)
        ended.append(trio.current_time())

    async with consumer(listener=slow, orderly=True) as member:
        await after(1)
        alone.put(b"x")
        alone.put(b"y")
        await after(1)
    assert isinstance(member, PushConsumer)
    assert len(ended) == 1
    assert alone.offsets["g", "T", 0] == 1
    assert not alone.locks
    codes = [c.code for c in alone.by(client_id(member), UPDATE_OFFSET, UNLOCK, 35)]
    assert codes[-3:] == [UPDATE_OFFSET, UNLOCK, 35]
