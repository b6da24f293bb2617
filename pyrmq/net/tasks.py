"""Background tasks of an object that is an async context manager."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Self

import trio

from pyrmq.errors import ClientError

Work = Callable[..., Awaitable[Any]]


class Tasks:
    """Runs tasks until it is left.

    A cancellation from outside does not reach them: they end when the body has ended, so that the
    body can still use them to stop in order (write offsets, answer what is in flight). An error
    of the body comes out as it is; one of a task ends the others and the body.
    """

    def __init__(self) -> None:
        self._manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._nursery: trio.Nursery | None = None
        self._leaving = False
        self._scopes: set[trio.CancelScope] = set()

    @property
    def running(self) -> bool:
        """Whether the body is under way."""
        return self._nursery is not None and not self._leaving

    async def __aenter__(self) -> Self:
        if self._manager is not None:
            raise ClientError("this can be entered once only: make a new one")
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._manager is not None
        self._leaving = True
        self._stop()
        await self._manager.__aexit__(None, None, None)

    def _stop(self) -> None:
        for scope in self._scopes:
            scope.cancel()

    def start_soon(self, work: Work, *args: Any) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(self._run, work, args)

    async def start(self, work: Work, *args: Any) -> None:
        """Starts a task that takes `task_status` and waits until it says that it runs."""
        assert self._nursery is not None
        # Not `nursery.start`: when that is cancelled it waits for the task, which is shielded.
        status = _Started()
        self._nursery.start_soon(partial(self._run, work, args, task_status=status))
        await status.event.wait()

    async def _run(self, work: Work, args: tuple[Any, ...], **status: Any) -> None:
        with trio.CancelScope(shield=True) as scope:
            self._scopes.add(scope)
            if self._leaving:
                scope.cancel()
            try:
                await work(*args, **status)
            except trio.Cancelled:
                raise
            except BaseException:
                self._stop()
                raise
            finally:
                self._scopes.discard(scope)


class _Started:
    """What a started task is given as `task_status`."""

    def __init__(self) -> None:
        self.event = trio.Event()

    def started(self, value: None = None) -> None:
        self.event.set()
