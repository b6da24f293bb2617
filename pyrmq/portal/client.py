"""What the clients for asyncio and for threads have in common.

That is a client of trio, and the portal while the client is open; async generators that run in the
portal's thread and are read from elsewhere; and docstrings, which are those for
trio in other words.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from functools import partial, wraps
from typing import Any, Generic, ParamSpec, TypeVar, cast

import trio

from pyrmq.errors import ClientError
from pyrmq.portal.thread import INHERITED, SHARED, Opened, Portal

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


AHEAD = 64
"""Values that are made before they are asked for, and that are handed over at a time."""


class Reading:
    """The values of a generator that runs."""

    def __init__(self, values: trio.MemoryReceiveChannel[Any]) -> None:
        self._values = values
        self.error: BaseException | None = None

    async def take(self) -> list[Any]:
        """The next values, at least one; none at the end. What the generator raised comes after
        all that it gave."""
        try:
            found = [await self._values.receive()]
        except trio.EndOfChannel:
            if self.error is not None:
                error, self.error = self.error, None
                raise error from None
            return []
        while len(found) < AHEAD:
            try:
                found.append(self._values.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                break
        return found


@asynccontextmanager
async def reading(make: Callable[[], AsyncIterator[T]]) -> AsyncIterator[Reading]:
    """Runs a generator in a task of its own until the end of the block, a little ahead of its
    reader."""
    send, receive = trio.open_memory_channel[T](AHEAD)
    reader = Reading(receive)

    async def run() -> None:
        async with send:
            try:
                async with aclosing(cast(AsyncGenerator[T, None], make())) as values:
                    async for value in values:
                        await send.send(value)
            except Exception as e:  # the reader's
                reader.error = e

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        yield reader
        nursery.cancel_scope.cancel()


_LISTENER = "an async one runs in this trio loop, a plain one in a thread"
PLAIN = (
    ("an async context manager on trio", "a context manager"),
    ("an async context manager\n    on trio", "a context manager"),
    ("an async context manager and async iterator", "a context manager and iterator"),
    ("an async context manager", "a context manager"),
    ("any number of tasks", "any number of threads"),
    ("One task polls", "One thread polls"),
    (_LISTENER, "a plain function, which runs in worker threads"),
    ("await pending  # or pending.result(); only", "pending.result()  # only"),
    ("`await pending.result()`, or `await pending`, gives", "`pending.result()` gives"),
    ("producers and consumers for trio", "producers and consumers for blocking code"),
    ("async with ", "with "),
    ("async for ", "for "),
    ("async def ", "def "),
    ("`async with`", "`with`"),
    ("await ", ""),
)
"""What stands in the docstrings for trio, and what stands in those for threads."""
ASYNCIO = (
    ("an async context manager on trio", "an async context manager on asyncio"),
    ("an async context manager\n    on trio", "an async context manager\n    on asyncio"),
    ("producers and consumers for trio", "producers and consumers for asyncio"),
    (_LISTENER, "an async function, which runs in the asyncio loop"),
)


def in_words(text: str | None, words: tuple[tuple[str, str], ...]) -> str | None:
    """A docstring in other words."""
    for there, here in words if text else ():
        assert text is not None
        text = text.replace(there, here)
    return text
