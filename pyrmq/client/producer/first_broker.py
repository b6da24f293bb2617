"""Waiting for the first broker of a cluster that has just started."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from pyrmq.errors import PyrmqError, TopicNotExistError

T = TypeVar("T")
PAUSE = (0.05, 0.5)
"""Seconds until name servers that know no broker are asked again: the first, doubled up to the
last."""


class FirstBroker:
    """`is_there` asks the name servers whether any broker has registered; PyrmqError."""

    def __init__(self, is_there: Callable[[], Awaitable[bool]]) -> None:
        self.missing = False
        """Whether there was none when they were last asked."""
        self._is_there = is_there
        self._seen = self._missed = 0
        """How often there was one, and none."""
        self._lock = trio.Lock()

    async def once_there(self, find: Callable[[], Awaitable[T]]) -> T:
        """What `find` returns, which is called again after TopicNotExistError while no broker at
        all is there, and once more when one is: it may have registered between the two questions.
        The caller limits the time."""
        waited: bool | None = None
        while True:
            try:
                return await find()
            except TopicNotExistError:
                if waited is False:
                    raise
            waited = await self._appears()

    async def _appears(self) -> bool:
        """Returns once a broker is there: whether there was none meanwhile. Of those that wait one
        asks for all."""
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
