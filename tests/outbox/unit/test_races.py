"""A check beside a local transaction that is not over: whatever the order, what was answered is
what happened."""

from __future__ import annotations

import functools
import itertools
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.orm import Session

from pyrmq.model.message import Message
from pyrmq.model.transaction import TransactionState
from pyrmq.outbox import Outbox
from tests.outbox.shop import SECONDS, Database, Gate, message, on_commit, place_order, received
from tests.support.thorough import seeds

COMMIT, ROLLBACK, UNKNOWN = (
    TransactionState.COMMIT,
    TransactionState.ROLLBACK,
    TransactionState.UNKNOWN,
)


@pytest.mark.parametrize("raising", [False, True])
def test_a_check_of_a_running_transaction_is_not_answered(
    database: Database, raising: bool
) -> None:
    gate = Gate()

    def work(session: Session, sent: Message, arg: object) -> None:
        place_order(session, sent, arg)
        gate.stop_here()
        if raising:
            raise ValueError("no")

    sent = message()
    local, checking = database.outbox(work), database.outbox()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(local.execute_local_transaction, sent, None)
        gate.wait()
        assert checking.check_local_transaction(received(sent)) is UNKNOWN
        assert checking.check_local_transaction(received(sent)) is UNKNOWN
        gate.open()
        assert future.result(SECONDS) is (ROLLBACK if raising else COMMIT)
    assert checking.check_local_transaction(received(sent)) is (ROLLBACK if raising else COMMIT)
    assert len(database.orders()) == (not raising)


