"""Lists of messages, on queues in memory: bounds, and brokers that fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyrmq.admin.topics import QueueState, TopicStatus
from pyrmq.console.messages import listing
from pyrmq.console.messages.listing import HEAD, MOST_BYTES, Asked, Listing, listed
from pyrmq.console.messages.stored import Pulled
from pyrmq.errors import ConnectError
from pyrmq.model.message import MessageQueue
from pyrmq.model.record import ReceivedMessage


class Brokers:
    """Two brokers with a queue each; message n is stored at time n, at broker `a` if n is even."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int, size: int = 100) -> None:
        self.down: set[str] = set()
        self.damaged: tuple[str, ...] = ()
        self.pulled = 0
        self._size = size
        self._count = count
        monkeypatch.setattr(listing, "pull", self._pull)

    async def list(self, **of: Any) -> Listing:
        route = SimpleNamespace(address_of=lambda name: name)
        states = [QueueState(MessageQueue("t", name, 0), 0, self._count, 0) for name in "ab"]

        async def status(topic: str) -> TopicStatus:
            return TopicStatus(states, 0.0)

        async def find(topic: str) -> Any:
            return route

        admin: Any = SimpleNamespace(
            link=SimpleNamespace(route=find), topics=SimpleNamespace(status=status)
        )
        return await listed(admin, Asked("t", **of), limit=10)

    async def _pull(
        self, admin: object, address: str, queue: MessageQueue, offset: int, count: int, *_: str
    ) -> Pulled:
        if queue.broker_name in self.down:
            raise ConnectError(f"{address} does not answer")
        end = min(offset + count, self._count)
        found = [self._message(queue, n) for n in range(offset, end)]
        self.pulled += len(found)
        return Pulled(found, end, not found, self.damaged)

    def _message(self, queue: MessageQueue, offset: int) -> ReceivedMessage:
        time = 2 * offset + (queue.broker_name == "b")
        return ReceivedMessage(
            "t", b"x" * min(self._size, 9000), 0, offset, 0, 0, 0, 0, "h:1", time, "h:2", 0, 0,
            self._size, 0, {}, f"{time}", queue.broker_name,
        )  # fmt: skip


def times(found: Listing) -> list[int]:
    return [m.store_timestamp for m in found.messages]


async def test_pages_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(monkeypatch, 12)
    first = await brokers.list()
    assert times(first) == list(range(23, 13, -1))
    second = await brokers.list(cursor=first.next)
    third = await brokers.list(cursor=second.next)
    assert times(second) == list(range(13, 3, -1))
    assert (times(third), third.next) == ([3, 2, 1, 0], "")
    oldest = await brokers.list(newest=False)
    assert times(oldest) == list(range(10))
    assert times(await brokers.list(newest=False, cursor=oldest.next)) == list(range(10, 20))


async def test_bodies_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(monkeypatch, 3, size=5000)
    assert {len(m.body) for m in (await brokers.list()).messages} == {HEAD}


async def test_large_messages_end_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 4 << 20
    brokers = Brokers(monkeypatch, 100, size=size)
    found = await brokers.list()
    assert found.early == "the messages are large"
    assert brokers.pulled <= MOST_BYTES // size + 4
    following = await brokers.list(cursor=found.next)
    assert times(found) + times(following) == list(range(199, 199 - len(times(found)) * 2, -1))


async def test_a_page_reads_little_more_than_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(monkeypatch, 100_000)
    await brokers.list()
    assert brokers.pulled < 60


async def test_a_broker_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(monkeypatch, 100)
    first = await brokers.list()
    brokers.down = {"b"}
    second = await brokers.list(cursor=first.next)
    assert second.failed == ["broker b: b does not answer"]
    assert times(second) == list(range(188, 168, -2))
    brokers.down = set()
    third = await brokers.list(cursor=second.next)
    assert times(third)[:3] == [189, 187, 185]


async def test_records_that_cannot_be_read_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(monkeypatch, 1)
    brokers.damaged = ("not an inner batch",)
    found = await brokers.list()
    assert times(found) == [1, 0]
    assert found.failed[0] == "queue 0 of broker a: 1 records cannot be read: not an inner batch"
