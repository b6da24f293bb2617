"""What makes no sense, from brokers, strategies or listeners, ends no consumer."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq.client.consumer.push_consumer import PushConsumer
from pyrmq.model.message import MessageQueue, ReceivedMessage
from tests.client.members import after, consumer
from tests.support.scripted.groups import GroupBroker
from tests.support.scripted.streams import Connection
from tests.support.wire import Command


def waiting_bytes(member: PushConsumer) -> int:
    return sum(process.waiting_bytes for process in member._held.table.values())


@pytest.mark.parametrize("wrong", [["q"], [MessageQueue("Other", "broker-a", 0)], [[]], 5, [None]])
async def test_a_strategy_that_gives_no_queues_of_its_topic(
    alone: GroupBroker, wrong: Any, clock: MockClock
) -> None:
    """The reason is logged, and it is asked again."""
    answers = [wrong, wrong]
    seen: list[bytes] = []

    async def listener(message: ReceivedMessage) -> None:
        seen.append(message.body)

    def strategy(queues: Any, ids: Any, own: str) -> Any:
        return answers.pop() if answers and queues[0].topic == "T" else queues

    alone.put(b"x")
    async with consumer(listener=listener, strategy=strategy):
        await after(3)
    assert seen == [b"x"]


@pytest.mark.parametrize("body", [None, b"", b"longer than it was"])
async def test_a_listener_may_change_its_message(
    alone: GroupBroker, body: Any, clock: MockClock
) -> None:
    """What waits is counted by what was pulled."""

    async def listener(message: ReceivedMessage) -> None:
        message.body = body

    for _ in range(3):
        alone.put(b"12345")
    async with consumer(listener=listener) as member:
        await after(2)
        assert waiting_bytes(member) == 0
    assert alone.offsets["g", "T", 0] == 3


@pytest.mark.parametrize(("code", "following"), [(0, 0), (0, -1), (19, 1), (20, -1), (21, -1)])
async def test_pulls_that_go_back(
    alone: GroupBroker, code: int, following: int, clock: MockClock
) -> None:
    """They are tried again after a while, and bring nothing twice."""
    usual = alone._answer_pull
    pulls: list[float] = []
    seen: list[bytes] = []

    async def listener(message: ReceivedMessage) -> None:
        seen.append(message.body)

    async def answer(connection: Connection, command: Command) -> None:
        if command.ext["topic"] != "T" or command.ext["queueId"] != "0" or len(pulls) >= 4:
            return await usual(connection, command)
        pulls.append(trio.current_time())
        found = alone._pull(command) if code == 0 else None
        found = found or command.reply(code)
        found.ext["nextBeginOffset"] = str(following)
        with contextlib.suppress(trio.BrokenResourceError):
            await connection.send(found)

    alone._answer_pull = answer  # type: ignore[method-assign]
    alone.put(b"0")
    alone.put(b"1")
    alone.offsets["g", "T", 0] = 2 if code else 0
    async with consumer(listener=listener):
        await after(20)
        assert len(pulls) == 4
        assert pulls[3] - pulls[0] > 5
        alone.put(b"2")
        await after(10)
    assert seen == ([b"2"] if code else [b"0", b"1", b"2"])
    assert alone.offsets["g", "T", 0] == 3
