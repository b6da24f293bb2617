"""A server in a thread of this process: requests come through sockets, tables are looked at."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, Self, TypeVar

import trio

S = TypeVar("S")
R = TypeVar("R")
START = 30.0
"""Seconds that a server has to start."""


class InThread(Generic[S]):
    """Runs what `serving()` enters, until left. `look(f)` calls `f(server)` on its loop."""

    def __init__(self, serving: Callable[[], AbstractAsyncContextManager[S]]) -> None:
        self._serving = serving
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="server")

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as e:
            self._error = e
        finally:
            self._ready.set()

    async def _main(self) -> None:
        async with self._serving() as self._server:
            self._token = trio.lowlevel.current_trio_token()
            self._stop = trio.Event()
            self._ready.set()
            await self._stop.wait()

    def look(self, function: Callable[[S], R]) -> R:
        return trio.from_thread.run_sync(function, self._server, trio_token=self._token)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(START), "the server has not started"
        if self._error is not None:
            raise self._error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._thread.is_alive():
            trio.from_thread.run_sync(self._stop.set, trio_token=self._token)
        self._thread.join(START)
        if self._error is not None and error is None:
            raise self._error
