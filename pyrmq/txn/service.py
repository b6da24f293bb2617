"""Drives the state machine over the engine: check passes, END_TRANSACTION, progress, figures.

The engine holds pending halves (`engine.Transactions`); `machine.TABLE` picks the action; this
module carries one to the other. Time comes from trio and from `now`, so
that fifteen checks a minute apart take no time under a MockClock.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

import trio

from pyrmq.engine import Store, Transactions
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.net.clock import now_ms
from pyrmq.txn.checking import Checker, Decide, Producers
from pyrmq.txn.ending import Ender, Taking
from pyrmq.txn.machine import Rules

log = logging.getLogger(__name__)

PROGRESS_INTERVAL = 1.0


class TransactionService:
    """`producers` says whom to ask in a group. `keep_progress` stores how far all is settled (half
    offset, op offset). `overflow` sees to it that TRANS_CHECK_MAX_TIME_TOPIC exists; within
    `taking(topic)` a topic takes messages. `broker_name` and `message_id` (physical offset to
    offsetMsgId) go to producers with each check."""

    def __init__(
        self,
        store: Store,
        engine: Transactions,
        rules: Rules,
        *,
        producers: Producers,
        broker_name: str,
        message_id: Callable[[int], str],
        keep_progress: Callable[[int, int], None] = lambda half, op: None,
        overflow: Callable[[], Awaitable[None]] | None = None,
        taking: Taking = lambda topic: nullcontext(),
        now: Callable[[], int] = now_ms,
        on_exhausted: Decide | None = None,
    ) -> None:
        self.engine = engine
        self._rules = rules
        self._new_rules = trio.Event()
        self._pass_now = False
        self.ender = Ender(store, engine, rules, now, taking)
        self.checker = Checker(
            store,
            engine,
            rules,
            self.ender.discarded,
            producers=producers,
            broker_name=broker_name,
            message_id=message_id,
            overflow=overflow,
            now=now,
            on_exhausted=on_exhausted,
        )
        self._store = store
        self._keep_progress = keep_progress
        self._stopping = False
        self._now = now
        self._durable: tuple[int, int, int] | None = None
        found = engine.rebuilt()
        if any(found.values()):
            log.info("transactions found at start: %s", found)
        if found["broken"]:
            log.error(
                "%d half messages can never be settled: they cannot be read, or lack PGROUP, "
                "REAL_TOPIC or REAL_QID",
                found["broken"],
            )

    @property
    def rules(self) -> Rules:
        """By what halves are judged; new ones count at once."""
        return self._rules

    @rules.setter
    def rules(self, rules: Rules) -> None:
        self._rules = self.ender.rules = self.checker.rules = rules
        self._new_rules.set()
        self._new_rules = trio.Event()

    @property
    def on_exhausted(self) -> Decide | None:
        """Asked about a half before it is discarded."""
        return self.checker.on_exhausted

    @on_exhausted.setter
    def on_exhausted(self, decide: Decide | None) -> None:
        self.checker.on_exhausted = decide

    def check_soon(self) -> None:
        """The next check pass begins at once: a test has put the clock forward."""
        self._pass_now = True
        self._new_rules.set()
        self._new_rules = trio.Event()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run_checks)
            nursery.start_soon(self._run_progress)

    def stop(self) -> None:
        """Nobody is asked any more: the answer would come too late."""
        self._stopping = True

    async def _run_checks(self) -> None:
        while not self._stopping:
            await self._interval()
            if self._stopping:
                return
            try:
                await self.check_pass()
            except (PyrmqError, OSError) as e:
                log.error("transactions are not checked, the next pass follows: %s", escape(e))
            except Exception:  # a bug here must not take the broker down
                log.exception("a check pass failed, the next one follows")

    async def _interval(self) -> None:
        """Waits for the next check pass."""
        start = trio.current_time()
        due = False
        while not due and not self._pass_now:
            new_rules = self._new_rules
            with trio.move_on_at(start + self._rules.transaction_check_interval / 1000) as scope:
                await new_rules.wait()
            due = scope.cancelled_caught
        self._pass_now = False

    async def _run_progress(self) -> None:
        while True:
            await trio.sleep(PROGRESS_INTERVAL)
            try:
                if self._store.stall():
                    continue  # both take the put lock, which a slow write may hold
                self.engine.write_owed()
                self.note_progress()
            except (PyrmqError, OSError) as e:
                log.error("progress of transactions not kept: %s", escape(e))
            except Exception:  # as above
                log.exception("progress of transactions not kept")

    def note_progress(self) -> None:
        """Keeps how far all is settled, as far as that is on disk: a machine that loses its
        power may take back the rest, so that is not given up."""
        if self._durable is not None and self._store.flushed() >= self._durable[2]:
            self._keep_progress(*self._durable[:2])
            self._durable = None
        if self._durable is None:
            self._durable = self.engine.progress()

    async def check_pass(self) -> None:
        """Examines every half that waits, once."""
        await self.checker.check_pass()

    def stats(self) -> dict[str, int]:
        """Figures since the start: halves, commits, rollbacks, checks, discarded, lost, repeated;
        as of now: pending, owed, oldestPendingAgeMs; as of the last pass: unreachable, failed."""
        figures = dict(self.engine.stats())
        born = figures.pop("oldestBorn")
        figures["oldestPendingAgeMs"] = max(self._now() - born, 0) if figures["pending"] else 0
        figures["repeated"] = self.ender.repeated
        figures["unreachable"] = self.checker.last.unreachable
        figures["failed"] = self.checker.last.failed
        return figures
