"""A check beside a local transaction that is not over: whatever the order, what was answered is
what happened."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.orm import Session

from pyrmq.model.message import Message
from pyrmq.model.transaction import TransactionState
from pyrmq.outbox import Outbox
from tests.support.thorough import seeds

from .shop import SECONDS, Database, Gate, message, on_commit, place_order, received

COMMIT, ROLLBACK, UNKNOWN = (
    TransactionState.COMMIT,
    TransactionState.ROLLBACK,
    TransactionState.UNKNOWN,
)
STEP_SECONDS = 0.01
"""How long a thread that does not come to its next step counts as waiting for the other."""


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
    before each COMMIT and wherever `stop` is called."""

    def __init__(self, database: Database) -> None:
        self.engine = database.engine()
        self.again()
        event.listen(self.engine, "before_cursor_execute", self._on_statement)
        event.listen(self.engine, "commit", lambda connection: self.stop())

    def again(self) -> None:
        self._permits = threading.Semaphore(0)
        self._arrived = threading.Semaphore(0)
        self._free = False

    def _on_statement(self, connection: object, cursor: object, text: str, *_: object) -> None:
        if "pyrmq_outbox" in text:
            self.stop()

    def stop(self) -> None:
        if not self._free:
            self._arrived.release()
            assert self._permits.acquire(timeout=SECONDS)

    def step(self, future: Future[TransactionState]) -> None:
        """Until it is at its next step, is over, or waits for somebody else."""
        self._permits.release()
        if not future.done():
            self._arrived.acquire(timeout=STEP_SECONDS)

    def free(self) -> None:
        self._free = True
        self._permits.release(100)


LOCAL_STEPS, CHECK_STEPS = 5, 4
"""begin: insert, work, confirm, commit; select, commit, insert, commit."""


@pytest.mark.parametrize("raising", [False, True])
def test_every_order_of_steps(database: Database, raising: bool) -> None:
    """All interleavings of a local transaction with a check, one database row for each."""
    seen: set[tuple[TransactionState, TransactionState]] = set()
    places = list(itertools.combinations(range(LOCAL_STEPS + CHECK_STEPS), CHECK_STEPS))
    local, check = Steps(database), Steps(database)

    def work(session: Session, sent: Message, arg: object) -> None:
        place_order(session, sent, arg)
        local.stop()
        if raising:
            raise ValueError("no")

    outbox = database.outbox(work, engine=local.engine, lock_timeout=0.01)
    checking = database.outbox(engine=check.engine, lock_timeout=0.01)
    last = database.outbox()
    with ThreadPoolExecutor(2) as pool:
        for checks_at in places:
            sent = message()
            local.again()
            check.again()
            running = pool.submit(outbox.execute_local_transaction, sent, None)
            asked = pool.submit(checking.check_local_transaction, received(sent))
            for place in range(LOCAL_STEPS + CHECK_STEPS):
                if place in checks_at:
                    check.step(asked)
                else:
                    local.step(running)
            local.free()
            check.free()
            said, answered = running.result(SECONDS), asked.result(SECONDS)
            seen.add((said, answered))
            _agree(last, sent, {said, answered}, database.orders())
    if not raising:
        assert {(COMMIT, COMMIT), (ROLLBACK, ROLLBACK), (COMMIT, UNKNOWN)} <= seen
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
