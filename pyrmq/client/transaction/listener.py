"""The functions of a transaction: one runs it, one checks it afterwards. [TransactionListener]

Functions may be `async def` or plain `def`. Async ones run in the caller's task, plain ones in a
worker thread, where they may block. The outcome is always a state: a missing or invalid result, or
an exception, counts as UNKNOWN, and the broker asks later.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import trio

from pyrmq.escape import escape
from pyrmq.model.message import Message, ReceivedMessage
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


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call returns a coroutine; true also for objects with an async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - its kind matters, not that it is there
    )


def failure(error: BaseException, note: str = "") -> Exception:
    """Turns an exception of a user's function into one that `except Exception` catches."""
    if isinstance(error, Exception):
        return error
    found = RuntimeError(f"the function ended with {type(error).__name__}: {error}{note}")
    found.__cause__ = error
    return found


def in_main_thread() -> bool:
    """Whether a SystemExit that leaves the event loop ends the program. In another thread it would
    end only the client, and nobody would notice."""
    return threading.current_thread() is threading.main_thread()


def _in_thread(
    function: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[Any, BaseException | None]:
    """The function's result, or its exception that is no Exception. The result is in a tuple,
    because trio accepts no coroutine from a thread."""
    try:
        return function(*args), None
    except (Exception, trio.Cancelled):
        raise
    except BaseException as e:
        return None, e


async def call_in_thread(
    function: Callable[..., Any],
    *args: Any,
    limiter: trio.CapacityLimiter,
    abandon: bool = False,
    awaited: bool = False,
) -> Any:
    """Calls a plain function in a worker thread and returns its result. `abandon`: a cancellation
    leaves the thread running. An exception that is no Exception, such as asyncio's CancelledError,
    becomes a RuntimeError; SystemExit and KeyboardInterrupt are raised unchanged if they end the
    program, or if user code has `awaited` this call."""
    answer, ended = await trio.to_thread.run_sync(
        _in_thread, function, args, limiter=limiter, abandon_on_cancel=abandon
    )
    if ended is not None:
        exits = isinstance(ended, SystemExit | KeyboardInterrupt)
        if exits and (awaited or in_main_thread()):
            raise ended
        note = " (in a thread of pyrmq's this does not end the program)" if exits else ""
        raise failure(ended, note)
    return answer


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
