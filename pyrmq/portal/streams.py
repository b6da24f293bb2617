"""Async generators that run in the background thread, and are read from elsewhere."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar, cast

import trio

T = TypeVar("T")
AHEAD = 64
"""Values that are made before they are asked for, and that are handed over at a time."""


class Reading:
    """The values of a generator that runs."""

    def __init__(self, values: trio.MemoryReceiveChannel[Any]) -> None:
        self._values = values
        self.error: BaseException | None = None

    async def take(self) -> list[Any]:
        """The next values, at least one; none at the end. What the generator raised comes after
        all that it gave."""
        try:
            found = [await self._values.receive()]
        except trio.EndOfChannel:
            if self.error is not None:
                error, self.error = self.error, None
                raise error from None
            return []
        while len(found) < AHEAD:
            try:
                found.append(self._values.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                break
        return found


@asynccontextmanager
async def reading(make: Callable[[], AsyncIterator[T]]) -> AsyncIterator[Reading]:
    """Runs a generator in a task of its own until the end of the block, a little ahead of its
    reader."""
    send, receive = trio.open_memory_channel[T](AHEAD)
    reader = Reading(receive)

    async def run() -> None:
        async with send:
            try:
                async with aclosing(cast(AsyncGenerator[T, None], make())) as values:
                    async for value in values:
                        await send.send(value)
            except Exception as e:  # the reader's
                reader.error = e

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        yield reader
        nursery.cancel_scope.cancel()
