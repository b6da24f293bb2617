"""What the clients for asyncio and for threads have in common: a client of trio, and the portal
while the client is open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from typing import Any, Generic, ParamSpec, TypeVar

import trio

from pyrmq.errors import ClientError
from pyrmq.portal.shared import SHARED, Opened
from pyrmq.portal.thread import INHERITED, Portal

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
C = TypeVar("C", bound=AbstractAsyncContextManager[Any])


def as_async(method: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """A method as one that is awaited, in the task of a call."""

    @wraps(method)
    async def call(*args: P.args, **options: P.kwargs) -> R:
        await trio.lowlevel.checkpoint()
        return method(*args, **options)

    return call


class PortalClient(Generic[C]):
    """A client of trio that is called through the portal. Its subclasses for asyncio and for
    threads have `_call`, which waits for the result of a call."""

    def __init__(self, client: C) -> None:
        self._client = client
        self._opened: Opened | None = None
        self._was_opened = False

    @property
    def _portal(self) -> Portal:
        if self._opened is None:
            raise ClientError("not connected: use the client inside of its `with`")
        if self._opened.portal.inherited:
            raise ClientError(INHERITED)
        if (error := self._opened.held.failure) is not None:
            raise ClientError(
                f"this client has ended by {type(error).__name__}: leave it and enter a new one"
            ) from error
        return self._opened.portal

    @property
    def _inherited(self) -> bool:
        """Whether it was opened before this process was forked. Leaving it is nothing then."""
        return self._opened is not None and self._opened.portal.inherited

    def _submit(self, call: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> Future[T]:
        return self._portal.submit(partial(call, *args, **options))

    def _open(self) -> Future[C]:
        """Begins to enter; `_closed` has to follow, also after a failure."""
        if self._inherited:
            raise ClientError(INHERITED)
        if self._was_opened:
            raise ClientError("this can be entered once only: make a new one")
        kind, group = type(self), getattr(self._client, "group", "")
        what = f"{kind.__module__}.{kind.__qualname__}" + (f" of group {group}" if group else "")
        entered, self._opened = SHARED.open(self._client, what)
        self._was_opened = True
        return entered

    def _close(self) -> Future[None]:
        """Begins to leave."""
        assert self._opened is not None
        return self._opened.leave()

    def _closed(self) -> None:
        opened, self._opened = self._opened, None
        assert opened is not None
        SHARED.release(opened)

    def __del__(self) -> None:
        opened = getattr(self, "_opened", None)
        if opened is not None and not opened.portal.inherited:
            opened.warn(self)


class Part:
    """A part of a client, such as `admin.topics`: it is called as the whole client is."""

    def __init__(self, whole: Any, part: Any) -> None:
        self._whole = whole
        self._client = part

    @property
    def _portal(self) -> Portal:
        portal: Portal = self._whole._portal
        return portal

    def _call(self, call: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
        return self._whole._call(call, *args, **options)
