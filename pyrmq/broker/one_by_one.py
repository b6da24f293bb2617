"""Requests about one name, one after the other: each finds what the one before has left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


class OneByOne:
    def __init__(self) -> None:
        self._under_way: dict[str, trio.Event] = {}

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncIterator[None]:
        """Holds a name. Requests about other names run meanwhile."""
        while (before := self._under_way.get(name)) is not None:
            await before.wait()
        self._under_way[name] = done = trio.Event()
        try:
            yield
        finally:
            del self._under_way[name]
            done.set()
