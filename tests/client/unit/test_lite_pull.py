"""Lite pull consumers of scripted brokers: polls, places, commits."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq.client import ConsumeFrom, LitePullConsumer, PushConsumer
from pyrmq.errors import ClientError, InvalidParameterError, SubscriptionError
from pyrmq.model.message import MessageQueue, ReceivedMessage
from tests.client.members import after
from tests.client.unit.lite import Q0, Q1, fill, lite, numbers
from tests.support.scripted.groups import (
    LITE_PULL,
    MAX_OFFSET,
    MEMBERS,
    PULL,
    UPDATE_OFFSET,
    GroupBroker,
)
from tests.support.scripted.script import SILENCE
from tests.support.scripted.streams import HEART_BEAT, StreamCluster
from tests.support.thorough import size


async def test_polling_a_group_s_share(alone: GroupBroker, clock: MockClock) -> None:
    fill(alone, 25)
    async with lite() as one, lite() as two:
        await after(2)
        assert sorted(one.assigned + two.assigned) == [Q0, Q1]
        owner = one if Q0 in one.assigned else two
        got = [numbers(await owner.poll()) for _ in range(3)]
        assert [n for part in got for n in part] == list(range(25))
        assert all(len(part) <= 10 for part in got)
        began = trio.current_time()
        assert await owner.poll(timeout=2) == []
        assert trio.current_time() - began == pytest.approx(2)
    assert not alone.requests(PULL)
    pull = alone.requests(LITE_PULL)[0]
    assert (pull.ext["sysFlag"], pull.ext["maxMsgNums"]) == ("22", "10")
    assert pull.ext["suspendTimeoutMillis"] == "20000"
    (data,) = json.loads(alone.requests(HEART_BEAT)[0].body)["consumerDataSet"]
    assert (data["consumeType"], data["consumeFromWhere"]) == (
        "CONSUME_ACTIVELY",
        "CONSUME_FROM_LAST_OFFSET",
    )
    assert [s["topic"] for s in data["subscriptionDataSet"]] == ["T"]


async def test_assigned_queues_are_shared_with_nobody(alone: GroupBroker, clock: MockClock) -> None:
    fill(alone, 2)
    async with lite(False) as one, lite(False) as two:
        for member in (one, two):
            assert await member.queues("T") == [Q0, Q1]
            member.assign([Q0])
            assert numbers(await member.poll()) == [0, 1]
            assert member.assigned == [Q0]
        one.assign([Q1])
        await after(1)
        assert one.assigned == [Q1]
        one.assign([])
        await after(1)
        assert one.assigned == []
    assert not alone.requests(MEMBERS)
    (data,) = json.loads(alone.requests(HEART_BEAT)[0].body)["consumerDataSet"]
    assert data["subscriptionDataSet"] == []


async def test_what_is_sent_after_assigning_is_polled(alone: GroupBroker, clock: MockClock) -> None:
    fill(alone, 5)
    async with lite(False, consume_from=ConsumeFrom.LAST_OFFSET) as member:
        await member.assign([Q0])
        alone.put(b"7")
        assert numbers(await member.poll(1)) == [7]
        await member.assign([Q0, Q1])
        alone.put(b"8", queue=1)
        assert numbers(await member.poll(1)) == [8]


async def test_assigning_waits_for_no_broker_that_is_silent(
    alone: GroupBroker, clock: MockClock
) -> None:
    alone.change[MAX_OFFSET] = lambda c: SILENCE
    async with lite(False, consume_from=ConsumeFrom.LAST_OFFSET) as member:
        began = trio.current_time()
        await member.assign([Q0])
        assert trio.current_time() - began == pytest.approx(3, abs=0.1)
        await member.assign([])


@pytest.mark.parametrize("between", [True, False])
async def test_queues_that_are_assigned_again_at_once(
    alone: GroupBroker, between: bool, clock: MockClock
) -> None:
    """Also while they are still being given up."""
    fill(alone, 3)
    async with lite(False) as member:
        member.assign([Q0])
        assert numbers(await member.poll()) == [0, 1, 2]
        assert await member.poll(1) == []
        member.assign([])
        if between:
            await trio.lowlevel.checkpoint()
        await member.assign([Q0])
        alone.put(b"3")
        assert numbers(await member.poll(1)) == [3]
        assert member.assigned == [Q0]
        member.assign([])
        member.assign([Q0])
        await member.seek(Q0, 1)
        assert numbers(await member.poll(1)) == [1, 2, 3]


async def test_assigned_queues_survive_a_restart(alone: GroupBroker, clock: MockClock) -> None:
    fill(alone, 1)
    async with lite(False) as member:
        member.assign([Q0])
        await member.poll()
        await alone.restart()
        await after(5)
        alone.put(b"1")
        assert numbers(await member.poll()) == [1]
        await member.poll(1)
        await after(6)
        assert alone.offsets["g", "T", 0] == 2


# What counts as consumed.


async def test_what_was_polled_is_consumed_at_the_next_poll(
    alone: GroupBroker, clock: MockClock
) -> None:
    fill(alone, 15)
    async with lite() as member:
        assert numbers(await member.poll()) == list(range(10))
        await after(12)
        assert alone.offsets["g", "T", 0] == 0
        assert numbers(await member.poll()) == list(range(10, 15))
        await after(6)
        assert alone.offsets["g", "T", 0] == 10
    assert alone.offsets["g", "T", 0] == 10, "what the last poll returned comes again"


async def test_commit(alone: GroupBroker, clock: MockClock) -> None:
    fill(alone, 15)
    async with lite(auto_commit=False) as member:
        assert await member.committed(Q0) is None
        await member.poll()
        await member.poll()
        await after(60)
        assert not alone.requests(UPDATE_OFFSET)
        await member.commit()
        assert alone.offsets["g", "T", 0] == 15
        await member.commit({Q0: 3})
        assert await member.committed(Q0) == 3
        for wrong in ({Q0: -1}, {Q0: "1"}, {MessageQueue("U", "broker-a", 0): 1}):
            with pytest.raises(ClientError, match=r"0 or more|not assigned"):
                await member.commit(wrong)  # type: ignore[arg-type]
        alone.change[UPDATE_OFFSET] = lambda c: c.reply(1)
        with pytest.raises(ClientError, match="not written"):
            await member.commit()
        del alone.change[UPDATE_OFFSET]
    assert alone.offsets["g", "T", 0] == 3, "without auto_commit leaving writes nothing"


async def test_a_loop_counts_messages_one_by_one(alone: GroupBroker, clock: MockClock) -> None:
    fill(alone, 5)
    async with lite() as member:
        async for message in member:
            if message.body == b"3":
                break
    assert alone.offsets["g", "T", 0] == 3


async def test_what_a_broken_loop_left_is_polled(alone: GroupBroker, clock: MockClock) -> None:
    fill(alone, 12)
    with trio.fail_after(60):
        async with lite() as member:
            seen = []
            for stop in (3, 7):
                async for message in member:
                    seen.append(int(message.body))
                    if len(seen) == stop:
                        break
            assert seen + numbers(await member.poll()) + numbers(await member.poll(1)) == [
                *range(12)
            ]


async def test_what_nobody_saw_is_polled_again(alone: GroupBroker, clock: MockClock) -> None:
    """As a caller in another thread that gave up while its answer was on its way."""
    fill(alone, 25)
    async with lite(auto_commit=False) as member:
        assert numbers(await member.poll()) == list(range(10))
        lost = await member.poll_unseen()
        assert numbers(lost) == list(range(10, 20))
        await member.commit()
        assert alone.offsets["g", "T", 0] == 10, "what the poll before returned is consumed"
        assert numbers(await member.poll_unseen()) == list(range(10, 20))
        assert numbers(await member.poll()) == list(range(10, 20))
        assert numbers(await member.poll()) == list(range(20, 25))
        await member.commit()
        assert alone.offsets["g", "T", 0] == 25


async def test_what_nobody_saw_and_is_not_wanted_any_more(
    alone: GroupBroker, clock: MockClock
) -> None:
    fill(alone, 12)
    async with lite() as member:
        await member.poll_unseen()
        await member.seek(Q0, 11)
        assert numbers(await member.poll()) == [11]
        alone.put(b"12")
        await after(1)
        assert numbers(await member.poll_unseen()) == [12]
        alone.put(b"13")
        await after(1)
        member.pause([Q0])
        assert await member.poll(0) == []
        member.resume([Q0])
        assert [numbers(await member.poll(0)) for _ in range(2)] == [[12], [13]], "in order"


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
async def test_what_a_loop_did_not_see(kind: Any, alone: GroupBroker, clock: MockClock) -> None:
    fill(alone, 3)
    options: Any = {"consume_from": ConsumeFrom.FIRST_OFFSET}
    with trio.fail_after(60):
        async with kind("g", {"T": "*"}, namesrv=StreamCluster.namesrv, **options) as member:
            loop, other = aiter(member), aiter(member)
            assert (await loop.next_unseen(1)).body == b"0"
            assert (await loop.next_unseen(2)).body == b"0", "it asks again"
            await loop.give_back(2)
            assert [(await anext(other)).body for _ in range(3)] == [b"0", b"1", b"2"]
            await loop.give_back(2)
    assert alone.offsets["g", "T", 0] == 2


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
async def test_giving_back_late(kind: Any, alone: GroupBroker, clock: MockClock) -> None:
    """Tasks run in any order: the call after the one that was given up has a message already, which
    its caller may have, too."""
    fill(alone, 2)
    options: Any = {"consume_from": ConsumeFrom.FIRST_OFFSET}
    with trio.fail_after(60):
        async with kind("g", {"T": "*"}, namesrv=StreamCluster.namesrv, **options) as member:
            loop = aiter(member)
            given_up, call = object(), object()
            await loop.next_unseen(given_up)
            message = await loop.next_unseen(call)
            await loop.give_back(given_up)
            loop.seen = message
            assert [message.body, (await anext(loop)).body] == [b"0", b"1"]


@pytest.mark.parametrize("seed", range(size("PYRMQ_CHANGES", 4, 100)))
@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
async def test_calls_that_are_given_up_as_messages_come(
    kind: Any, seed: int, alone: GroupBroker, clock: MockClock
) -> None:
    """In every order of the tasks: each message comes once, and none is left over."""
    chance = random.Random(seed)
    got: list[bytes] = []
    count = 300
    options: Any = {"consume_from": ConsumeFrom.FIRST_OFFSET}
    async with kind("g", {"T": "*"}, namesrv=StreamCluster.namesrv, **options) as member:
        loop = aiter(member)

        async def call(scope: trio.CancelScope, answered: list[ReceivedMessage]) -> None:
            with scope:
                answered.append(await loop.next_unseen(scope))

        async with trio.open_nursery() as nursery:
            sent = 0
            while len(got) < count:
                scope, answered = trio.CancelScope(), list[ReceivedMessage]()
                nursery.start_soon(call, scope, answered)
                if sent < count and len(got) == sent - sent % 3:
                    for _ in range(3):
                        alone.put(b"%d" % sent)
                        sent += 1
                for _ in range(chance.randrange(8)):
                    await trio.lowlevel.checkpoint()
                if answered and chance.random() < 0.7:
                    loop.seen = answered[0]
                    got.append(answered[0].body)
                    continue
                scope.cancel()  # as another thread does, which does not wait for it
                nursery.start_soon(loop.give_back, scope)
    assert got == [b"%d" % n for n in range(count)]


# Places.


async def test_assign_and_subscribe_exclude_each_other(
    alone: GroupBroker, clock: MockClock
) -> None:
    async with lite() as member:
        with pytest.raises(ClientError, match="cannot assign"):
            member.assign([Q0])
        await member.subscribe("U", "a")
        await after(1)
        assert {q.topic for q in member.assigned} == {"T", "U"}
        with pytest.raises(ClientError, match="already"):
            await member.subscribe("U")
        with pytest.raises(SubscriptionError):
            await member.subscribe("V", "||")
    async with lite(False) as member:
        with pytest.raises(ClientError, match="cannot subscribe"):
            await member.subscribe("T")
        with pytest.raises(ClientError, match="a MessageQueue is needed"):
            member.assign(["T-0"])  # type: ignore[list-item]


async def test_outside_of_its_block(alone: GroupBroker, clock: MockClock) -> None:
    member = lite()
    with pytest.raises(ClientError, match="async with"):
        await member.poll()
    with pytest.raises(ClientError, match="async with"):
        await anext(aiter(member))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"auto_commit": 1}, "auto_commit is 1; True or False"),
        ({"auto_commit_interval": 0.5}, "auto_commit_interval is 0.5; seconds .* at least 1"),
        ({"pull_batch_size": 0}, "pull_batch_size is 0"),
        ({"max_cached_total": 0}, "max_cached_total is 0"),
        ({"strategy": "average"}, "strategy is 'average'"),
        ({"consume_from": "FIRST"}, "a pyrmq.ConsumeFrom is needed"),
        ({"consume_timestamp": 1}, "goes with ConsumeFrom.TIMESTAMP"),
    ],
)
def test_options(options: dict[str, Any], wanted: str) -> None:
    with pytest.raises(ClientError, match=wanted):
        lite(**options)


def test_names() -> None:
    with pytest.raises(InvalidParameterError):
        LitePullConsumer("bad group", {"T": "*"}, namesrv="127.0.0.1:1")
    with pytest.raises(ClientError, match="at least one subscription"):
        LitePullConsumer("g", {}, namesrv="127.0.0.1:1")


async def test_a_poll_that_does_not_wait(alone: GroupBroker, clock: MockClock) -> None:
    """It returns what is there, also at the 32nd time."""
    fill(alone, 100)
    async with lite(pull_batch_size=1) as member:
        await after(2)
        got = [numbers(await member.poll(timeout=0)) for _ in range(100)]
        assert got == [[n] for n in range(100)]
        assert await member.poll(timeout=0) == []
        fill(alone, 1)
        await after(1)
        member.pause([Q0])
        assert await member.poll(timeout=0) == []
        member.resume([Q0])
        assert len(await member.poll(timeout=0)) == 1
        for timeout in (-1, "1", None):
            with pytest.raises(ClientError, match="timeout"):
                await member.poll(timeout)  # type: ignore[arg-type]


async def test_a_queue_that_goes_on_elsewhere_can_be_committed(
    alone: GroupBroker, clock: MockClock
) -> None:
    fill(alone, 5)
    async with lite(auto_commit=False) as member:
        await after(2)
        await member.seek(Q0, 3)
        await member.commit({Q0: 2})
        assert alone.offsets["g", "T", 0] == 2
        assert numbers(await member.poll()) == [3, 4]


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
async def test_who_waits_for_messages_of_a_consumer_that_is_left(
    kind: Any, alone: GroupBroker, clock: MockClock
) -> None:
    """In a task that nobody cancels: it has an error instead of waiting for good."""
    errors: list[ClientError] = []

    async def loop(member: Any) -> None:
        try:
            async for _ in member:
                pass
        except ClientError as e:
            errors.append(e)

    with trio.fail_after(60):
        async with (
            trio.open_nursery() as nursery,
            kind("g", {"T": "*"}, namesrv=StreamCluster.namesrv) as member,
        ):
            nursery.start_soon(loop, member)
            nursery.start_soon(loop, member)
            await after(2)
    assert len(errors) == 2
