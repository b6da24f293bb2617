"""10,000 pulls wait at once, on few connections: each is answered by what it waits for and by
nothing else, or when its time is over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count

import pytest

from tests.broker.e2e.test_requests import create_topic
from tests.support.client import PULL_SUBSCRIPTION, PULL_SUSPEND, Client, pull_command
from tests.support.records import decode_records
from tests.support.server import ServerProcess
from tests.support.wire import Command, encode

HOLD = PULL_SUSPEND | PULL_SUBSCRIPTION
QUEUES = 100
CONNECTIONS = 4
EACH = 2_500
"""Pulls of each connection, to all queues in turn."""
PULL_NOT_FOUND = 19
SHORT_MS = 600


@dataclass
class Holder:
    """A connection with pulls that wait, by opaque: the queue of each."""

    client: Client
    topic: str
    waits: dict[int, int] = field(default_factory=dict)

    def hold(self, suspend_ms: int) -> None:
        frames = bytearray()
        for n in range(EACH):
            command = pull_command(self.topic, n % QUEUES, 0, sys_flag=HOLD, suspend_ms=suspend_ms)
            command.opaque = 1_000_000 + n
            self.waits[command.opaque] = n % QUEUES
            frames += encode(command)
        self.client.send_raw(bytes(frames))

    def answers(self, count: int) -> list[tuple[int, Command]]:
        """The next ones, with the queue of each; none comes twice."""
        found = [self.client.receive(30) for _ in range(count)]
        return [(self.waits.pop(answer.opaque), answer) for answer in found]

    def has_no_answer(self) -> None:
        """What is asked behind the pulls is answered first."""
        self.client.max_offset(self.topic, 0)


_numbers = count()


@pytest.fixture
def topic(client: Client) -> str:
    name = f"ManyHeld{next(_numbers)}"
    create_topic(client, name, QUEUES)
    return name


@pytest.fixture
def holders(topic: str, process: ServerProcess) -> Iterator[list[Holder]]:
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(process.broker)) for _ in range(CONNECTIONS)]
        yield [Holder(client, topic) for client in clients]


def test_ten_thousand_pulls_wait(client: Client, topic: str, holders: list[Holder]) -> None:
    """Half of them until their time is over, the others until a message comes to their queue."""
    early, late = holders[: CONNECTIONS // 2], holders[CONNECTIONS // 2 :]
    for holder in late:
        holder.hold(60_000)
    for holder in late:
        holder.has_no_answer()
    posted = time.monotonic()
    for holder in early:
        holder.hold(SHORT_MS)
    for holder in early:
        first = holder.answers(1)
        assert time.monotonic() - posted >= SHORT_MS / 1000, "not before its time is over"
        for _, answer in first + holder.answers(EACH - 1):
            assert (answer.code, answer.ext["nextBeginOffset"]) == (PULL_NOT_FOUND, "0")
        assert not holder.waits

    # A message answers those on its queue.
    assert client.send(topic, b"one", queue_id=7).code == 0
    for holder in late:
        for queue_id, answer in holder.answers(EACH // QUEUES):
            assert (queue_id, answer.code) == (7, 0)
            assert [record.body for record in decode_records(answer.body)] == [b"one"]
        holder.has_no_answer()

    for queue_id in range(QUEUES):
        assert client.send(topic, b"%d" % queue_id, queue_id=queue_id).code == 0
    for holder in late:
        for queue_id, answer in holder.answers(len(holder.waits)):
            assert answer.code == 0
            assert [record.body for record in decode_records(answer.body)] == [b"%d" % queue_id]
        assert not holder.waits


def test_their_connections_may_go(client: Client, topic: str, holders: list[Holder]) -> None:
    """Nobody is left to answer then; the next ones wait as before."""
    for holder in holders:
        holder.hold(60_000)
        holder.has_no_answer()
    for holder in holders[1:]:
        holder.client.reset()
    assert client.send(topic, b"come", queue_id=3).code == 0
    assert {queue_id for queue_id, _ in holders[0].answers(EACH // QUEUES)} == {3}
    opaque = client.post(pull_command(topic, 3, 1, sys_flag=HOLD, suspend_ms=60_000))
    client.max_offset(topic, 0)
    assert holders[0].client.send(topic, b"next", queue_id=3).code == 0
    answer = client.receive(30)
    assert (answer.opaque, answer.code) == (opaque, 0)
    assert [record.body for record in decode_records(answer.body)] == [b"next"]
