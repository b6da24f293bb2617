"""Waits for the first broker of a cluster that has just started."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from pyrmq.errors import PyrmqError, TopicNotExistError

T = TypeVar("T")
PAUSE = (0.05, 0.5)
"""Seconds until name servers without brokers are asked again: the first pause, doubled up to the
last."""


class FirstBroker:
    """`is_there` asks the name servers whether any broker has registered; it raises PyrmqError."""

    def __init__(self, is_there: Callable[[], Awaitable[bool]]) -> None:
        self.missing = False
        """Whether the last answer was that there is no broker."""
        self._is_there = is_there
        self._seen = self._missed = 0
        """How often there was a broker, and how often none."""
        self._lock = trio.Lock()

    async def once_there(self, find: Callable[[], Awaitable[T]]) -> T:
        """The result of `find`. After a TopicNotExistError it calls `find` again while there is no
        broker at all, and once more when there is one, which may have registered between the two
        calls. The caller limits the time."""
        waited: bool | None = None
        while True:
            try:
                return await find()
            except TopicNotExistError:
                if waited is False:
                    raise
            waited = await self._appears()

    async def _appears(self) -> bool:
        """Returns when there is a broker, with whether there was none before. Of several waiting
        tasks one asks for all."""
        seen, missed, pause = self._seen, self._missed, PAUSE[0]
        async with self._lock:
            while self._seen == seen:
                try:
                    self.missing = not await self._is_there()
                except PyrmqError:
                    self.missing = False
                    raise
                if not self.missing:
                    self._seen += 1
                    break
                self._missed += 1
                await trio.sleep(pause)
                pause = min(2 * pause, PAUSE[1])
        return self._missed != missed
