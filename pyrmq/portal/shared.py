"""One portal for all clients of a process: it starts with the first that opens and ends with the
last."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import warnings
from concurrent.futures import Future, wait
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

from pyrmq.escape import escape
from pyrmq.portal.thread import Held, Portal

log = logging.getLogger(__name__)

T = TypeVar("T")

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
                text = (
                    f"{opened.what} was not closed when the program ended: {count} messages of "
                    "send_soon were not sent, or nobody knows; use `with`, close() or flush()"
                )
                log.error("%s", escape(text))
                warnings.warn(text, RuntimeWarning, stacklevel=1)  # where nobody reads logs


SHARED = Shared()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SHARED.forget)
atexit.register(SHARED.at_exit)
