"""What runs in a transaction, what answers for it afterwards, and what became of it.
[TransactionListener]

Functions may be `async def` or plain `def`. Async ones run in the caller's task, plain ones in a
worker thread, where they may block. The outcome is always a state: a missing or invalid result, or
an exception, counts as UNKNOWN, and the broker asks later. `TransactionFunction` is a listener that
is made of two functions, the first of which is decorated.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import trio

from pyrmq.client.user_functions import call_in_thread, is_async
from pyrmq.errors import ClientError
from pyrmq.escape import escape
from pyrmq.model.message import Message, MessageQueue, ReceivedMessage, SendResult
from pyrmq.model.transaction import TransactionState

log = logging.getLogger(__name__)

MAX_REMARK = 1000
"""Characters of an error that are sent to the broker."""

State = TransactionState | None
Answer = State | Awaitable[State]
Execute = Callable[[Message, Any], Answer]
Check = Callable[[ReceivedMessage], Answer]


class TransactionListener(Protocol):
    """Runs the local transaction of a half message, and checks its outcome later."""

    def execute_local_transaction(self, message: Message, arg: Any, /) -> Answer:
        """Runs when the broker has the half. `message.transaction_id` identifies the transaction:
        store under it, in the same local transaction, whatever `check_local_transaction` needs."""
        ...

    def check_local_transaction(self, message: ReceivedMessage, /) -> Answer:
        """Runs when the broker got no outcome and asks. It may run in any producer of the group,
        several times, and while the local transaction is still running: return UNKNOWN to be asked
        again."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """A state, and the error that made it UNKNOWN."""

    state: TransactionState
    error: Exception | None = None

    @property
    def remark(self) -> str | None:
        """The error's text for the broker's log."""
        if self.error is None:
            return None
        try:
            text = f"{type(self.error).__name__}: {self.error}"
        except Exception:
            text = type(self.error).__name__
        return text[:MAX_REMARK].encode(errors="replace").decode()


async def outcome_of(
    function: Callable[..., Answer],
    *args: object,
    threads: trio.CapacityLimiter,
    abandon: bool = False,
) -> Outcome:
    """Calls a listener's function. `abandon`: a cancellation leaves its thread running, as for a
    check, which no task waits for."""
    try:
        if is_async(function):
            answer = function(*args)
        else:
            answer = await call_in_thread(
                function, *args, limiter=threads, abandon=abandon, awaited=not abandon
            )
        state = await answer if inspect.isawaitable(answer) else answer
        if state is None:
            return Outcome(TransactionState.UNKNOWN)
        if not isinstance(state, TransactionState):
            raise TypeError(f"a transaction's outcome is a TransactionState, not {state!r:.100}")
    except Exception as e:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        log.exception("%s failed: the outcome of the transaction is UNKNOWN", escape(name))
        return Outcome(TransactionState.UNKNOWN, e)
    return Outcome(state)


@dataclass(frozen=True, slots=True)
class TransactionSendResult(SendResult):
    """Where the half was stored, the state of its local transaction, and that transaction's
    error."""

    local_state: TransactionState = TransactionState.UNKNOWN
    error: Exception | None = None

    @classmethod
    def of(cls, sent: SendResult, outcome: Outcome) -> TransactionSendResult:
        """The result of a half, with the outcome of its local transaction."""
        return cls(
            sent.status,
            sent.msg_id,
            sent.offset_msg_id,
            sent.queue,
            sent.queue_offset,
            sent.transaction_id,
            sent.region_id,
            sent.trace_on,
            local_state=outcome.state,
            error=outcome.error,
        )


@dataclass(frozen=True, slots=True)
class TransactionStatistics:
    """Counters since the start; `checks_waiting` and `checks_running` are current numbers.

    `committed`, `rolled_back` and `unknown` count outcomes of local transactions, `ends_failed`
    outcomes that no broker has confirmed. If a check was dropped or its answer failed, the broker
    asks again.
    """

    halves_sent: int
    committed: int
    rolled_back: int
    unknown: int
    ends_failed: int
    checks_answered: int
    checks_dropped: int
    checks_failed: int
    checks_unreadable: int
    checks_waiting: int
    checks_running: int


class TransactionSender(Protocol):
    """The methods of `TransactionalProducer` that a transaction function uses."""

    def listener_of(self, topic: str) -> TransactionListener | None:
        """The listener for transactions of a topic."""

    async def send_in_transaction(
        self,
        message: Message,
        arg: Any = None,
        *,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
        check_immunity: int | None = None,
    ) -> TransactionSendResult:
        """Sends a half, runs the local transaction and sends its outcome."""


class TransactionFunction:
    """A local transaction as a function: call it to send a message in it.

    `TransactionalProducer.transaction` creates it; its `check` decorates the function that answers
    for it later.
    """

    def __init__(self, producer: TransactionSender, execute: Execute) -> None:
        self.__name__: str = getattr(execute, "__name__", type(execute).__name__)
        self.__doc__ = execute.__doc__
        self.__wrapped__ = execute
        self._producer = producer
        self.execute_local_transaction: Execute = execute
        self.check_local_transaction: Check = self._no_check

    def check(self, function: Check) -> Check:
        """Decorates the function that returns the state of a transaction."""
        self.check_local_transaction = function
        return function

    @property
    def has_check(self) -> bool:
        return self.check_local_transaction != self._no_check

    def _no_check(self, message: ReceivedMessage) -> TransactionState:
        return TransactionState.UNKNOWN

    async def __call__(
        self,
        message: Message,
        arg: Any = None,
        *,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
        check_immunity: int | None = None,
    ) -> TransactionSendResult:
        """As `TransactionalProducer.send_in_transaction` with this function."""
        if self._producer.listener_of(message.topic) is not self:
            raise ClientError(
                f"topic {message.topic} is not one of transaction {self.__name__}: "
                "its checks would go elsewhere"
            )
        return await self._producer.send_in_transaction(
            message, arg, queue=queue, timeout=timeout, check_immunity=check_immunity
        )
