"""What a consumer holds of a queue: the offset it may commit, and when pulling pauses."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pyrmq.client.consumer import process_queue
from pyrmq.client.consumer.process_queue import (
    TRANSITIONS,
    Event,
    Limits,
    ProcessQueue,
    State,
)
from pyrmq.errors import ClientError
from pyrmq.model.message import MessageQueue
from tests.unit.build import received

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


def test_each_state_but_the_last_can_be_left() -> None:
    assert {state for state, _ in TRANSITIONS} == set(State) - {State.GONE}
    assert set(TRANSITIONS.values()) == set(State) - {State.TAKING}


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("event", list(Event))
async def test_transitions(state: State, event: Event) -> None:
    queue = ProcessQueue(QUEUE, 0)
    queue.state = state
    if (state, event) in TRANSITIONS:
        queue.move(event)
        assert queue.state is TRANSITIONS[state, event]
        assert queue.dropped is queue.scope.cancel_called is (event is Event.DROPPED)
    else:
        with pytest.raises(ClientError, match=f"{event.name} in the state {state.name}"):
            queue.move(event)
        assert queue.state is state
