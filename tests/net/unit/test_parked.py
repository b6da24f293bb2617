"""Parked pulls, on a real store and a clock that jumps."""

from __future__ import annotations

import gc
import weakref
from array import array
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from pyrmq.broker.requests.checked_pull import CheckedPull
from pyrmq.engine import Store
from pyrmq.model.codes import ResponseCode
from pyrmq.model.subscription import java_hash
from pyrmq.net.command import Response
from pyrmq.net.server import parked
from pyrmq.net.server.parked import ParkedPulls
from tests.support.build import FakeConnection, open_store

FOUND, NOT_FOUND = ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND
UNUSED: Any = None
LOOK = 4
"""Messages a pull asks for, and queue entries that one filtered read of them looks at here."""


class World:
    """Parked pulls, and what was answered: (pull, response, seconds since the start)."""

    def __init__(self, root: Path) -> None:
        self.store: Store = open_store(root, max_filter_bytes=LOOK * 20)
        self.store.set_topic("T", read_queues=4, write_queues=4)
        self.answers: list[tuple[Any, Response, float]] = []
        self.parked = ParkedPulls(self.store, self._answer)
        self.connection: Any = FakeConnection()
        self.start = 0.0

    def _answer(self, connection: Any, command: Any, response: Response) -> None:
        """The command stands for the pull that was parked with it."""
        self.answers.append((command, response, trio.current_time() - self.start))

    def park(self, seconds: float, *tags: str, queue: int = 0, offset: int = 0, **more: Any) -> Any:
        codes = array("i", [java_hash(t) for t in tags])
        pull = CheckedPull(self.store, "T", queue, offset, LOOK, codes)
        self.park_it(pull, seconds, **more)
        return pull

    def park_it(self, pull: Any, seconds: float, **more: Any) -> bool:
        return self.parked.park(more.get("connection", self.connection), pull, pull, seconds)

    def put(self, tag: str = "", queue: int = 0) -> None:
        self.store.put("T", queue, f"body-{tag}".encode(), f"TAGS\x01{tag}\x02" if tag else "")

    def arrive(self, *tags: str, queue: int = 0) -> None:
        """Messages come, and are reported together."""
        for tag in tags or ("",):
            self.put(tag, queue)
        self.parked.wake()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.start = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.parked.run)
            await trio.testing.wait_all_tasks_blocked()
            yield
            nursery.cancel_scope.cancel()

    def codes(self) -> list[int]:
        return [response.code for _, response, _ in self.answers]

    def pulls(self) -> list[Any]:
        return [pull for pull, _, _ in self.answers]


def body(response: Response) -> bytes:
    return b"".join(bytes(piece) for piece in response.body)  # type: ignore[union-attr]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(parked, "TURN_SECONDS", 3600.0)  # however slow the machine is
    made = World(tmp_path / "store")
    yield made
    made.store.close()


async def test_time_runs_out(world: World, autojump_clock: trio.testing.MockClock) -> None:
    async with world.running():
        world.park(15)
        await trio.sleep(14.9)
        assert world.answers == []
        await trio.sleep(0.2)
    ((_, response, at),) = world.answers
    assert at == pytest.approx(15, abs=0.01)
    assert response.code == NOT_FOUND
    assert response.ext["nextBeginOffset"] == 0
    assert world.parked.count == 0