def test_a_transaction_of_this_process_may_wait_for_its_turn(database: Database) -> None:
    """It has no row yet, and its own outbox does not decide against it."""
    gate, engine = Gate(), database.engine()

    def before(connection: object, cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT INTO pyrmq_outbox"):
            gate.stop_here()

    event.listen(engine, "before_cursor_execute", before)
    sent, outbox = message(), database.outbox(place_order, engine=engine)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(outbox.execute_local_transaction, sent, None)
        gate.wait()
        assert outbox.check_local_transaction(received(sent)) is UNKNOWN
        gate.open()
        assert future.result(SECONDS) is COMMIT
    assert outbox.check_local_transaction(received(sent)) is COMMIT


def test_a_check_waits_for_a_transaction_that_is_about_to_end(database: Database) -> None:
    """With a longer lock_timeout the answer is there as soon as the local transaction is."""
    gate = Gate()

    def work(session: Session, sent: Message, arg: object) -> None:
        gate.stop_here()

    sent = message()
    local, engine = database.outbox(work), database.engine()
    checking = database.outbox(engine=engine, lock_timeout=SECONDS)

    def let_local_end(connection: object, cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT"):
            gate.open()

    event.listen(engine, "before_cursor_execute", let_local_end)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(local.execute_local_transaction, sent, None)
        gate.wait()
        assert checking.check_local_transaction(received(sent)) is COMMIT
        assert future.result(SECONDS) is COMMIT


def test_a_local_transaction_after_the_check_does_nothing(database: Database) -> None:
    def work(session: Session, sent: Message, arg: object) -> None:
        raise AssertionError("it is decided already")

    sent = message()
    assert database.outbox().check_local_transaction(received(sent)) is ROLLBACK
    assert database.outbox(work).execute_local_transaction(sent, None) is ROLLBACK
    assert database.outbox().check_local_transaction(received(sent)) is ROLLBACK
    assert database.rows() == {sent.properties["UNIQ_KEY"]: "ROLLBACK"}


@pytest.mark.parametrize("failing", [False, True])
def test_a_local_transaction_that_meets_a_check_waits_for_it(
    database: Database, failing: bool
) -> None:
    """The check has inserted its row and not committed; the local insert comes then."""
    sent, gate, inserting = message(), Gate(), threading.Event()
    engine, local_engine = database.engine(), database.engine()
    checking = database.outbox(engine=engine)
    local = database.outbox(place_order, engine=local_engine)

    def hold(connection: Connection) -> None:
        if connection.info.pop("inserted", False):
            gate.stop_here()
            if failing:
                raise ConnectionError("the check is lost")

    def inserted(connection: Connection, cursor: object, statement: str, *_: object) -> None:
        connection.info["inserted"] = statement.startswith("INSERT")

    def about_to(connection: object, cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT"):
            inserting.set()

    event.listen(engine, "after_cursor_execute", inserted)
    event.listen(local_engine, "before_cursor_execute", about_to)
    with ThreadPoolExecutor(2) as pool, on_commit(engine, hold):
        check = pool.submit(checking.check_local_transaction, received(sent))
        gate.wait()
        running = pool.submit(local.execute_local_transaction, sent, None)
        assert inserting.wait(SECONDS)
        gate.open()
        assert check.result(SECONDS) is (UNKNOWN if failing else ROLLBACK)
        assert running.result(SECONDS) is (COMMIT if failing else ROLLBACK)
    assert len(database.orders()) == failing


class Steps:
    """Lets a thread go on one step at a time: it stops before each statement on the outbox table,
    before each COMMIT and wherever `stop` is called.

    No clock says that it waits for the other thread: it is inserting its row while the other one
    has inserted one and has not ended its SQL transaction. `patient` is the thread that waits as
    long as it has to (with its first row); another one gives up by itself, and is waited for."""

    def __init__(
        self, database: Database, changed: threading.Condition, patient: bool = False
    ) -> None:
        # SQLite gives up by itself after five seconds unless it is told otherwise.
        options: dict[str, Any] = {}
        if not database.postgresql:
            options["connect_args"] = {"timeout": SECONDS}
        self.engine = database.engine(**options)
        self._changed = changed
        self._patient = patient
        self._free = True
        event.listen(self.engine, "before_cursor_execute", self._before)
        event.listen(self.engine, "after_cursor_execute", self._after)
        event.listen(self.engine, "handle_error", self._failed)
        event.listen(self.engine, "rollback", self._ends)
        event.listen(self.engine, "commit", self._commits)

    def begin(self, other: Steps, start: Callable[[], Future[TransactionState]]) -> None:
        """Begins anew, with a thread that runs to its first step."""
        self._other = other
        self._free = self._stopped = self._inserting = self._holds = self._ending = False
        self._permits = self._inserts = 0
        self.future = start()
        self.future.add_done_callback(self._over)
        self._wait_for(self._settled)

    def stop(self) -> None:
        if self._free:
            return
        with self._changed:
            self._stopped = True
            self._let_go_if_ended()
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._permits or self._free, SECONDS)
            self._permits -= 1
            self._stopped = False

    def step(self) -> None:
        """Until it is at its next step, is over, or waits for the other one; and until the other
        one is there again if this step lets it go on."""
        if self.future.done():
            return
        with self._changed:
            if self._waits():
                return
            self._permits += 1
            self._stopped = False
            self._changed.notify_all()
        self._wait_for(lambda: self._settled() and self._other._settled())

    def free(self) -> None:
        with self._changed:
            self._free = True
            self._changed.notify_all()

    def _wait_for(self, what: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(what, SECONDS), "a thread came nowhere"

    def _settled(self) -> bool:
        return self._stopped or self.future.done() or self._waits()

    def _waits(self) -> bool:
        first = self._patient and self._inserts == 1
        return first and self._inserting and self._other._holds

    def _before(self, connection: object, cursor: object, text: str, *_: object) -> None:
        if "pyrmq_outbox" not in text or self._free:
            return
        self.stop()
        if text.startswith("INSERT"):
            with self._changed:
                self._inserting = True
                self._inserts += 1
                self._changed.notify_all()

    def _after(self, connection: object, cursor: object, text: str, *_: object) -> None:
        with self._changed:
            if not self._free and self._inserting:
                self._inserting, self._holds = False, True

    def _failed(self, context: object) -> None:
        with self._changed:
            self._inserting = False

    def _commits(self, connection: Connection) -> None:
        self.stop()
        self._ends(connection)

    def _ends(self, connection: Connection) -> None:
        """The database ends its SQL transaction before it comes to its next step."""
        self._ending = True

    def _let_go_if_ended(self) -> None:
        if self._ending:
            self._holds = self._ending = False

    def _over(self, future: Future[TransactionState]) -> None:
        with self._changed:
            self._holds = False
            self._changed.notify_all()


CHECK_STEPS = 4
"""select, commit, insert, commit."""


@pytest.mark.parametrize("raising", [False, True])
def test_every_order_of_steps(database: Database, raising: bool) -> None:
    """All interleavings of a local transaction with a check, one database row for each.

    The steps of the first: insert, work, confirm, commit; or insert, work, rollback and then those
    of a check, of which the last run freely."""
    seen: set[tuple[TransactionState, TransactionState]] = set()
    local_steps = 5 if raising else 4
    places = list(itertools.combinations(range(local_steps + CHECK_STEPS), CHECK_STEPS))
    changed = threading.Condition()
    local, check = Steps(database, changed, patient=True), Steps(database, changed)

    def work(session: Session, sent: Message, arg: object) -> None:
        place_order(session, sent, arg)
        local.stop()
        if raising:
            raise ValueError("no")

    outbox = database.outbox(work, engine=local.engine, lock_timeout=0.01)
    checking = database.outbox(engine=check.engine, lock_timeout=0.01)
    checking.check_local_transaction(received(message()))  # it asks for its identity once
    last = database.outbox()
    with ThreadPoolExecutor(2) as pool:
        for checks_at in places:
            sent = message()
            execute, ask = outbox.execute_local_transaction, checking.check_local_transaction
            local.begin(check, functools.partial(pool.submit, execute, sent, None))
            check.begin(local, functools.partial(pool.submit, ask, received(sent)))
            for place in range(local_steps + CHECK_STEPS):
                (check if place in checks_at else local).step()
            local.free()
            check.free()
            said, answered = local.future.result(SECONDS), check.future.result(SECONDS)
            seen.add((said, answered))
            _agree(last, sent, {said, answered}, database.orders())
    if not raising:
        assert seen == {(COMMIT, COMMIT), (ROLLBACK, ROLLBACK), (COMMIT, UNKNOWN)}
    else:
        assert {local for local, _ in seen} <= {ROLLBACK, UNKNOWN}


def _agree(outbox: Outbox, sent: Message, said: set[TransactionState], orders: set[str]) -> None:
    """Nobody contradicts anybody, and the last word is what the data show."""
    final = outbox.check_local_transaction(received(sent))
    assert final is (COMMIT if sent.properties["UNIQ_KEY"] in orders else ROLLBACK)
    assert said - {UNKNOWN} <= {final}, f"{said} beside {final}"


@pytest.mark.parametrize("seed", seeds("outbox-races"))
def test_many_at_once(database: Database, seed: int) -> None:
    """Local transactions, each with two checks that start at the same moment."""
    dice = random.Random(seed)
    outboxes = [database.outbox(place_order), database.outbox(), database.outbox()]

    def ask(outbox: Outbox, sent: Message) -> TransactionState:
        return outbox.check_local_transaction(received(sent))

    with ThreadPoolExecutor(9) as pool:
        for _ in range(12):
            messages = [message() for _ in range(3)]
            barrier = threading.Barrier(9)

            def together(
                call: Callable[[], TransactionState], barrier: threading.Barrier = barrier
            ) -> TransactionState:
                barrier.wait(SECONDS)
                return call()

            calls: list[tuple[Message, Callable[[], TransactionState]]] = []
            for sent in messages:
                calls.append(
                    (sent, lambda sent=sent: outboxes[0].execute_local_transaction(sent, None))
                )
                calls += [(sent, lambda o=o, s=sent: ask(o, s)) for o in outboxes[1:]]
            dice.shuffle(calls)
            futures = [(sent, pool.submit(together, call)) for sent, call in calls]
            answers = [(sent, future.result(SECONDS)) for sent, future in futures]
            orders = database.orders()
            for sent in messages:
                said = {state for other, state in answers if other is sent}
                _agree(outboxes[1], sent, said, orders)
