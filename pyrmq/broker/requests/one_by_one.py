"""Requests about one name, one after the other: each finds what the one before has left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

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

    @asynccontextmanager
    async def all_alone(self, names: Iterable[str]) -> AsyncIterator[None]:
        """Holds several names; in one order, so that two of them never wait for each other."""
        async with AsyncExitStack() as stack:
            for name in sorted(set(names)):
                await stack.enter_async_context(self.alone(name))
            yield
