"""The table of pyrmq/txn/machine.py against what engine, service and processors really do.

One half is led through events, by whichever way they come in: the engine's fast path, the broker's
slow one, a check pass, an operator; restarts in between change nothing. What each event leaves in
the log, answers and asks must be what the table says.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyrmq.broker.requests.transactions import TransactionProcessor
from pyrmq.engine import Listener, Session, Store, Transactions
from pyrmq.net.server.answers import WhenConfirmed, send_answer
from pyrmq.net.server.dispatch import Dispatcher
from pyrmq.txn import Rules, TransactionService
from pyrmq.txn.machine import TABLE, Action, Event, PendingHalf, State
from tests.store.tools import open_store, read_queue
from tests.store.waiting import indexed
from tests.support import scratch
from tests.support.records import Record, decode_record
from tests.support.thorough import examples
from tests.support.transactions import (
    COMMIT,
    HALF_TOPIC,
    OP_TOPIC,
    OVERFLOW_TOPIC,
    RESUME_CHECK_HALF_MESSAGE,
    ROLLBACK,
    UNKNOWN,
    Half,
    end_command,
    half_command,
    stored_half,
)
from tests.support.wire import Command, FrameReader, decode, encode

BORN = int(time.time() * 1000)
TIME_OUT, RESERVED = 6_000, 1_000_000_000
"""ms. RESERVED is far more than a test session lasts: stores put the clock's time, not BORN."""
FAR = 1 << 60
MANY = 10_000


@dataclass(frozen=True, slots=True)
class Seen:
    """What stands in the log, and what waits."""

    halves: int
    delivered: int
    discarded: int
    named: frozenset[int]
    pending: tuple[PendingHalf, ...]


class Connection:
    """As much of a connection as answers need."""

    closed = False
    peer = "the test"
    times = None

    def __init__(self) -> None:
        self.sent = b""

    def send(self, *pieces: Any) -> None:
        self.sent += b"".join(bytes(piece) for piece in pieces)


class Producers:
    def __init__(self) -> None:
        self.present = True
        self.asked: list[Command] = []

    def reachable(self, group: str, topic: str) -> bool:
        return self.present

    def pick(self, group: str, topic: str, turn: int) -> Any:
        return self._send if self.present else None

    def _send(self, frame: bytes) -> None:
        self.asked.append(decode(frame))


class AtOnce:
    """Nothing waits for a disk here. Stands in for `pyrmq.net.server.unconfirmed`."""

    def answer(self, connection: Any, command: Command, answer: WhenConfirmed) -> None:
        send_answer(connection, command, answer.response)


