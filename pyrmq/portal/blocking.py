"""What the clients for threads are made of: calls that block, generators, the context manager."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial, update_wrapper
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from pyrmq.errors import ClientError
from pyrmq.portal.client import PLAIN, C, PortalClient, in_words, reading
from pyrmq.portal.thread import Portal

P = ParamSpec("P")
R = TypeVar("R")


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """A client's method that returns when it is done."""

    def call(self: Any, /, *args: P.args, **options: P.kwargs) -> R:
        client: Client[Any] = self
        return client._call(method, client._client, *args, **options)

    update_wrapper(call, method)
    call.__doc__ = in_words(method.__doc__, PLAIN)
    return call


def streamed(
    method: Callable[Concatenate[Any, P], AsyncIterator[R]],
) -> Callable[Concatenate[Any, P], Iterator[R]]:
    """An async generator of a client, as a generator. If you stop before its end, close it, or
    leave that to Python."""

    def call(self: Any, /, *args: P.args, **options: P.kwargs) -> Iterator[R]:
        return _read(self._portal, partial(method, self._client, *args, **options))

    update_wrapper(call, method)
    call.__doc__ = in_words(method.__doc__, PLAIN)
    return call


def _read(portal: Portal, make: Callable[[], AsyncIterator[R]]) -> Iterator[R]:
    entered, held = portal.open(reading(make))
    try:
        found = wait(entered)
        while values := portal.call(found.take):
            yield from values
    finally:
        with suppress(ClientError):  # the thread has ended
            wait(portal.close(held))


class Client(PortalClient[C]):
    """A client as a plain context manager; leaving it drains."""

    def _call(self, call: Callable[..., Awaitable[R]], *args: Any, **options: Any) -> R:
        return self._portal.call(partial(call, *args, **options))

    def start(self) -> Self:
        """The same as entering a `with`: connects. Call `close` afterwards."""
        return self.__enter__()

    def close(self) -> None:
        """The same as leaving a `with`: sends held messages, unregisters from the brokers, and
        returns when that is done. Does nothing if the client was not started, or is already
        closed."""
        if self._opened is not None:
            self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        entered = self._open()
        try:
            wait(entered)
        except BaseException:
            self._closed()
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._inherited:
            return
        try:
            wait(self._close())
        finally:
            self._closed()


def wait(future: Future[R]) -> R:
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