async def test_every_pull_has_its_own_deadline(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    """Also one that comes later and ends sooner than what is waited for."""
    async with world.running():
        pulls = [world.park(seconds, queue=n) for n, seconds in enumerate((30, 3, 12, 0.5))]
        await trio.sleep(40)
    assert world.pulls() == [pulls[3], pulls[1], pulls[2], pulls[0]]
    times = [at for _, _, at in world.answers]
    assert times == pytest.approx([0.5, 3, 12, 30], abs=0.01)


async def test_a_message_answers_at_once(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    async with world.running():
        pull = world.park(15)
        world.park(15, queue=1)
        world.arrive()
        assert world.pulls() == [pull]
        assert world.codes() == [FOUND]
        assert b"body-" in body(world.answers[0][1])
        assert world.answers[0][1].ext["nextBeginOffset"] == 1
        assert world.parked.count == 1
        await trio.sleep(60)
    assert world.codes() == [FOUND, NOT_FOUND]  # once each


async def test_all_pulls_of_a_queue_are_answered(world: World) -> None:
    pulls = {world.park(15) for _ in range(3)}
    world.arrive()
    assert set(world.pulls()) == pulls
    assert world.codes() == [FOUND] * 3


async def test_later_pulls_are_woken_as_well(world: World) -> None:
    """The engine reports a queue once per request: parking again asks again."""
    for offset in range(3):
        world.park(15, offset=offset)
        world.arrive()
    assert world.codes() == [FOUND] * 3


async def test_a_message_that_came_before_it_was_parked(world: World) -> None:
    """Between the read that found nothing and the request for a report."""
    world.put()
    world.park(15)
    assert world.codes() == [FOUND]
    assert world.parked.count == 0


async def test_nothing_arrived(world: World) -> None:
    world.park(15)
    world.parked.wake()
    assert world.answers == []
    world.arrive(queue=3)
    assert world.answers == []


async def test_another_tag_is_waited_past(world: World) -> None:
    pull = world.park(15, "A")
    for count in range(1, 4):
        world.arrive("B")
        assert world.answers == []
        assert pull.offset == count  # not looked at again
    world.arrive("A")
    ((_, response, _),) = world.answers
    assert response.code == FOUND
    assert response.ext["nextBeginOffset"] == 4
    assert body(response).count(b"body-") == 1
    assert b"body-A" in body(response)


async def test_tags_of_several_pulls(world: World) -> None:
    first, second, every = world.park(15, "A"), world.park(15, "B", "C"), world.park(15)
    world.arrive("C")
    assert set(world.pulls()) == {second, every}
    world.arrive("A")
    assert world.pulls()[2:] == [first]


async def test_a_tag_behind_others_in_one_report(world: World) -> None:
    pull = world.park(15, "A")
    world.arrive("B", "B", "A")
    assert world.pulls() == [pull]
    assert world.codes() == [FOUND]


@pytest.mark.parametrize("unwanted", [LOOK, 2 * LOOK, 3 * LOOK, 10 * LOOK])
async def test_a_tag_behind_more_than_one_read_looks_at(world: World, unwanted: int) -> None:
    """A burst of unwanted messages may be longer than what one filtered read covers; the wanted
    one behind it is there and must not wait for the deadline."""
    pull = world.park(15, "A")
    world.arrive(*["B"] * unwanted, "A")
    assert world.pulls() == [pull]
    assert world.codes() == [FOUND]
    assert b"body-A" in body(world.answers[0][1])


async def test_time_runs_out_behind_unwanted_messages(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    """The answer says where to go on, so that the client does not look at them again."""
    async with world.running():
        world.park(15, "A")
        world.arrive("B", "B")
        await trio.sleep(16)
    ((_, response, _),) = world.answers
    assert response.code == NOT_FOUND
    assert response.ext["nextBeginOffset"] == 2


async def test_a_connection_that_ends_is_forgotten(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    other: Any = FakeConnection()
    async with world.running():
        for queue in range(3):
            world.park(15, queue=queue)
        kept = world.park(15, connection=other)
        assert len(world.connection.on_close) == 1
        world.connection.close()
        assert world.parked.count == 1
        world.arrive()
        assert world.pulls() == [kept]
        await trio.sleep(60)
    assert world.pulls() == [kept]
    assert world.parked.count == 0


async def test_closing_after_the_answer(world: World) -> None:
    world.park(15)
    world.arrive()
    world.connection.close()
    assert world.codes() == [FOUND]


async def test_flush_answers_everything(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    async with world.running():
        for queue in range(4):
            world.park(15, queue=queue)
        world.parked.flush()
        assert world.codes() == [NOT_FOUND] * 4
        assert world.parked.count == 0
        await trio.sleep(60)
    assert len(world.answers) == 4


@dataclass(eq=False)
class FailingPull:
    topic: str = "T"
    queue_id: int = 0
    offset: int = 0
    cost: int = 1000

    def read(self) -> Response:
        raise OSError("disk")

    read_on = read


async def test_a_read_that_fails_is_answered(world: World) -> None:
    world.park_it(FailingPull(), 15)
    world.arrive()
    ((_, response, _),) = world.answers
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "disk")


async def test_no_more_than_the_bounds_are_parked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parked, "MAX_PER_CONNECTION", 2)
    monkeypatch.setattr(parked, "MAX_PARKED", 3)
    other: Any = FakeConnection()
    codes = array("i")
    pulls = [CheckedPull(world.store, "T", 0, 0, LOOK, codes) for _ in range(5)]
    assert [world.park_it(p, 15) for p in pulls[:3]] == [True, True, False]
    assert [world.park_it(p, 15, connection=other) for p in pulls[3:]] == [True, False]
    assert world.parked.count == 3


async def test_no_more_bytes_than_the_bounds_are_parked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tags and expressions may be long."""
    plain = CheckedPull(world.store, "T", 0, 0, LOOK, array("i"))
    tagged = CheckedPull(world.store, "T", 0, 0, LOOK, array("i", range(5000)))
    monkeypatch.setattr(parked, "MAX_BYTES_PER_CONNECTION", tagged.cost + plain.cost)
    monkeypatch.setattr(parked, "MAX_BYTES", tagged.cost + 2 * plain.cost)
    other: Any = FakeConnection()
    assert [world.park_it(p, 15) for p in (tagged, tagged, plain, plain)] == [1, 0, 1, 0]
    assert [world.park_it(p, 15, connection=other) for p in (tagged, plain, plain)] == [0, 1, 0]
    world.connection.close()
    assert world.park_it(tagged, 15, connection=other), "who left gives its bytes back"


async def test_many_pulls_are_answered_in_turns(
    world: World, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr(parked, "TURN_SECONDS", 0)  # one at a time
    ticks = 0

    async def others() -> None:
        nonlocal ticks
        while True:
            await trio.lowlevel.checkpoint()
            ticks += 1

    async with world.running(), trio.open_nursery() as nursery:
        pulls = [world.park(3600) for _ in range(50)]
        later = [world.park(3600, offset=1) for _ in range(50)]
        world.arrive()
        assert len(world.answers) <= 1
        nursery.start_soon(others)
        while len(world.answers) < 50:
            await trio.lowlevel.checkpoint()
        assert ticks > 20, "others run in between"
        assert set(world.pulls()) == set(pulls)
        world.arrive()  # while it is under way: nobody is forgotten
        world.arrive(queue=1)
        while len(world.answers) < 100:
            await trio.lowlevel.checkpoint()
        assert set(world.pulls()) == {*pulls, *later}
        nursery.cancel_scope.cancel()


async def test_a_message_that_comes_while_others_are_woken(
    world: World, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """Pulls that were read before it came are read again."""
    monkeypatch.setattr(parked, "TURN_SECONDS", 0)
    async with world.running():
        for _ in range(5):
            world.park(3600, "B")
        world.arrive("A")
        world.arrive("B")
        await trio.sleep(1)
        assert world.codes() == [FOUND] * 5


async def test_deadlines_of_many_pulls_are_met_in_turns(
    world: World, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr(parked, "TURN_SECONDS", 0.000_001)
    async with world.running():
        for _ in range(200):
            world.park(15)
        await trio.sleep(15.1)
        assert world.codes() == [NOT_FOUND] * 200


async def test_what_is_parked_keeps_no_deadline_alive(world: World) -> None:
    """Of a pull that is answered, or whose connection is gone, nothing stays."""
    pull = FailingPull()
    kept = weakref.ref(pull)
    world.park_it(pull, 3600)
    del pull
    world.connection.close()
    gc.collect()
    assert kept() is None


async def test_nobody_waits_longer_than_the_bound(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    async with world.running():
        world.park(10**9)
        await trio.sleep(parked.MAX_SECONDS + 0.1)
        assert world.codes() == [NOT_FOUND]


async def test_so_many_reads_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind very many unwanted messages the client goes on from there by itself."""
    monkeypatch.setattr("pyrmq.broker.requests.checked_pull.MAX_READS", 2)
    world.park(15, "A")
    world.arrive(*["B"] * 10 * LOOK, "A")
    assert world.codes() == [ResponseCode.PULL_RETRY_IMMEDIATELY]
    assert world.answers[0][1].ext["nextBeginOffset"] == 2 * LOOK


async def test_nothing_is_parked_after_a_flush(world: World) -> None:
    world.parked.flush()
    assert not world.park_it(CheckedPull(world.store, "T", 0, 0, LOOK, array("i")), 15)


async def test_deadlines_of_answered_pulls_do_not_pile_up(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    async with world.running():
        for offset in range(3000):
            world.park(3600, offset=offset)
            world.arrive()
        await trio.sleep(10)
        assert len(world.parked._deadlines) <= 1024
    assert len(world.answers) == 3000


class OnDisk:
    """A store of which nothing is in memory."""

    def get(self, *args: Any, wait: bool, **options: Any) -> None:
        assert not wait, "the event loop waits for the disk"

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        return 3, 90


def test_a_parked_pull_of_what_is_on_disk_only_is_sent_on_to_pull_it() -> None:
    store: Any = OnDisk()
    pull = CheckedPull(store, "T", 0, 7, LOOK, array("i"))
    for response in (pull.read(), pull.read_on()):
        assert response is not None
        assert response.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        bounds = [response.ext[name] for name in ("minOffset", "nextBeginOffset", "maxOffset")]
        assert bounds == [3, 7, 90]


async def test_pulls_of_topics_that_are_gone(world: World) -> None:
    world.store.set_topic("U", read_queues=4, write_queues=4)
    pulls = [world.park(9, queue=0), world.park(9, queue=3)]
    other = CheckedPull(world.store, "U", 0, 0, LOOK, array("i"))
    world.park_it(other, 9)
    world.parked.end({"T", "None"}, lambda topic: Response(17, topic))
    assert sorted(map(id, world.pulls())) == sorted(map(id, pulls))
    assert [(r.code, r.remark) for _, r, _ in world.answers] == [(17, "T")] * 2
    assert world.parked.count == 1
