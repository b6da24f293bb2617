"""Pops that wait: bounds, lines, and whom messages wake. The store tells what the test says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
import trio.testing

from pyrmq.broker.pop import waits as module
from pyrmq.broker.pop.waits import Key, Waits
from pyrmq.net.command import ReplyTo, Response
from tests.support.build import FakeConnection

TO = ReplyTo(200050, 0, 1, 0)
FULL, OVER = Response(209), Response(210)
ANY: Key = ("T", "G", -1)


@pytest.fixture(autouse=True)
def long_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn ends when all is done, however slow the machine is."""
    monkeypatch.setattr(module, "TURN_SECONDS", 60.0)


class Told:
    """A store of queues that grow when the test says so."""

    def __init__(self) -> None:
        self.watched: set[tuple[str, int]] = set()

    def notify_on_arrival(self, topic: str, queue_id: int) -> None:
        self.watched.add((topic, queue_id))


@dataclass(eq=False)
class Asked:
    """A request that finds what is in `left`, one message at a time."""

    left: list[int]
    key: Key = ANY
    topics: tuple[str, ...] = ("T", "%RETRY%G_T")
    cost: int = 10
    tries: int = 0

    def again(self, nth: int) -> tuple[Response | None, bool]:
        self.tries += 1
        if not self.left:
            return None, False
        return Response(0, str(self.left.pop())), bool(self.left)

    def over(self) -> Response:
        return OVER


@dataclass
class Stage:
    queues: dict[str, int] = field(default_factory=lambda: {"T": 2})
    in_line: int = 100
    in_all: int = 1000
    answers: list[tuple[Any, Response]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = Told()
        store: Any = self.store
        answer: Callable[..., None] = lambda c, to, r: self.answers.append((c, r))  # noqa: E731
        self.waits = Waits(store, self.queues.get, answer, lambda: (self.in_line, self.in_all))

    def park(self, asked: Asked, connection: Any = None, seconds: float = 60.0) -> Any:
        connection = connection or FakeConnection()
        self.waits.park(connection, TO, asked, seconds, self.waits.reports, FULL)
        return connection

    @property
    def codes(self) -> list[int]:
        return [response.code for _, response in self.answers]


async def test_a_message_wakes_the_first_of_a_line_and_no_other() -> None:
    stage, left = Stage(in_line=1000), []
    asked = [Asked(left) for _ in range(1000)]
    for one in asked:
        stage.park(one)
    before = sum(one.tries for one in asked)
    left.append(1)
    stage.waits.arrived(("T", 1))
    assert stage.codes == [0]
    assert sum(one.tries for one in asked) == before + 1
    assert stage.waits.waiting(ANY) == 999


async def test_what_is_left_wakes_the_next_one() -> None:
    stage, left = Stage(), []
    for _ in range(5):
        stage.park(Asked(left))
    left += [1, 2, 3]
    stage.waits.arrived(("T", 0))
    assert stage.codes == [0, 0, 0]
    assert len(stage.waits) == 2


async def test_queues_and_retry_topics_that_wake() -> None:
    stage, tries = Stage({"T": 2, "%RETRY%G_T": 1}), []
    one = Asked([], key=("T", "G", 1))
    stage.park(one)
    assert stage.store.watched == {("T", 0), ("T", 1), ("%RETRY%G_T", 0)}
    for queue in (("T", 0), ("T", 1), ("%RETRY%G_T", 0), ("U", 0)):
        before = one.tries
        stage.waits.arrived(queue)
        tries.append(one.tries - before)
    assert tries == [0, 1, 1, 0]


async def test_a_retry_topic_that_is_made_later() -> None:
    stage = Stage()
    one = Asked([])
    stage.park(one)
    stage.queues["%RETRY%G_T"] = 1
    one.left.append(1)
    stage.waits.topics_changed()
    await run_a_bit(stage.waits)
    assert stage.codes == [0], "a message may have come before its queue was watched"
    assert ("%RETRY%G_T", 0) in stage.store.watched


async def test_a_message_that_came_while_a_thread_read_is_found() -> None:
    stage, left = Stage(), []
    stage.park(Asked([]))  # so that the queues are watched already
    seen = stage.waits.reports
    stage.waits.arrived(("T", 0))
    late = Asked(left, key=("T", "other", -1))
    left.append(1)
    stage.waits.park(FakeConnection(), TO, late, 60.0, seen, FULL)  # type: ignore[arg-type]
    assert stage.codes == [0]


async def test_no_more_than_may_in_a_line_and_in_all() -> None:
    stage = Stage(in_line=2, in_all=3)
    for _ in range(3):
        stage.park(Asked([]))
    assert stage.codes == [209]
    for group in ("H", "I"):
        stage.park(Asked([], key=("T", group, -1)))
    assert stage.codes == [209, 209]
    assert len(stage.waits) == 3


async def test_no_more_bytes_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 30)
    monkeypatch.setattr(module, "MAX_BYTES_PER_CONNECTION", 20)
    stage = Stage()
    connection = stage.park(Asked([]))
    stage.park(Asked([]), connection)
    stage.park(Asked([]), connection)
    assert stage.codes == [209]
    stage.park(Asked([]))
    stage.park(Asked([]))
    assert stage.codes == [209, 209]
    stage.waits.connection_gone(connection)
    stage.park(Asked([]))
    assert len(stage.waits) == 2


async def run_a_bit(waits: Waits) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waits.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def test_time_is_over(autojump_clock: trio.testing.MockClock) -> None:
    stage = Stage()
    stage.park(Asked([]), seconds=3)
    stage.park(Asked([]), seconds=1)
    stage.park(Asked([]), seconds=1e9)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.waits.run)
        await trio.sleep(1.5)
        assert stage.codes == [210]
        await trio.sleep(2)
        assert stage.codes == [210, 210]
        await trio.sleep(module.MAX_SECONDS)
        assert stage.codes == [210, 210, 210]
        nursery.cancel_scope.cancel()


async def test_who_waits_is_answered_when_a_topic_goes_and_at_the_stop() -> None:
    stage = Stage({"T": 1, "U": 1})
    stage.park(Asked([]))
    stage.park(Asked([], key=("U", "G", -1), topics=("U",)))
    stage.waits.end({"T"}, lambda topic: Response(17, topic))
    assert [(r.code, r.remark) for _, r in stage.answers] == [(17, "T")]
    stage.waits.stop()
    assert stage.codes == [17, 210]
    stage.park(Asked([]))
    assert stage.codes == [17, 210, 209]


async def test_one_that_fails_is_told_and_the_next_is_woken() -> None:
    class Broken(Asked):
        def again(self, nth: int) -> tuple[Response | None, bool]:
            raise RuntimeError("of the test")

    stage = Stage()
    stage.waits._mark_all(("T",))
    stage.park(Broken([]))
    good = Asked([])
    stage.park(good)
    good.left.append(1)
    stage.waits.arrived(("T", 0))
    assert stage.codes == [1, 0]
    assert "RuntimeError" not in (stage.answers[0][1].remark or "")


async def test_what_a_turn_has_no_time_for_is_done_in_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TURN_SECONDS", 0.0)
    stage, left = Stage(), []
    for _ in range(4):
        stage.park(Asked(left))
    await run_a_bit(stage.waits)
    left += [1, 2, 3]
    stage.waits.arrived(("T", 0))
    assert len(stage.codes) == 1
    await run_a_bit(stage.waits)
    assert stage.codes == [0, 0, 0]