class Stage:
    """A broker without sockets and with a clock that is set by hand."""

    def __init__(self, root: Path, immunity: int | None) -> None:
        self.root = root
        self.immunity = immunity
        self.settled_as = COMMIT
        """The word that settled it last."""
        self.now = BORN
        self.producers = Producers()
        self._open()
        properties = {} if immunity is None else {"CHECK_IMMUNITY_TIME_IN_SECONDS": str(immunity)}
        command = half_command("T", properties=properties, change={"g": str(BORN)})
        answer = self.call(command)
        assert answer is not None
        self.half = stored_half(command, answer)

    def _open(self) -> None:
        self.store: Store = open_store(self.root, index_slots=64, index_entries=512)
        for topic in ("T", OVERFLOW_TOPIC):
            self.store.set_topic(topic, read_queues=4, write_queues=4)
        engine = Transactions(self.store.native)
        self.service = TransactionService(
            self.store,
            engine,
            Rules(TIME_OUT, 1000, MANY, RESERVED),
            producers=self.producers,
            broker_name="broker-a",
            message_id=lambda phys: f"{phys:032X}",
            now=lambda: self.now,
        )
        self.session = Session(
            Listener(self.store.native, transactions=engine), b"\x7f\0\0\1", 40_000
        )
        processor = TransactionProcessor(self.service)
        self.dispatcher = Dispatcher("stage", {37: processor.end, 323: processor.resume}, AtOnce())

    def restart(self) -> None:
        self.store.close()
        self._open()
        indexed(self.store)

    def call(self, command: Command) -> Command | None:
        connection: Any = Connection()
        connection.send(self.session.feed_bytes(encode(command), 0) or b"")
        while (found := self.session.next_command()) is not None:
            self.dispatcher.process(connection, found)
        answers = FrameReader().feed(connection.sent)
        assert len(answers) <= 1
        return answers[0] if answers else None

    # What there is.

    def pending(self) -> tuple[PendingHalf, ...]:
        return tuple(
            PendingHalf(*f) for f in self.service.engine.due(FAR, 0, 0, 0, 0, FAR, 99, 99)[0]
        )

    def records(self, topic: str) -> list[Record]:
        return read_queue(self.store, topic, 0)

    def seen(self) -> Seen:
        ops = [n for r in self.records(OP_TOPIC) for n in r.body.decode().split(",") if n]
        return Seen(
            len(self.records(HALF_TOPIC)),
            len(self.records("T")),
            len(self.records(OVERFLOW_TOPIC)),
            frozenset(map(int, ops)),
            self.pending(),
        )

    # Events.

    @property
    def other_word(self) -> int:
        return ROLLBACK if self.settled_as == COMMIT else COMMIT

    def end(self, word: int, copy: int, from_check: bool) -> int | None:
        """END_TRANSACTION that names a copy of the half: 0 is the first."""
        halves = self.records(HALF_TOPIC)
        record = halves[copy % len(halves)]
        half = Half(
            group=self.half.group,
            unique_key=self.half.unique_key,
            queue_id=0,
            queue_offset=record.queue_offset,
            phys=record.physical_offset,
            offset_msg_id="",
            transaction_id=self.half.unique_key,
        )
        answer = self.call(end_command(half, word, from_check=from_check))
        return None if answer is None else answer.code

    def resume(self) -> int | None:
        where = self.records(OVERFLOW_TOPIC) or self.records(HALF_TOPIC)
        command = Command(RESUME_CHECK_HALF_MESSAGE, {"msgId": where[-1].offset_msg_id})
        answer = self.call(command)
        return None if answer is None else answer.code

    def check_pass(self, age: int, check_max: int = MANY, reachable: bool = True) -> None:
        self.now = BORN + age
        self.producers.present = reachable
        self.service.checker.rules = Rules(TIME_OUT, 1000, check_max, RESERVED)
        trio.run(self.service.check_pass)

    def happens(self, event: Event, copy: int, from_check: bool) -> int | None:
        """Makes an event; the answer's code, None if there was none."""
        grace = max(TIME_OUT, (self.immunity or 0) * 1000)
        limit = TIME_OUT if self.immunity is None else self.immunity * 1000
        self.now = BORN + grace
        match event:
            case Event.COMMIT:
                return self.end(COMMIT, copy, from_check)
            case Event.ROLLBACK:
                return self.end(ROLLBACK, copy, from_check)
            case Event.OTHERWISE:
                return self.end(self.other_word, copy, from_check)
            case Event.UNKNOWN:
                return self.end(UNKNOWN, copy, from_check)
            case Event.TOO_LATE:
                self.now = BORN + grace + 1
                waits = bool(self.pending())
                word = (COMMIT if copy % 2 else ROLLBACK) if waits else self.settled_as
                return self.end(word, copy, False)
            case Event.RESUME:
                return self.resume()
            case Event.YOUNG:
                self.check_pass(limit)
            case Event.DUE:
                self.check_pass(limit + 1)
            case Event.UNREACHABLE:
                self.check_pass(limit + 1, reachable=False)
            case Event.EXHAUSTED:
                self.check_pass(limit + 1, check_max=self.pending()[0].checks)
            case Event.EXPIRED:
                self.check_pass(2 * RESERVED, reachable=bool(copy % 2))
        return None


@contextmanager
def staged(immunity: int | None) -> Iterator[Stage]:
    root = Path(tempfile.mkdtemp(prefix="pyrmq-table-", dir=scratch.place()))
    stage = Stage(root, immunity)
    try:
        yield stage
    finally:
        stage.store.close()
        shutil.rmtree(root)


def check(
    action: Action, event: Event, before: Seen, after: Seen, code: int | None, stage: Stage
) -> None:
    """What an action leaves, compared with what was there before."""
    halves, delivered, discarded = before.halves, before.delivered, before.discarded
    named, pending = before.named, before.pending
    asked, stage.producers.asked = stage.producers.asked, []
    by_request = event in (
        Event.COMMIT, Event.ROLLBACK, Event.OTHERWISE, Event.UNKNOWN, Event.TOO_LATE, Event.RESUME
    )  # fmt: skip
    answer = 0 if by_request and event is not Event.UNKNOWN else None
    old = {half.offset for half in pending}
    match action:
        case Action.DELIVER:
            delivered, named, pending = delivered + 1, named | old, ()
        case Action.DROP:
            named, pending = named | old, ()
        case Action.SAY_TOO_LATE:
            answer = 604
        case Action.SAY_OTHERWISE:
            answer = 200 if stage.settled_as == COMMIT else 201
        case Action.ASK:
            (half,) = pending
            (copy,) = after.pending
            expected = half._replace(checks=half.checks + 1, since=copy.since)
            assert copy._replace(offset=half.offset, phys=half.phys) == expected
            (frame,) = asked
            asked = []
            assert frame.ext["tranStateTableOffset"] == str(copy.offset)
            assert frame.ext["commitLogOffset"] == str(copy.phys)
            times = decode_record(frame.body).properties["TRANSACTION_CHECK_TIMES"]
            assert times == str(copy.checks)
            halves, named, pending = halves + 1, named | old, after.pending
        case Action.DISCARD:
            discarded, named, pending = discarded + 1, named | old, ()
        case Action.DELIVER_LATE:
            delivered += 1
        case Action.REOPEN:
            (copy,) = after.pending
            assert copy.checks == 0
            stage.immunity = None  # it is over
            halves, pending = halves + 1, after.pending
        case Action.REFUSE:
            assert code not in (0, None)
            answer = code
        case Action.NOTHING | Action.SAY_SETTLED | Action.FORGET:
            pass
    assert code == answer, f"answer {code}, {answer} expected"
    assert not asked
    assert after == Seen(halves, delivered, discarded, named, pending)


