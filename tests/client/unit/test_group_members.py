"""Members of a group as their brokers come, go, hang and forget."""

from __future__ import annotations

import json
import logging
from collections import Counter

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from pyrmq.client import ConsumeFrom
from pyrmq.model.message import MessageQueue, ReceivedMessage
from tests.client.members import after, client_id, collect, consumer
from tests.support.scripted.groups import (
    MEMBERS,
    PULL,
    QUERY_OFFSET,
    UNREGISTER,
    UPDATE_OFFSET,
    GroupBroker,
)
from tests.support.scripted.script import times
from tests.support.scripted.streams import HEART_BEAT, ROUTE, StreamCluster
from tests.support.wire import Command


def queues(*places: tuple[str, int], topic: str = "T") -> list[MessageQueue]:
    return [MessageQueue(topic, f"broker-{name}", n) for name, n in places]


ALL = queues(("a", 0), ("a", 1), ("b", 0), ("b", 1))


# Known on every connection.


async def test_a_broker_hears_of_the_group_before_it_is_asked(
    groups: StreamCluster, a: GroupBroker, b: GroupBroker, clock: MockClock
) -> None:
    async with consumer() as member:
        await after(1)
        assert member.assigned == ALL
        for broker in (a, b):
            await broker.restart()
        await after(5)
        assert member.assigned == ALL
        for broker in (a, b):
            assert len(broker.connections) >= 2
            for connection in broker.connections:
                assert connection.requests[0].code == HEART_BEAT
            assert broker.connections[-1].requests[1:], "it goes on there"


async def test_a_restarted_broker_does_not_make_a_group_consume_twice(
    groups: StreamCluster, a: GroupBroker, clock: MockClock
) -> None:
    """Who is back first sees itself alone in the list: it waits for the others."""
    del groups.brokers["broker-b"]
    seen: Counter[bytes] = Counter()
    async with consumer() as one, consumer() as two, trio.open_nursery() as nursery:
        nursery.start_soon(collect, one, seen)
        nursery.start_soon(collect, two, seen)
        await after(2)
        before = [one.assigned, two.assigned]
        assert sorted(before[0] + before[1]) == ALL[:2]
        assert [len(part) for part in before] == [1, 1]
        pulled = {who: len(a.by(who, PULL)) for who in map(client_id, (one, two))}
        await a.restart()
        for n in range(20):
            a.put(b"%d" % n, queue=n % 2)
            await after(0.5)
        assert [one.assigned, two.assigned] == before
        for who, mine in zip(map(client_id, (one, two)), before, strict=True):
            asked = a.by(who, PULL)[pulled[who] :]
            assert {int(c.ext["queueId"]) for c in asked if c.ext["topic"] == "T"} == {
                q.queue_id for q in mine
            }
        nursery.cancel_scope.cancel()
    assert seen == {b"%d" % n: 1 for n in range(20)}


async def test_a_member_without_queues_comes_back_as_well(
    groups: StreamCluster, a: GroupBroker, clock: MockClock
) -> None:
    del groups.brokers["broker-b"]
    async with consumer() as one, consumer() as two, consumer() as idle:
        await after(2)
        assert [len(m.assigned) for m in (one, two, idle)] == [1, 1, 0]
        await a.restart()
        await after(1)
        assert len(a.members["g"]) == 3


async def test_every_broker_of_a_topic_knows_every_member(
    groups: StreamCluster, a: GroupBroker, b: GroupBroker, clock: MockClock
) -> None:
    """Also those that have no queues there."""
    async with consumer(), consumer(), consumer(), consumer(), consumer():
        await after(2)
        assert len(a.members["g"]) == len(b.members["g"]) == 5


