"""Calling functions of users: async ones and plain ones, which run in worker threads."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

import trio


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
