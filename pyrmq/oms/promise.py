"""What a send under way will have come to. [DefaultPromise]"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

import trio

from pyrmq.client.user_functions import in_main_thread
from pyrmq.errors import ClientError

log = logging.getLogger(__name__)
T = TypeVar("T")


def forward(promise: Promise[T], future: Future[T]) -> None:
    """Gives the future of another thread what a promise comes to."""

    def done(promise: Promise[T]) -> None:
        error = promise.exception()
        if error is None:
            future.set_result(promise.result())
        else:
            future.set_exception(error)

    promise.add_done_callback(done)


class Promise(Generic[T]):
    """A result that comes later: `await` it. The names are those of concurrent.futures.Future."""

    def __init__(self) -> None:
        self._done = trio.Event()
        self._error: Exception | None = None
        self._results: list[T] = []
        self._callbacks: list[Callable[[Promise[T]], object]] = []

    def __await__(self) -> Generator[Any, Any, T]:
        yield from self._done.wait().__await__()
        return self.result()

    def done(self) -> bool:
        """Whether it has a result, or an error."""
        return self._done.is_set()

    def result(self) -> T:
        """The result, without waiting. Raises its error, or ClientError while it has neither."""
        if self._error is not None:
            raise self._error
        if not self._results:
            raise ClientError("there is no result yet: `await` the promise")
        return self._results[0]

    def exception(self) -> Exception | None:
        """The error; None if there is a result. ClientError while there is neither."""
        if self._error is None:
            self.result()
        return self._error

    def add_done_callback(self, function: Callable[[Promise[T]], object]) -> None:
        """Calls a plain function with this promise once it is done, or at once if it is. What it
        raises is logged."""
        if self.done():
            self._call(function)
        else:
            self._callbacks.append(function)

    def set_result(self, result: T) -> None:
        """For who makes it."""
        self._results.append(result)
        self._finish()

    def set_exception(self, error: Exception) -> None:
        """For who makes it."""
        self._error = error
        self._finish()

    def _finish(self) -> None:
        self._done.set()
        callbacks, self._callbacks = self._callbacks, []
        for function in callbacks:
            self._call(function)

    def _call(self, function: Callable[[Promise[T]], object]) -> None:
        try:
            function(self)
        except BaseException as e:
            if not isinstance(e, Exception) and in_main_thread():
                raise  # it ends the program
            log.exception("a callback of a promise failed")
