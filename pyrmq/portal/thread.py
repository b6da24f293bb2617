"""The portal: a thread that runs trio, and takes calls from programs that do not run on trio.

A context manager that is opened in the portal lives in one task there, as trio's nurseries need it.
Each call runs in a task of its own. A fork does not copy threads: in the child process everything
that was open is of no use, and using it raises an error.

All clients of a process share one portal: it starts with the first that opens and ends with the
last.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import warnings
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import trio

from pyrmq.errors import ClientError
from pyrmq.escape import escape

log = logging.getLogger(__name__)

T = TypeVar("T")

_ENDED = "the background thread has ended"
INHERITED = (
    "this was opened before the process was forked, and belongs to the parent: make a new one in "
    "the child (multiprocessing: in its function, gunicorn: post_fork, Celery: worker_process_init)"
)
START_TIMEOUT = 30.0
"""Seconds in which the thread has to run, also on a busy machine."""


class Portal:
    """A thread that runs trio from `start` to `stop`."""

    def __init__(self, name: str = "pyrmq") -> None:
        self._name = name
        self._process = _process
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._stop = trio.Event()

    def start(self) -> None:
        """Returns when the thread takes calls."""
        check_threads()
        started: Future[None] = Future()
        # A daemon: a program that forgets to leave a client can still end.
        self._thread = threading.Thread(
            target=self._run, args=(started,), name=self._name, daemon=True
        )
        try:
            self._thread.start()
            started.result(START_TIMEOUT)
        except (RuntimeError, TimeoutError) as e:  # no thread to be had, or one that does not run
            raise ClientError(f"pyrmq's background thread did not start: {e!r}") from e

    @property
    def inherited(self) -> bool:
        """Whether it was started before this process was forked: its thread is not here."""
        return self._process is not _process

    def stop(self) -> None:
        """Ends all calls and the thread."""
        if self.inherited:
            return
        assert self._thread is not None
        self._soon(self._stop.set)
        self._thread.join()

    def _run(self, started: Future[None]) -> None:
        try:
            trio.run(self._main, started)
        except BaseException as e:
            if started.done():
                raise
            failure = ClientError(f"pyrmq's background thread cannot run trio: {e!r}")
            failure.__cause__ = e
            started.set_exception(failure)

    async def _main(self, started: Future[None]) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            started.set_result(None)
            await self._stop.wait()
            nursery.cancel_scope.cancel()

    def _soon(self, function: Callable[[], object]) -> bool:
        """Whether the thread is there to call the function."""
        if self.inherited:
            return False
        assert self._token is not None
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return False
        return True

    def submit(self, call: Callable[[], Awaitable[T]]) -> Future[T]:
        """Starts a call, with the caller's context variables. To cancel the future cancels the
        call."""
        future: Future[T] = Future()
        scope = trio.CancelScope()
        context = copy_context()

        def start() -> None:
            assert self._nursery is not None
            context.run(self._nursery.start_soon, self._work, call, future, scope)

        future.add_done_callback(lambda f: f.cancelled() and self._soon(scope.cancel))
        if not self._soon(start):
            future.set_exception(ClientError(INHERITED if self.inherited else _ENDED))
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
        """Leaves it. What the manager raises is the future's error. In a forked child there is
        nothing to leave."""
        if self.inherited:
            nothing: Future[None] = Future()
            nothing.set_result(None)
            return nothing
        self._soon(held.leave.set)
        return held.ended


class Held:
    """A context manager that was entered in the portal."""

    ended: Future[None]

    def __init__(self) -> None:
        self.leave = trio.Event()

    @property
    def failure(self) -> BaseException | None:
        """What has ended it before its time."""
        return self.ended.exception() if self.ended.done() and not self.ended.cancelled() else None


_process = object()
"""Stands for this process: another one after a fork."""


def _in_forked_child() -> None:
    global _process
    _process = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


def check_threads() -> None:
    """ClientError where threads are none: trio would block all of them, or never run."""
    for library, module, ask, name in (
        ("gevent", "gevent.monkey", "is_module_patched", "threading"),
        ("eventlet", "eventlet.patcher", "is_monkey_patched", "thread"),
    ):
        patches = sys.modules.get(module)
        if patches is not None and getattr(patches, ask)(name):
            raise ClientError(
                f"threads are patched by {library}, and pyrmq needs real ones: use another kind of "
                "worker (gunicorn: gthread or sync; Celery: prefork or threads), or a process of "
                "its own that is not patched"
            )


EXIT_TIMEOUT = 5.0
"""Seconds that the end of the program waits for clients that were not closed."""


@dataclass(eq=False)
class Opened:
    """A client in the shared portal. Kept until it is left, also when nobody has it any more."""

    what: str
    """For errors."""
    client: Any
    portal: Portal
    held: Held
    is_reported: bool = False
    """It was said that it was not closed."""

    @property
    def unsent(self) -> int:
        """Messages that were taken, and are not answered."""
        count: int = getattr(self.client, "unsent", 0)
        return count

    def leave(self) -> Future[None]:
        """Begins to leave."""
        return self.portal.close(self.held)

    def warn(self, source: object = None) -> None:
        if not self.is_reported:
            self.is_reported = True
            text = f"{self.what} was not closed"
            warnings.warn(text, ResourceWarning, stacklevel=3, source=source)


class Shared:
    """The portal, and the clients that are open in it."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """As if nothing had been opened: in a forked child nothing has."""
        self._lock = threading.Lock()
        self._portal: Portal | None = None
        self._open: dict[Opened, None] = {}

    def open(self, client: AbstractAsyncContextManager[T], what: str) -> tuple[Future[T], Opened]:
        """Begins to enter a client; `release` has to follow, also after a failure."""
        with self._lock:
            if self._portal is None:
                portal = Portal()
                portal.start()
                self._portal = portal
            entered, held = self._portal.open(client)
            opened = Opened(what, client, self._portal, held)
            self._open[opened] = None
            return entered, opened

    def release(self, opened: Opened) -> None:
        with self._lock:
            del self._open[opened]
            ended = None if self._open else self._portal
            if ended is not None:
                self._portal = None
        if ended is not None:
            ended.stop()

    def at_exit(self) -> None:
        """The program ends: leaves what is open, within EXIT_TIMEOUT; says what was not sent."""
        left = [(opened, opened.leave()) for opened in self._open]
        wait((future for _, future in left), EXIT_TIMEOUT)
        for opened, future in left:
            opened.warn()
            error = future.exception() if future.done() and not future.cancelled() else None
            if error is not None:
                log.error("%s could not be left: %s", escape(opened.what), escape(error))
            if count := opened.unsent:
                log.error(
                    "%s was not closed when the program ended: %d messages of send_soon were not "
                    "sent, or nobody knows; use `with`, close() or flush()",
                    escape(opened.what),
                    count,
                )
                text = (
                    f"{opened.what} was not closed when the program ended: {count} messages of "
                    "send_soon were not sent, or nobody knows; use `with`, close() or flush()"
                )
                warnings.warn(text, RuntimeWarning, stacklevel=1)  # where nobody reads logs


SHARED = Shared()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SHARED.forget)
atexit.register(SHARED.at_exit)
