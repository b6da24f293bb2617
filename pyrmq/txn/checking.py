"""Check passes: every half that waits is examined, producers are asked, what is due is done.
[TransactionalMessageServiceImpl.check, checkProducerTransactionState]

A pass never waits long for anyone: a producer that does not read what it is sent, or a half with an
error of its own, is left for the next pass.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import trio

from pyrmq.engine import Store, Transactions
from pyrmq.errors import ResponseError, SystemBusyError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.names import HALF_TOPIC
from pyrmq.model.transaction import TransactionState
from pyrmq.net.command import encode_request
from pyrmq.txn.ending import Discarded
from pyrmq.txn.machine import TABLE, Action, Event, PendingHalf, Rules, State, tick

log = logging.getLogger(__name__)

CHUNK = 64
"""Halves that a pass decides about before other tasks run."""
EXAMINED = 20_000
"""Halves that it examines before that."""
PASS_BUDGET = 60.0
"""Seconds after which a pass ends; the next one continues where it stopped."""
BUSY_PATIENCE = 1.0
"""Seconds in all that a pass waits for the producers of one group to read their checks."""
PASS_PATIENCE = 10.0
"""The same for all groups together."""
BUSY_PAUSE = 0.02
MAX_BEHIND = 100_000
"""A half that waits for long is appended again when so many settled ones came after it, so
that a restart need not read all of those."""

Decide = Callable[[PendingHalf], Awaitable[TransactionState | None] | TransactionState | None]
"""A user's say about a half that nobody answered for: COMMIT or ROLLBACK settles it, UNKNOWN keeps
it waiting, None has it moved to TRANS_CHECK_MAX_TIME_TOPIC."""


class Busy(Enum):
    BUSY = "there are producers, but none takes more now"


BUSY = Busy.BUSY
PickedProducer = Callable[[bytes], None] | Busy | None
"""Sends a frame to the producer that was picked; BUSY: none of the group takes more now; None: the
group has none."""


class Producers(Protocol):
    def reachable(self, group: str, topic: str) -> bool:
        """Whether a group has a producer that may be asked about a topic, busy or not."""

    def pick(self, group: str, topic: str, turn: int) -> PickedProducer:
        """The producer to ask; producers take turns."""


def check_frame(
    offset: int, phys: int, key: str, record: bytes, broker_name: str, message_id: str
) -> bytes:
    """CHECK_TRANSACTION_STATE, one-way, for the half at a queue offset and physical offset;
    `record` is it as it would stand in its real topic."""
    return encode_request(
        RequestCode.CHECK_TRANSACTION_STATE,
        0,
        {
            "topic": HALF_TOPIC,
            "tranStateTableOffset": offset,
            "commitLogOffset": phys,
            "msgId": key,
            "transactionId": key,
            "offsetMsgId": message_id,
            "bname": broker_name,
        },
        record,
        oneway=True,
    )


@dataclass(slots=True)
class Pass:
    """What happened in one pass."""

    unreachable: int = 0
    """Halves that nobody could be asked about."""
    failed: int = 0
    """Halves that nothing could be done about, because of an error of their own."""
    failure: str = ""
    patience: float = PASS_PATIENCE
    waited: dict[str, float] = field(default_factory=dict)
    """Seconds waited for the producers of a group."""

    def may_wait(self, group: str) -> bool:
        return self.patience > 0 and self.waited.get(group, 0) < BUSY_PATIENCE

    def wait(self, group: str, seconds: float) -> None:
        self.patience -= seconds
        self.waited[group] = self.waited.get(group, 0) + seconds


class Checker:
    """`message_id` gives the offsetMsgId of a physical offset; `overflow` sees to it that
    TRANS_CHECK_MAX_TIME_TOPIC exists."""

    def __init__(
        self,
        store: Store,
        engine: Transactions,
        rules: Rules,
        discarded: Discarded,
        *,
        producers: Producers,
        broker_name: str,
        message_id: Callable[[int], str],
        overflow: Callable[[], Awaitable[None]] | None,
        now: Callable[[], int],
        on_exhausted: Decide | None,
    ) -> None:
        self.on_exhausted = on_exhausted
        self.passes = 0
        self.last = Pass()
        self._store = store
        self._engine = engine
        self.rules = rules
        self._discarded = discarded
        self._producers = producers
        self._broker_name = broker_name
        self._message_id = message_id
        self._overflow = overflow
        self._now = now
        self._next = 0

    async def check_pass(self) -> None:
        """Examines every half that waited when the pass began, once."""
        self.passes += 1
        self.last = met = Pass()
        _, until = self._store.queue_range(HALF_TOPIC, 0)
        start, self._next = self._next, 0
        try:
            with trio.move_on_after(PASS_BUDGET) as scope:
                await self._check_from(start, until, met)
                if start:
                    await self._check_from(0, start, met)
                self._next = 0
            if scope.cancelled_caught:
                log.warning("a check pass took more than %g s, the next one continues", PASS_BUDGET)
            await self._renew_old(until)
        finally:
            if met.failed:
                log.error(
                    "nothing could be done about %d half messages, the first because: %s",
                    met.failed,
                    escape(met.failure),
                )

    async def _check_from(self, start: int, until: int, met: Pass) -> None:
        rules = self.rules
        self._next = start
        while self._next < until:
            found, self._next = self._engine.due(
                self._now(),
                rules.transaction_time_out,
                rules.transaction_check_max,
                rules.file_reserved_time,
                self._next,
                until,
                CHUNK,
                EXAMINED,
            )
            for facts in found:
                half = PendingHalf(*facts)
                try:
                    await self._decide_when_written(half, met)
                except ResponseError as e:
                    if e.retriable:
                        raise  # the store takes nothing now: not this half's fault
                    met.failed += 1
                    met.failure = met.failure or f"{half.offset}: {e}"
            await trio.lowlevel.checkpoint()

    async def _decide_when_written(self, half: PendingHalf, met: Pass) -> None:
        """A slow disk is waited for: it takes one half after the other. The pass is bounded."""
        while True:
            try:
                return await self._decide(half, met)
            except SystemBusyError:
                await trio.sleep(BUSY_PAUSE)

    async def _decide(self, half: PendingHalf, met: Pass) -> None:
        reachable = self._producers.reachable(half.group, half.topic)
        event = tick(half, self._now(), self.rules, reachable)
        action, _ = TABLE[State.PENDING, event]
        if action is Action.ASK:
            await self._ask(half, met)
        elif action is Action.DISCARD:
            await self._discard(half, event)
        elif event is Event.UNREACHABLE:
            met.unreachable += 1

    async def _ask(self, half: PendingHalf, met: Pass) -> None:
        send = await self._available_producer(half, met)
        if send is None:
            met.unreachable += 1
            return
        for _, offset, phys, key, record in self._engine.renew([half.offset], True):
            send(check_frame(offset, phys, key, record, self._broker_name, self._message_id(phys)))

    async def _available_producer(
        self, half: PendingHalf, met: Pass
    ) -> Callable[[bytes], None] | None:
        turn = half.born_timestamp + half.checks  # the next check goes to another one
        send: PickedProducer = self._producers.pick(half.group, half.topic, turn)
        while send is BUSY and met.may_wait(half.group):
            met.wait(half.group, BUSY_PAUSE)
            await trio.sleep(BUSY_PAUSE)
            send = self._producers.pick(half.group, half.topic, turn)
        return None if send is BUSY else send

    async def _discard(self, half: PendingHalf, event: Event) -> None:
        """Moves it to TRANS_CHECK_MAX_TIME_TOPIC, unless the user decides otherwise."""
        word = await self._ask_user(half)
        if word is TransactionState.UNKNOWN or self._engine.find(half.offset) is None:
            return  # kept waiting, or settled meanwhile
        if word is not None:
            self._engine.settle(half.offset, word is TransactionState.COMMIT)
            return
        if self._overflow is not None:
            try:
                await self._overflow()
            except OSError as e:
                text = f"TRANS_CHECK_MAX_TIME_TOPIC cannot be made: {e}"
                raise ResponseError(text, ResponseCode.SYSTEM_ERROR) from e
        if self._engine.find(half.offset) is None:
            return  # settled meanwhile
        key, phys = self._engine.discard(half.offset)
        self._discarded.add((key, half.born_timestamp, half.group, half.topic), phys)
        log.error(
            "transaction %s of group %s for topic %s was moved to TRANS_CHECK_MAX_TIME_TOPIC "
            "(%s after %d checks), offset id %s",
            escape(key),
            escape(half.group),
            escape(half.topic),
            event.value,
            half.checks,
            self._message_id(phys),
            extra=about(topic=half.topic, group=half.group, transaction=key),
        )

    async def _ask_user(self, half: PendingHalf) -> TransactionState | None:
        if self.on_exhausted is None:
            return None
        try:
            word = self.on_exhausted(half)
            return await word if isinstance(word, Awaitable) else word
        except Exception as e:
            log.exception("on_exhausted failed, the half is discarded: %s", escape(e))
            return None

    async def _renew_old(self, until: int) -> None:
        """Appends again what is far behind. What waits is read at a restart in any case,
        so that does not count."""
        bound = until - MAX_BEHIND - 2 * self._engine.pending()
        while behind := self._engine.before(bound, CHUNK):
            self._engine.renew(behind, False)
            await trio.lowlevel.checkpoint()
