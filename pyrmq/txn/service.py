"""Drives the state machine over the engine: check passes, END_TRANSACTION, progress, figures.

What waits is the engine's to know (`engine.Transactions`); what is to happen is the machine's to
say (`machine.TABLE`); here the one is carried to the other. Time comes from trio and from `now`, so
that fifteen checks a minute apart take no time under a MockClock.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from pyrmq.engine import Store, Transactions
from pyrmq.errors import PyrmqError, ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.names import HALF_TOPIC
from pyrmq.model.transaction import TransactionState
from pyrmq.net.clock import now_ms
from pyrmq.txn.asking import BUSY, Producers, check_frame
from pyrmq.txn.ending import Ender
from pyrmq.txn.machine import TABLE, Action, Event, PendingHalf, Rules, State, tick

log = logging.getLogger(__name__)

CHUNK = 64
"""Halves that a pass decides about before other tasks run."""
PASS_BUDGET = 60.0
"""Seconds after which a pass ends; the next one begins with those that have waited longest."""
BUSY_PATIENCE = 1.0
"""Seconds that a pass waits for a producer that does not read its checks."""
BUSY_PAUSE = 0.02
PROGRESS_INTERVAL = 1.0
MAX_BEHIND = 100_000
"""A half that waits for long is appended again when so many settled ones came after it, so
that a restart need not look through all of those."""

Decide = Callable[[PendingHalf], Awaitable[TransactionState | None] | TransactionState | None]
"""A user's say about a half that nobody answered for: COMMIT or ROLLBACK settles it, UNKNOWN keeps
it waiting, None sets it aside."""


class TransactionService:
    """`producers` says whom to ask in a group. `keep_progress` stores how far all is settled (half
    offset, op offset). `overflow` sees to it that TRANS_CHECK_MAX_TIME_TOPIC exists. `broker_name`
    and `message_id` (physical offset to offsetMsgId) are what producers are told."""

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
        now: Callable[[], int] = now_ms,
        on_exhausted: Decide | None = None,
    ) -> None:
        self.engine = engine
        self.rules = rules
        self.ender = Ender(store, engine, rules, now)
        self.on_exhausted = on_exhausted
        self._store = store
        self._producers = producers
        self._broker_name = broker_name
        self._message_id = message_id
        self._keep_progress = keep_progress
        self._overflow = overflow
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
        self.passes = 0
        self.unreachable = 0
        """Halves that the last pass could ask nobody about."""
        self.failed = 0
        """Halves that the last pass could do nothing about, because of an error of their own."""

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run_checks)
            nursery.start_soon(self._run_progress)

    async def _run_checks(self) -> None:
        while True:
            await trio.sleep(self.rules.transaction_check_interval / 1000)
            try:
                await self.check_pass()
            except (PyrmqError, OSError) as e:
                log.error("transactions are not checked, the next pass follows: %s", e)

    async def _run_progress(self) -> None:
        while True:
            await trio.sleep(PROGRESS_INTERVAL)
            try:
                self.engine.write_owed()
                self.note_progress()
            except (PyrmqError, OSError) as e:
                log.error("progress of transactions not kept: %s", e)

    def note_progress(self) -> None:
        """Keeps how far all is settled, as far as that is on disk: what a machine that loses its
        power may take back is not given up."""
        if self._durable is not None and self._store.flushed() >= self._durable[2]:
            self._keep_progress(*self._durable[:2])
            self._durable = None
        if self._durable is None:
            self._durable = self.engine.progress()

    async def check_pass(self) -> None:
        """Looks at every half that waited when the pass began, once."""
        self.passes += 1
        self.unreachable = self.failed = 0
        _, until = self._store.queue_range(HALF_TOPIC, 0)
        rules = self.rules
        deafened: set[str] = set()
        next_offset = 0
        with trio.move_on_after(PASS_BUDGET):
            while True:
                found = self.engine.due(
                    self._now(),
                    rules.transaction_time_out,
                    next_offset,
                    until,
                    CHUNK,
                    rules.transaction_check_max,
                    rules.file_reserved_time,
                )
                if not found:
                    break
                halves = [PendingHalf(*facts) for facts in found]
                await self._decide(halves, deafened)
                next_offset = halves[-1].offset + 1
                await trio.lowlevel.checkpoint()
            await self._move_up(until)

    async def _move_up(self, until: int) -> None:
        """Appends again what is far behind. What waits is looked through at a restart in any case,
        so that does not count."""
        bound = until - MAX_BEHIND - 2 * self.engine.pending()
        while behind := self.engine.before(bound, CHUNK):
            self.engine.renew(behind, False)
            await trio.lowlevel.checkpoint()

    async def _decide(self, halves: list[PendingHalf], deafened: set[str]) -> None:
        now = self._now()
        for half in halves:
            reachable = half.group not in deafened and self._producers.reachable(half.group)
            event = tick(half, now, self.rules, reachable)
            action, _ = TABLE[State.PENDING, event]
            try:
                if action is Action.ASK:
                    await self._ask(half, deafened)
                elif action is Action.SET_ASIDE:
                    await self._set_aside(half, event)
            except ResponseError as e:
                if e.retriable:
                    raise  # the store takes nothing now: not this half's fault
                self.failed += 1
                log.error("half message at queue offset %d: %s", half.offset, e)
            if event is Event.UNREACHABLE:
                self.unreachable += 1

    async def _ask(self, half: PendingHalf, deafened: set[str]) -> None:
        turn = half.born_timestamp + half.checks  # the next check goes to another one
        send = self._producers.pick(half.group, turn)
        with trio.move_on_after(BUSY_PATIENCE):
            while send is BUSY:
                await trio.sleep(BUSY_PAUSE)
                send = self._producers.pick(half.group, turn)
        if send is None or send is BUSY:
            deafened.add(half.group)
            self.unreachable += 1
            return
        for _, offset, phys, key, record in self.engine.renew([half.offset], True):
            send(check_frame(offset, phys, key, record, self._broker_name, self._message_id(phys)))

    async def _set_aside(self, half: PendingHalf, event: Event) -> None:
        """Out of the way, unless the user knows better."""
        word = await self._asked_user(half)
        if word is TransactionState.UNKNOWN or self.engine.find(half.offset) is None:
            return  # kept waiting, or settled meanwhile
        if word is not None:
            self.engine.settle(half.offset, word is TransactionState.COMMIT)
            return
        if self._overflow is not None:
            try:
                await self._overflow()
            except OSError as e:
                text = f"TRANS_CHECK_MAX_TIME_TOPIC cannot be made: {e}"
                raise ResponseError(text, ResponseCode.SYSTEM_ERROR) from e
        if self.engine.find(half.offset) is None:
            return  # settled meanwhile
        key, phys = self.engine.set_aside(half.offset)
        self.ender.late.set_aside(key, half.born_timestamp, phys)
        log.error(
            "transaction %s of group %s for topic %s is set aside (%s after %d checks): its "
            "message is in TRANS_CHECK_MAX_TIME_TOPIC, offset id %s",
            key,
            half.group,
            half.topic,
            event.value,
            half.checks,
            self._message_id(phys),
        )

    async def _asked_user(self, half: PendingHalf) -> TransactionState | None:
        if self.on_exhausted is None:
            return None
        try:
            word = self.on_exhausted(half)
            return await word if isinstance(word, Awaitable) else word
        except Exception as e:
            log.exception("on_exhausted failed, the half is set aside: %s", e)
            return None

    def stats(self) -> dict[str, int]:
        """Figures since the start: halves, commits, rollbacks, checks, setAside, lost, repeated; as
        of now: pending, owed, unreachable, oldestPendingAgeMs."""
        figures = dict(self.engine.stats())
        born = figures.pop("oldestBorn")
        figures["oldestPendingAgeMs"] = max(self._now() - born, 0) if figures["pending"] else 0
        figures["repeated"] = self.ender.repeated
        figures["unreachable"] = self.unreachable
        return figures
