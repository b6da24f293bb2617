"""Group commit: writes what the connections of one round stored, and answers them.

The reader writes by itself, as that takes microseconds. While the disk is slow (`Store.stall`), a
thread of the engine writes, so that nobody else is held up. The reader waits for that thread, and
reads on once the write takes longer than osPageCacheBusyTimeOutMills; then the engine refuses new
messages (SYSTEM_BUSY).
"""

from __future__ import annotations

import logging

import trio

from pyrmq.engine import BUSY, Store
from pyrmq.errors import ServiceNotAvailableError
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.unconfirmed import Unconfirmed

log = logging.getLogger(__name__)

POLL = 0.002
"""Seconds between two looks at a write that another thread does."""


class GroupCommit:
    """Knows whose answers wait for the write of this round."""

    def __init__(self, name: str, store: Store, unconfirmed: Unconfirmed) -> None:
        self._name = name
        self._store = store
        self._unconfirmed = unconfirmed
        self._fed: list[Connection] = []
        self._busy_logged = False
        self._left_at = 0.0
        self.left = False
        """A write was left to the engine's thread: call `wait`."""

    def fed(self, connection: Connection) -> None:
        """The session of `connection` keeps answers that wait for the write alone."""
        self._fed.append(connection)

    def write(self) -> bool:
        """Writes and answers. Returns whether queues have grown."""
        arrivals, error = False, None
        try:
            arrivals = self._store.write_staged()
        except Exception as e:
            error = e
        self.written(error)
        return arrivals

    def written(self, error: Exception | None) -> None:
        """Answers behind a write. `error`: what it failed with, None if it did not."""
        if isinstance(error, ServiceNotAvailableError):
            self._unconfirmed.release()  # the engine logs it, once
        elif error is not None:
            log.error("%s: messages are not stored", self._name, exc_info=error)
        if self._fed:
            fed, self._fed = self._fed, []
            self._unconfirmed.release_of(fed)

    def leave(self) -> None:
        """Leaves the write to the engine's thread; `wait` waits for it."""
        fed, self._fed = self._fed, []
        for connection in fed:
            self._unconfirmed.note(connection)
        if not self._store.writes_later():  # nor does a write wait that was left before
            self._left_at = trio.current_time()
        self.left = True
        self._store.write_later()

    def stalled_ms(self) -> int:
        """Milliseconds that what was left has waited for the disk so far; 0 if nothing waits."""
        if not self.left or not self._store.writes_later():
            return 0
        return int((trio.current_time() - self._left_at) * 1000)

    async def wait(self) -> None:
        """Waits for what was left, until it takes too long: then the engine's eventfd tells the
        reader when it is done."""
        while self._store.writes_later():
            if self._store.stall() == BUSY:
                if not self._busy_logged:
                    self._busy_logged = True
                    log.warning(
                        "%s: the disk hangs in a write of the commit log: messages are refused "
                        "(SYSTEM_BUSY) until it is done",
                        self._name,
                    )
                return
            await trio.sleep(POLL)
        self.left = False
        if self._busy_logged:
            self._busy_logged = False
            log.warning("%s: the disk takes messages again", self._name)
