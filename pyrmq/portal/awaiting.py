"""What the clients for asyncio are made of: calls that are awaited, generators, calls back into the
asyncio loop, the context manager."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import partial, update_wrapper, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import trio

from pyrmq.client.user_functions import failure
from pyrmq.errors import ClientError
from pyrmq.portal.client import ASYNCIO, C, PortalClient, in_words, reading
from pyrmq.portal.thread import Portal

P = ParamSpec("P")
R = TypeVar("R")


def awaited(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """A client's method, awaited in asyncio."""

    async def call(self: Any, /, *args: P.args, **options: P.kwargs) -> R:
        client: Client[Any] = self
        return await client._call(method, client._client, *args, **options)

    update_wrapper(call, method)
    call.__doc__ = in_words(method.__doc__, ASYNCIO)
    return call


def streamed(
    method: Callable[Concatenate[Any, P], AsyncIterator[R]],
) -> Callable[Concatenate[Any, P], AsyncGenerator[R, None]]:
    """An async generator of a client, as one of asyncio. If you stop before its end, close it
    (`contextlib.aclosing`)."""

    def call(self: Any, /, *args: P.args, **options: P.kwargs) -> AsyncGenerator[R, None]:
        return _read(self._portal, partial(method, self._client, *args, **options))

    update_wrapper(call, method)
    call.__doc__ = in_words(method.__doc__, ASYNCIO)
    return call


async def _read(portal: Portal, make: Callable[[], AsyncIterator[R]]) -> AsyncGenerator[R, None]:
    entered, held = portal.open(reading(make))
    try:
        found = await asyncio.wrap_future(entered)
        while values := await asyncio.wrap_future(portal.submit(found.take)):
            for value in values:
                yield value
    finally:
        portal.close(held)


class Calls:
    """Calls functions of an asyncio program from the portal, in the loop in which the
    client was entered."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, function: Callable[..., Awaitable[R]], *args: Any) -> R:
        """Waits for a coroutine function; a cancellation here cancels it there."""
        assert self.loop is not None
        done = trio.Event()
        token = trio.lowlevel.current_trio_token()

        async def run() -> R:
            return await function(*args)

        try:
            future: Future[R] = asyncio.run_coroutine_threadsafe(run(), self.loop)
        except RuntimeError as e:
            raise ClientError(f"the asyncio loop has ended: {e}") from e

        def ended(_: object) -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(done.set)

        future.add_done_callback(ended)
        try:
            await done.wait()
        except trio.Cancelled:
            future.cancel()
            raise
        if future.cancelled():
            raise ClientError("the call was cancelled in the asyncio loop")
        return future.result()


def bridge(
    function: Callable[..., Awaitable[R]], calls: Calls, *, awaited: bool = False
) -> Callable[..., Coroutine[Any, Any, R]]:
    """The function, called in the asyncio loop. If it raises something that is no Exception, that
    becomes a RuntimeError, so that it does not end the tasks of the portal, unless user code has
    `awaited` the call."""

    @wraps(function)
    async def call(*args: Any) -> R:
        try:
            return await calls(function, *args)
        except trio.Cancelled:
            raise
        except BaseException as e:
            if awaited or isinstance(e, Exception):
                raise
            raise failure(e) from e

    return call


class Client(PortalClient[C]):
    """A client as a context manager of asyncio; leaving it drains."""

    def __init__(self, client: C, calls: Calls | None = None) -> None:
        super().__init__(client)
        self._calls = calls or Calls()

    async def _call(self, call: Callable[..., Awaitable[R]], *args: Any, **options: Any) -> R:
        return await asyncio.wrap_future(self._submit(call, *args, **options))

    async def start(self) -> Self:
        """The same as entering an `async with`: connects. Call `close` afterwards."""
        return await self.__aenter__()

    async def close(self) -> None:
        """The same as leaving an `async with`: sends held messages, unregisters from the brokers,
        and returns when that is done. Does nothing if the client was not started, or is already
        closed."""
        if self._opened is not None:
            await self.__aexit__(None, None, None)

    async def __aenter__(self) -> Self:
        self._calls.loop = asyncio.get_running_loop()
        entered = self._open()
        try:
            await asyncio.wrap_future(entered)
        except BaseException:
            await self._left()
            raise
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self._inherited:
            await self._left()

    async def _left(self) -> None:
        # To its end, also when the task is cancelled meanwhile: others use the thread.
        ended = asyncio.wrap_future(self._close())
        cancelled: asyncio.CancelledError | None = None
        while not ended.done():
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError as e:
                cancelled = e
            except Exception:
                break
        await asyncio.get_running_loop().run_in_executor(None, self._closed)
        if cancelled is not None:
            raise cancelled
        ended.result()
