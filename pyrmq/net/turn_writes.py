"""Writes what the connections of one turn of the reader have stored, and answers them.

The reader does it itself: that is done in microseconds. On a disk that is slow (`Store.stall`) a
thread does, so that nobody else is held up. The reader waits for it, and reads on once it takes
longer than osPageCacheBusyTimeOutMills; then the engine refuses new messages (SYSTEM_BUSY).
"""

from __future__ import annotations

import logging

import trio

from pyrmq.engine import BUSY, Store
from pyrmq.errors import ServiceNotAvailableError
from pyrmq.net.connection import Connection
from pyrmq.net.dispatch import Dispatcher
from pyrmq.net.unconfirmed import Unconfirmed

log = logging.getLogger(__name__)

POLL = 0.02
"""Seconds between two looks at a write that another thread does."""


class TurnWrites:
    """Knows whose answers wait for the write of this turn."""

    def __init__(
        self, name: str, store: Store, dispatcher: Dispatcher, unconfirmed: Unconfirmed
    ) -> None:
        self._name = name
        self._store = store
        self._dispatcher = dispatcher
        self._unconfirmed = unconfirmed
        self._fed: list[Connection] = []
        self._thread = trio.CapacityLimiter(1)
        self._busy_logged = False
        self.elsewhere: trio.Event | None = None
        """Set when the write is done that a thread does now."""

    def fed(self, connection: Connection) -> None:
        """The session of `connection` keeps answers that wait for the write alone."""
        self._fed.append(connection)

    def write(self) -> bool:
        """Writes and answers; whether queues have grown."""
        arrivals, error = False, None
        try:
            arrivals = self._store.write_staged()
        except Exception as e:
            error = e
        self.written(error)
        return arrivals

    def written(self, error: Exception | None) -> None:
        """What was staged has been written, or `error`: answers accordingly."""
        if isinstance(error, ServiceNotAvailableError):
            self._unconfirmed.release()  # the engine logs it, once
        elif error is not None:
            log.error("%s: messages are not stored", self._name, exc_info=error)
        if self._fed:
            fed, self._fed = self._fed, []
            self._unconfirmed.release_of(fed)

    def write_elsewhere(self, nursery: trio.Nursery) -> None:
        """Has a thread write, unless one does already; `wait` then waits for it."""
        fed, self._fed = self._fed, []
        for connection in fed:
            self._unconfirmed.note(connection)
        if self.elsewhere is None:
            self.elsewhere = trio.Event()
            nursery.start_soon(self._write_elsewhere, self.elsewhere)

    async def _write_elsewhere(self, done: trio.Event) -> None:
        arrivals = False
        try:
            arrivals = await trio.to_thread.run_sync(self._store.write_staged, limiter=self._thread)
        except ServiceNotAvailableError:
            pass  # the engine logs it, once; `release` tells those who wait
        except Exception:
            log.exception("%s: messages are not stored", self._name)
        finally:
            self.elsewhere = None
            done.set()
        if self._busy_logged:
            self._busy_logged = False
            log.warning("%s: the disk takes messages again", self._name)
        self._unconfirmed.release()
        if arrivals:
            self._dispatcher.wake_parked()

    async def wait(self) -> None:
        """Waits for the write that a thread does, until it takes too long."""
        done = self.elsewhere
        while done is not None and not done.is_set():
            if self._store.stall() == BUSY:
                if not self._busy_logged:
                    self._busy_logged = True
                    log.warning(
                        "%s: the disk hangs in a write of the commit log: messages are refused "
                        "(SYSTEM_BUSY) until it is done",
                        self._name,
                    )
                return
            with trio.move_on_after(POLL):
                await done.wait()