steps = st.tuples(
    st.sampled_from(list(Event)), st.integers(0, 7), st.booleans(), st.sampled_from([0, 0, 0, 1])
)


def feasible(state: State, event: Event, immunity: int | None) -> bool:
    if event is Event.TOO_LATE and immunity is None:
        return False
    return (state, event) in TABLE


def walk(stage: Stage, path: list[tuple[Event, int, bool, int]]) -> list[tuple[State, Event]]:
    """Leads the half along; what the table has nothing for is left out."""
    state, done, last = State.PENDING, [], Action.NOTHING
    for event, copy, from_check, restart in path:
        if restart:
            stage.restart()
            if last is Action.FORGET:
                state = State.DISCARDED  # that is remembered in memory only
                last = Action.NOTHING
        if state is State.SETTLED and event in (Event.COMMIT, Event.ROLLBACK):
            same = (event is Event.COMMIT) == (stage.settled_as == COMMIT)
            event = event if same else Event.OTHERWISE
        if not feasible(state, event, stage.immunity):
            continue
        before = stage.seen()
        code = stage.happens(event, copy, from_check or stage.immunity is not None)
        taken, then = TABLE[state, event]
        try:
            check(taken, event, before, stage.seen(), code, stage)
        except AssertionError as e:
            raise AssertionError(f"{[*done, (state, event)]}: {taken}: {e}") from e
        done.append((state, event))
        if then is State.SETTLED and state is not then:
            stage.settled_as = COMMIT if event is Event.COMMIT else ROLLBACK
        # After a FORGET only what changes the state makes it the past.
        if taken is Action.FORGET or then is not state:
            last = taken
        state = then
    return done


@given(immunity=st.sampled_from([None, None, 0, 1, 60]), path=st.lists(steps, max_size=12))
@settings(max_examples=examples(75), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_path_is_the_table_s(
    immunity: int | None, path: list[tuple[Event, int, bool, int]]
) -> None:
    with staged(immunity) as stage:
        walk(stage, path)


WAYS = {
    State.PENDING: [],
    State.SETTLED: [Event.COMMIT],
    State.DISCARDED: [Event.DUE, Event.EXHAUSTED],
}


@pytest.mark.parametrize("restart", [0, 1], ids=["", "restarted"])
@pytest.mark.parametrize("copy", [0, 1], ids=["first", "second"])
@pytest.mark.parametrize("immunity", [None, 30])
@pytest.mark.parametrize(
    ("state", "event"), list(TABLE), ids=lambda value: value.name if value else None
)
def test_every_row_is_what_happens(
    state: State, event: Event, immunity: int | None, copy: int, restart: int
) -> None:
    """Each row by its shortest way; `copy` says which copy a request names."""
    if event is Event.TOO_LATE and immunity is None:
        return
    ways = [Event.ROLLBACK] if (state, event) == (State.SETTLED, Event.ROLLBACK) else WAYS[state]
    path = [(e, 0, True, 0) for e in [Event.DUE, *ways]]
    with staged(immunity) as stage:
        done = walk(stage, [*path, (event, copy, True, restart)])
    assert done[-1] == (state, event)


@pytest.mark.parametrize("restart", [0, 1], ids=["", "restarted"])
def test_a_commit_of_what_was_rolled_back(restart: int) -> None:
    path = [(Event.DUE, 0, True, 0), (Event.ROLLBACK, 0, True, 0), (Event.COMMIT, 0, True, restart)]
    with staged(None) as stage:
        assert walk(stage, path)[-1] == (State.SETTLED, Event.OTHERWISE)
