"""Who believes to have the lock of a queue: no two members of a group may at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from pyrmq.model.message import MessageQueue
from tests.support.ledger import Ledger


class LockTable:
    """Locks do not outlive the broker's process, so they are noted with the life of it in which
    they were granted."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._holders: dict[MessageQueue, tuple[int, str]] = {}

    def taken(self, client_id: str, queues: Iterable[MessageQueue], life: int) -> None:
        """The broker has granted these to a member, as the only one that has them."""
        with self._lock:
            for queue in queues:
                known, holder = self._holders.get(queue, (life, client_id))
                if known == life and holder != client_id:
                    self._ledger.note("locked twice", f"{queue} by {holder} and {client_id}")
                if known <= life:
                    self._holders[queue] = (life, client_id)

    def given_up(self, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Before the broker hears of it."""
        with self._lock:
            for queue in queues:
                if self._holders.get(queue, (0, ""))[1] == client_id:
                    del self._holders[queue]