async def test_who_is_missing_from_the_list_registers_before_it_gives_up(
    groups: StreamCluster, a: GroupBroker, clock: MockClock
) -> None:
    async with consumer() as member:
        await after(1)
        process = dict(member._held.table)
        a.members.clear()  # and nobody was told
        a.members["g"][0] = a.connections[0], "zz-other"
        for channel in list(a.connections):
            await channel.send(Command(40, {"consumerGroup": "g"}, opaque=1, flag=2))
        await after(1)
        asked = [c.code for c in a.by(client_id(member), HEART_BEAT, MEMBERS)]
        assert asked[-3:] == [MEMBERS, HEART_BEAT, MEMBERS] or asked.count(HEART_BEAT) > 1
        kept = [q for q in member.assigned if member._held.table[q] is process[q]]
        assert kept == member.assigned == ALL[:2], "the share of one of two"


# One that hangs, one that is not there.


async def test_who_was_the_only_one_and_is_forgotten_registers_again(
    alone: GroupBroker, clock: MockClock
) -> None:
    async with consumer(rebalance_interval=5) as member:
        await after(4)
        own = queues(("a", 0), ("a", 1))
        assert member.assigned == own
        alone.members.clear()
        await after(3)
        assert [who for _, who in alone.members["g"].values()] == [client_id(member)]
        assert member.assigned == own


