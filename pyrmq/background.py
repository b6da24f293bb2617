"""Trio in a thread of its own, for programs that do not run on trio.

What is opened lives in one task there, as trio's nurseries want it; calls run in tasks of their
own.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from typing import Any, Generic, ParamSpec, TypeVar

import trio

from pyrmq.errors import ClientError
from pyrmq.escape import escape

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
C = TypeVar("C", bound=AbstractAsyncContextManager[Any])
_ENDED = "the background thread has ended"


class Background:
    """A thread that runs trio from `start` to `stop`."""

    def __init__(self, name: str = "pyrmq") -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._stop = trio.Event()

    def start(self) -> None:
        """Returns when the thread takes calls."""
        started: Future[None] = Future()
        # A daemon: a program that forgets to leave a client can still end.
        self._thread = threading.Thread(
            target=trio.run, args=(self._main, started), name=self._name, daemon=True
        )
        self._thread.start()
        started.result()

    def stop(self) -> None:
        """Ends all calls and the thread."""
        assert self._thread is not None
        self._soon(self._stop.set)
        self._thread.join()

    async def _main(self, started: Future[None]) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            started.set_result(None)
            await self._stop.wait()
            nursery.cancel_scope.cancel()

    def _soon(self, function: Callable[[], object]) -> bool:
        """Whether the thread is there to call the function."""
        assert self._token is not None
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return False
        return True

    def submit(self, call: Callable[[], Awaitable[T]]) -> Future[T]:
        """Starts a call. To cancel the future cancels the call."""
        future: Future[T] = Future()
        scope = trio.CancelScope()

        def start() -> None:
            assert self._nursery is not None
            self._nursery.start_soon(self._work, call, future, scope)

        future.add_done_callback(lambda f: f.cancelled() and self._soon(scope.cancel))
        if not self._soon(start):
            future.set_exception(ClientError(_ENDED))
        return future

    async def _work(
        self, call: Callable[[], Awaitable[T]], future: Future[T], scope: trio.CancelScope
    ) -> None:
        failure: BaseException = ClientError(_ENDED)
        try:
            with scope:
                result = await call()
                if future.set_running_or_notify_cancel():
                    future.set_result(result)
        except trio.Cancelled:
            raise
        except BaseExceptionGroup as e:
            if e.split(trio.Cancelled)[1] is None:
                raise
            failure = e
        except BaseException as e:  # the caller's: others use this thread as well
            failure = e
        finally:
            if not future.done() and future.set_running_or_notify_cancel():
                future.set_exception(failure)

    def call(self, call: Callable[[], Awaitable[T]]) -> T:
        """Waits for a call. An interruption (Ctrl-C) cancels it."""
        if threading.current_thread() is self._thread:
            raise ClientError(
                "a blocking call inside of pyrmq's own event loop would wait for itself: make it "
                "in a plain function, which runs in another thread"
            )
        future = self.submit(call)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def open(self, manager: AbstractAsyncContextManager[T]) -> tuple[Future[T], Held]:
        """Enters a context manager; the future has what it gives."""
        entered: Future[T] = Future()
        held = Held()
        held.ended = self.submit(partial(self._hold, manager, entered, held))

        def failed(ended: Future[None]) -> None:
            error = None if ended.cancelled() else ended.exception()
            if not entered.done() and entered.set_running_or_notify_cancel():
                entered.set_exception(error or ClientError(_ENDED))
            elif error is not None and not held.leave.is_set():
                log.critical(
                    "%s %s has ended by an error: it sends and receives nothing any more; leave "
                    "it and enter a new one",
                    escape(type(manager).__name__), escape(getattr(manager, "group", "")),
                    exc_info=error,
                )  # fmt: skip

        held.ended.add_done_callback(failed)
        return entered, held

    async def _hold(
        self, manager: AbstractAsyncContextManager[T], entered: Future[T], held: Held
    ) -> None:
        async with manager as value:
            if entered.set_running_or_notify_cancel():
                entered.set_result(value)
                await held.leave.wait()

    def close(self, held: Held) -> Future[None]:
        """Leaves it. What the manager raises is the future's error."""
        self._soon(held.leave.set)
        return held.ended


class Held:
    """A context manager that was entered in the background."""

    ended: Future[None]

    def __init__(self) -> None:
        self.leave = trio.Event()

    @property
    def failure(self) -> BaseException | None:
        """What has ended it before its time."""
        return self.ended.exception() if self.ended.done() and not self.ended.cancelled() else None


class Shared:
    """One thread for all who use it: it starts with the first and ends with the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._background: Background | None = None

    def acquire(self) -> Background:
        with self._lock:
            if self._background is None:
                self._background = Background()
                self._background.start()
            self._users += 1
            return self._background

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            ended = None if self._users else self._background
            if ended is not None:
                self._background = None
        if ended is not None:
            ended.stop()


SHARED = Shared()


def as_async(method: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """A method as one that is awaited, in the task of a call."""

    @wraps(method)
    async def call(*args: P.args, **options: P.kwargs) -> R:
        await trio.lowlevel.checkpoint()
        return method(*args, **options)

    return call


def complete(
    face: type, client: type, wrap: Callable[[Callable[..., Any]], Any], leave_out: set[str]
) -> None:
    """Gives a face the public methods of its client that it does not define itself."""
    for name, method in inspect.getmembers(client, inspect.isfunction):
        if not (name.startswith("_") or name in leave_out or hasattr(face, name)):
            plain = not inspect.iscoroutinefunction(method)
            setattr(face, name, wrap(as_async(method) if plain else method))


class Face(Generic[C]):
    """What the faces of a client share: the client, and the thread while it is open."""

    def __init__(self, client: C) -> None:
        self._client = client
        self._background: Background | None = None
        self._held: Held | None = None

    @property
    def _running(self) -> Background:
        if self._background is None:
            raise ClientError("not connected: use the client inside of its `with`")
        if self._held is not None and (error := self._held.failure) is not None:
            raise ClientError(
                f"this client has ended by {type(error).__name__}: leave it and enter a new one"
            ) from error
        return self._background

    def _submit(self, call: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> Future[T]:
        return self._running.submit(partial(call, *args, **options))

    def _open(self) -> Future[C]:
        """Begins to enter; `_closed` has to follow, also after a failure."""
        if self._background is not None:
            raise ClientError("this can be entered once only: make a new one")
        self._background = SHARED.acquire()
        entered, self._held = self._background.open(self._client)
        return entered

    def _close(self) -> Future[None]:
        """Begins to leave."""
        assert self._background is not None
        assert self._held is not None
        return self._background.close(self._held)

    def _closed(self) -> None:
        self._background = None
        SHARED.release()
