"""What a consumer holds of a queue: the offset it may commit, and when pulling pauses."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pyrmq.client.consumer import process_queue
from pyrmq.client.consumer.process_queue import (
    RETAKEN,
    TRANSITIONS,
    Event,
    Limits,
    ProcessQueue,
    State,
)
from pyrmq.errors import ClientError
from pyrmq.model.message import MessageQueue
from pyrmq.net.clock import now_ms
from tests.support.build import received

QUEUE = MessageQueue("T", "b", 0)


class CommitOffset(RuleBasedStateMachine):
    """Pulls with gaps (filtered messages) and messages finished in any order, beside the set of
    offsets that are not finished."""

    START = 7

    def __init__(self) -> None:
        super().__init__()
        self.queue = ProcessQueue(QUEUE, self.START)
        self.unfinished: set[int] = set()
        self.next = self.START
        self.last = self.START

    @rule(gaps=st.lists(st.integers(1, 4), max_size=5), behind=st.integers(0, 4))
    def pull(self, gaps: list[int], behind: int) -> None:
        at = self.next - 1
        offsets = []
        for gap in gaps:
            at += gap
            offsets.append(at)
        self.queue.put(received(o, size=o % 3) for o in offsets)
        self.unfinished.update(offsets)
        self.next = at + 1 + behind
        self.queue.advance(self.next)

    @precondition(lambda self: self.unfinished)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.unfinished)))
        self.queue.finish(offset)
        self.unfinished.discard(offset)

    @rule(offset=st.integers(0, 100))
    def finish_what_is_not_held(self, offset: int) -> None:
        if offset not in self.unfinished:
            self.queue.finish(offset)

    @invariant()
    def commits_up_to_the_first_unfinished(self) -> None:
        offset = self.queue.commit_offset()
        assert offset == min(self.unfinished, default=self.next)
        assert offset >= self.last
        self.last = offset

    @invariant()
    def is_never_full(self) -> None:
        assert not self.queue.is_full()


TestCommitOffset = CommitOffset.TestCase


def test_an_unfinished_message_holds_the_offset_back() -> None:
    queue = ProcessQueue(QUEUE, 0)
    queue.put(received(o) for o in range(3))
    queue.advance(3)
    queue.finish(1)
    queue.finish(2)
    assert queue.commit_offset() == 0
    queue.finish(0)
    assert queue.commit_offset() == 3


def test_the_offset_never_goes_back() -> None:
    """Also when the broker says to go on from an earlier place."""
    queue = ProcessQueue(QUEUE, 50)
    queue.advance(60)
    assert queue.commit_offset() == 60
    queue.advance(10)
    assert queue.commit_offset() == 60


def test_full_by_count() -> None:
    queue = ProcessQueue(QUEUE, 0)
    queue.put(received(o) for o in range(process_queue.MAX_MESSAGES))
    queue.advance(process_queue.MAX_MESSAGES)
    assert not queue.is_full()
    queue.put([received(process_queue.MAX_MESSAGES)])
    assert queue.is_full()
    queue.finish(500)
    assert not queue.is_full()


def test_full_by_bytes() -> None:
    queue = ProcessQueue(QUEUE, 0, Limits(size=100))
    queue.put([received(0, 60), received(1, 40)])
    assert not queue.is_full()
    queue.put([received(2, 1)])
    assert queue.is_full()
    queue.finish(2)
    queue.finish(2)  # counts once
    assert not queue.is_full()
    queue.put([received(3, 1)])
    assert queue.is_full()


def test_full_by_span() -> None:
    queue = ProcessQueue(QUEUE, 0)
    queue.put([received(0), received(1)])
    queue.advance(process_queue.MAX_SPAN)
    assert not queue.is_full()
    queue.advance(process_queue.MAX_SPAN + 1)
    assert queue.is_full()
    queue.finish(0)
    assert not queue.is_full()


def test_a_span_without_messages_is_not_full() -> None:
    queue = ProcessQueue(QUEUE, 0)
    queue.advance(1 << 40)
    assert not queue.is_full()


async def test_waiting_for_room(autojump_clock: trio.testing.MockClock) -> None:
    queue = ProcessQueue(QUEUE, 0)
    queue.put(received(o) for o in range(process_queue.MAX_MESSAGES + 3))
    passed = trio.Event()

    async def pull() -> None:
        await queue.wait_for_room()
        passed.set()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pull)
            for offset in range(3):
                await trio.testing.wait_all_tasks_blocked()
                assert not passed.is_set()
                queue.finish(offset)
            await passed.wait()


async def test_room_that_is_there_already(autojump_clock: trio.testing.MockClock) -> None:
    queue = ProcessQueue(QUEUE, 0)
    with trio.fail_after(5):
        await queue.wait_for_room()


async def test_what_pauses_pulling_is_counted(autojump_clock: trio.testing.MockClock) -> None:
    queue = ProcessQueue(QUEUE, 0, Limits(messages=1, span=5))
    queue.put([received(0), received(1)])
    with trio.move_on_after(1):
        await queue.wait_for_room()
    queue.finish(1)
    queue.advance(6)
    with trio.move_on_after(1):
        await queue.wait_for_room()
    assert queue.paused_by == {"messages": 1, "span": 1}


def test_queues_in_order_have_no_span() -> None:
    queue = ProcessQueue(QUEUE, 0, Limits(span=None))
    queue.put([received(0)])
    queue.advance(1 << 30)
    assert not queue.is_full()


# The way of a queue.


def test_all_states_are_reached_and_all_but_the_last_are_left() -> None:
    reached = {state for row in TRANSITIONS.values() for state in row.values()}
    assert set(TRANSITIONS) == set(State) == reached
    assert [state for state, row in TRANSITIONS.items() if not row] == [State.GONE]


def test_what_is_given_up_stays_given_up() -> None:
    own = {State.TAKING, State.HELD}
    for state in set(State) - own:
        assert not own & set(TRANSITIONS[state].values()), state


HAPPEN: dict[Event, Callable[[ProcessQueue], object]] = {
    Event.FOUND: lambda queue: queue.found(3),
    Event.ASSIGNED: ProcessQueue.assigned,
    Event.UNASSIGNED: ProcessQueue.unassigned,
    Event.ENDED: ProcessQueue.ended,
    Event.LOST: ProcessQueue.lost,
    Event.RESET: lambda queue: queue.reset(4),
    Event.SOUGHT: lambda queue: queue.seek(5),
    Event.RELEASED: ProcessQueue.released,
}


def way_to(state: State) -> list[Event]:
    """The events of a shortest way from the first state to this one."""
    ways: dict[State, list[Event]] = {State.TAKING: []}
    waiting = [State.TAKING]
    while state not in ways:
        reached = waiting.pop(0)
        for event, following in TRANSITIONS[reached].items():
            if following not in ways:
                ways[following] = [*ways[reached], event]
                waiting.append(following)
    return ways[state]


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("event", list(Event))
async def test_transitions(state: State, event: Event) -> None:
    queue = ProcessQueue(QUEUE, 0)
    for before in way_to(state):
        HAPPEN[before](queue)
    assert queue.state is state
    if event in TRANSITIONS[state]:
        HAPPEN[event](queue)
        assert queue.state is TRANSITIONS[state][event]
        own = queue.state in (State.TAKING, State.HELD)
        assert queue.dropped is queue.scope.cancel_called is not own
    else:
        with pytest.raises(ClientError, match=f"{event.name} in the state {state.name}"):
            HAPPEN[event](queue)
        assert queue.state is state


class Way(RuleBasedStateMachine):
    """A queue beside the facts that decide what is written when it is given up, and whether it is
    taken again: each fact by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.start_anew()

    @rule()
    def start_anew(self) -> None:
        self.queue = ProcessQueue(QUEUE)
        self.begun = self.given_up = self.forfeited = self.again = self.gone = False
        self.given: int | None = None
        self.sought: int | None = None

    @precondition(lambda self: not self.begun and not self.given_up)
    @rule(start=st.integers(0, 9))
    def found(self, start: int) -> None:
        self.queue.found(start)
        self.begun = True

    @precondition(lambda self: self.begun and not self.gone)
    @rule(count=st.integers(1, 5))
    def consume(self, count: int) -> None:
        self.queue.advance(self.queue.next_offset + count)

    @precondition(lambda self: not self.gone)
    @rule()
    def assigned(self) -> None:
        self.queue.assigned()
        self.again |= self.given_up

    @precondition(lambda self: not self.gone)
    @rule()
    def unassigned(self) -> None:
        self.queue.unassigned()
        self.given_up, self.again, self.sought = True, False, None

    @precondition(lambda self: not self.gone)
    @rule()
    def ended(self) -> None:
        self.queue.ended()
        self.given_up = True

    @precondition(lambda self: not self.gone)
    @rule()
    def lost(self) -> None:
        self.queue.lost()
        self.given_up = self.forfeited = self.again = True

    @precondition(lambda self: not self.gone)
    @rule(offset=st.integers(100, 109))
    def reset(self, offset: int) -> None:
        self.queue.reset(offset)
        self.given_up, self.again, self.given = True, True, offset

    @precondition(lambda self: not self.gone)
    @rule(offset=st.integers(200, 209))
    def seek(self, offset: int) -> None:
        self.queue.seek(offset)
        self.given_up, self.forfeited, self.sought = True, True, offset

    @precondition(lambda self: self.given_up and not self.gone)
    @rule()
    def released(self) -> None:
        before = self.queue.released()
        self.gone = True
        assert (before is State.SEEKING) is (self.sought is not None)
        if self.sought is not None:
            assert self.queue.sought == self.sought
        else:
            assert (before in RETAKEN) is self.again

    @invariant()
    def agrees(self) -> None:
        queue = self.queue
        assert queue.dropped is self.given_up
        assert (queue.state is State.HELD) is (self.begun and not self.given_up)
        assert (queue.state is State.GONE) is self.gone
        if self.gone:
            return
        assert queue.forfeited is self.forfeited
        kept = not self.given_up or self.again or self.sought is not None
        assert queue.wanted is kept
        written = queue.commit_offset() if self.begun else None
        if self.given is not None:
            written = self.given
        if self.forfeited:
            written = None
        assert queue.offset_to_write(automatic=True) == written
        assert queue.is_reset() is (self.given is not None and not self.forfeited)
        if not queue.is_reset():
            assert queue.offset_to_write(automatic=False) is None


TestWay = Way.TestCase


def test_only_its_own_file_changes_a_queue() -> None:
    """In the package of consumers nobody else assigns what a ProcessQueue has."""
    source = Path(process_queue.__file__)
    (own,) = (
        node
        for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == "ProcessQueue"
    )
    names = {target.attr for target in assigned(own)}
    assert {"state", "dropped", "paused", "committed", "locked_at", "last_pull"} <= names
    for file in sorted(source.parent.glob("*.py")):
        if file == source:
            continue
        for target in assigned(ast.parse(file.read_text())):
            if isinstance(target.value, ast.Name) and target.value.id == "self":
                continue
            assert target.attr not in names, f"{file.name}:{target.lineno}: {target.attr}"


def assigned(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Attributes that are assigned, deleted, or changed in place by an operator."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield node


def test_a_queue_that_was_just_taken_does_not_look_blocked() -> None:
    before = now_ms()
    queue = ProcessQueue(QUEUE)
    queue.put([received(0)])
    assert before <= queue.last_consume <= now_ms()