async def test_a_group_that_has_to_be_created(
    alone: GroupBroker, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says what to do."""
    alone.change[HEART_BEAT] = lambda c: c.reply(0)
    alone.change[MEMBERS] = lambda c: c.reply(1)
    async with consumer() as member:
        await after(5)
        assert member.assigned == []
    texts = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert [t for t in texts if "autoCreateSubscriptionGroup" in t]
    assert len(alone.requests(MEMBERS)) < 50


async def test_a_broker_that_hangs_delays_only_its_own_queues(
    groups: StreamCluster, a: GroupBroker, b: GroupBroker, clock: MockClock
) -> None:
    a.stalled = True
    b.put(b"x")
    seen: Counter[bytes] = Counter()
    async with consumer() as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        await after(1)
        assert member.assigned == ALL[2:]
        assert seen == {b"x": 1}
        a.stalled = False
        await after(10)
        assert member.assigned == ALL
        nursery.cancel_scope.cancel()


async def test_offsets_of_other_brokers_are_written_while_one_hangs(
    groups: StreamCluster, a: GroupBroker, b: GroupBroker, clock: MockClock
) -> None:
    async with consumer() as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, Counter())
        await after(1)
        a.change[UPDATE_OFFSET] = lambda c: Command(-2)
        for broker in (a, b):
            broker.put(b"x", queue=0)
            broker.put(b"x", queue=1)
        await after(5.5)
        assert [b.offsets["g", "T", n] for n in (0, 1)] == [1, 1]
        nursery.cancel_scope.cancel()


async def test_a_missing_topic_makes_no_storm(
    groups: StreamCluster, a: GroupBroker, clock: MockClock
) -> None:
    groups.missing.add("Missing")
    async with consumer(topics={"T": "*", "Missing": "*"}) as member:
        await after(1)
        assert member.assigned == ALL
        groups.asked.clear()
        lists = len(a.by(client_id(member), MEMBERS))
        await after(120)
        asked = Counter(c.ext["topic"] for c in groups.asked if c.code == ROUTE)
        assert 8 <= asked["Missing"] <= 25
        assert len(a.by(client_id(member), MEMBERS)) - lists <= 2 * 9, "of both topics each 20 s"
        groups.missing.clear()
        await after(11)
        assert len(member.assigned) == 8


async def test_a_topic_that_may_not_be_read(
    groups: StreamCluster, a: GroupBroker, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said once where and why nothing comes, and what to do; and again if it comes back."""
    closed = {"broker-b"}

    def perms(c: Command) -> Command:
        answer = groups.usual(c)
        found = json.loads(answer.body)
        for data in found.get("queueDatas", []):
            data["perm"] = 2 if data["brokerName"] in closed else 6
        return c.reply(0, {}, json.dumps(found).encode())

    def said() -> list[str]:
        texts = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        return [text for text in texts if "none may be read" in text and "topic T" in text]

    groups.change[ROUTE] = perms
    async with consumer() as member:
        await after(120)
        (first,) = said()
        assert "group g waits for queues of topic T: none may be read on broker-b:" in first
        assert "pyrmq admin topic set-perm T 6 -c CLUSTER" in first
        closed.add("broker-a")
        await after(60)
        assert member.assigned == []
        assert "on broker-a, broker-b:" in said()[1]
        closed.clear()
        await after(60)
        assert len(member.assigned) == 4
        closed.add("broker-b")
        await after(60)
        assert len(said()) == 3


async def test_a_topic_that_does_not_exist_is_said_once(
    groups: StreamCluster, a: GroupBroker, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    groups.missing.add("Missing")
    async with consumer(topics={"Missing": "*"}):
        await after(300)
    texts = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    (text,) = [text for text in texts if "Missing" in text]
    assert text.startswith("group g waits for topic Missing: ")
    assert "does not exist" in text


# Offsets.


async def test_an_offset_that_has_not_changed_is_not_written_again(
    groups: StreamCluster, a: GroupBroker, clock: MockClock
) -> None:
    async with consumer() as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, Counter())
        await after(1)
        a.put(b"x")
        await after(30)
        written = [
            int(c.ext["commitOffset"])
            for c in a.by(client_id(member), UPDATE_OFFSET)
            if (c.ext["topic"], c.ext["queueId"]) == ("T", "0")
        ]
        assert written == [0, 1]
        nursery.cancel_scope.cancel()


async def test_nothing_is_written_after_a_queue_went_to_another(
    groups: StreamCluster, a: GroupBroker, clock: MockClock
) -> None:
    """Also not by a listener that returns late."""
    del groups.brokers["broker-b"]
    release = trio.Event()

    async def listener(message: ReceivedMessage) -> None:
        await release.wait()

    async with consumer(listener=listener) as first:
        await after(1)
        for n in (0, 1):
            a.put(b"x", queue=n)
        await after(1)
        async with consumer() as second:
            await after(2)
            assert [len(m.assigned) for m in (first, second)] == [1, 1]
            (gone,) = second.assigned
            message = await anext(aiter(second))
            second.acknowledge(message)
            before = len(a.by(client_id(first), UPDATE_OFFSET))
            release.set()
            await after(20)
            late = a.by(client_id(first), UPDATE_OFFSET)[before:]
            assert str(gone.queue_id) not in {
                c.ext["queueId"] for c in late if c.ext["topic"] == "T"
            }
            assert a.offsets["g", "T", gone.queue_id] == 1


async def test_a_member_that_was_away_does_not_turn_offsets_back(
    groups: StreamCluster, a: GroupBroker, clock: MockClock
) -> None:
    """While it was cut off another one consumed its queues and left."""
    del groups.brokers["broker-b"]
    seen: Counter[bytes] = Counter()
    async with consumer() as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        await after(1)
        for n in range(10):
            a.put(b"%d" % n)
        a.offsets["g", "T", 0] = 10
        groups.down.add("broker-a")
        await a.restart()
        await after(1)
        seen.clear()
        for n in range(10, 15):
            a.put(b"%d" % n)
        a.offsets["g", "T", 0] = 15
        groups.down.clear()
        await after(30)
        a.put(b"15")
        await after(10)
        assert a.offsets["g", "T", 0] == 16
        written = [
            int(c.ext["commitOffset"])
            for c in a.by(client_id(member), UPDATE_OFFSET)
            if (c.ext["topic"], c.ext["queueId"]) == ("T", "0")
        ]
        assert written == sorted(written)
        nursery.cancel_scope.cancel()


async def test_a_queue_that_is_given_up_late_does_not_turn_its_offset_back(
    groups: StreamCluster, a: GroupBroker, clock: MockClock
) -> None:
    """Its next owner has read and consumed it before this member heard of that."""
    del groups.brokers["broker-b"]

    async def listener(message: ReceivedMessage) -> None:
        if message.queue_offset:
            await trio.sleep_forever()

    async with consumer(listener=listener, close_grace=0) as first:
        await after(4)
        for n in range(20):
            a.put(b"x", queue=n % 2)
        await after(0.5)
        for n in (0, 1):
            a.offsets["g", "T", n] = 9
        async with consumer(listener=listener, close_grace=0) as second:
            await after(1)
            (gone,) = second.assigned
            assert first.assigned
            assert a.offsets["g", "T", gone.queue_id] == 9


async def test_an_offset_that_moves_while_the_queue_is_taken_away(
    groups: StreamCluster, a: GroupBroker, clock: MockClock
) -> None:
    """The consumer goes on, and its last offsets are written."""
    del groups.brokers["broker-b"]
    async with consumer() as member:
        await after(1)
        a.put(b"x")
        message = await anext(aiter(member))
        member.acknowledge(message)
        # A pull that waits is answered that its offset is gone, while another member joins.
        a.put(b"y", queue=1)
        a.first["T", 1] = 5
        a.queues["T", 1] *= 7
        a.change[UPDATE_OFFSET] = times(2, lambda c: Command(-2))
        async with consumer() as other:
            await after(10)
            assert sorted(member.assigned + other.assigned) == ALL[:2]
    assert a.offsets["g", "T", 0] == 1
    assert not a.members["g"]


@pytest.mark.parametrize("broken", [QUERY_OFFSET, UPDATE_OFFSET, MEMBERS])
async def test_the_group_is_left_whatever_fails(
    groups: StreamCluster, a: GroupBroker, b: GroupBroker, broken: int, clock: MockClock
) -> None:
    a.change[broken] = lambda c: c.reply(1)
    async with consumer():
        await after(3)
    assert not a.members["g"]
    assert not b.members["g"]


async def test_offsets_are_written_and_the_group_is_left_after_a_crash(
    groups: StreamCluster, a: GroupBroker, clock: MockClock
) -> None:
    async def listener(message: ReceivedMessage) -> None:
        if message.body == b"bad":
            raise SystemExit(3)

    async def crash() -> None:
        async with consumer(listener=listener) as member:
            await after(1)
            a.put(b"x", queue=0)
            await after(1)
            assert member.assigned
            a.put(b"bad", queue=1)
            await after(1)

    with pytest.raises(BaseExceptionGroup) as caught:
        await crash()
    assert caught.group_contains(SystemExit)
    assert [a.offsets["g", "T", n] for n in (0, 1)] == [1, 0]
    assert a.requests(UNREGISTER)


# The retry topic.


async def test_the_retry_topic_is_subscribed(
    groups: StreamCluster, a: GroupBroker, clock: MockClock
) -> None:
    async with consumer() as member:
        await after(1)
        (data,) = json.loads(a.requests(HEART_BEAT)[-1].body)["consumerDataSet"]
        subscribed = {s["topic"]: s["subString"] for s in data["subscriptionDataSet"]}
        assert subscribed == {"T": "*", "%RETRY%g": "*"}
        assert data["messageModel"] == "CLUSTERING"
        a.put(b"again", topic="%RETRY%g", times=2, RETRY_TOPIC="T", TAGS="x")
        message = await anext(aiter(member))
        assert (message.topic, message.body, message.reconsume_times) == ("T", b"again", 2)
        member.acknowledge(message)
    assert a.offsets["g", "%RETRY%g", 0] == 1


async def test_messages_of_the_retry_topic_are_read_from_its_start(
    groups: StreamCluster, a: GroupBroker, clock: MockClock
) -> None:
    a.put(b"again", topic="%RETRY%g", RETRY_TOPIC="T")
    a.put(b"old")
    async with consumer(consume_from=ConsumeFrom.LAST_OFFSET) as member:
        with trio.fail_after(5):
            message = await anext(aiter(member))
        assert message.body == b"again"


async def test_a_retry_topic_that_is_not_there_yet_is_no_reason_for_a_warning(
    groups: StreamCluster, a: GroupBroker, caplog: pytest.LogCaptureFixture, clock: MockClock
) -> None:
    groups.missing.add("%RETRY%g")
    async with consumer() as member:
        await after(60)
        assert member.assigned == ALL
    assert not [r for r in caplog.records if r.levelname == "WARNING"]
