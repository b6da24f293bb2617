"""The configuration of a server while it runs: keys with `live` may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import trio

C = TypeVar("C")
Watcher = Callable[[C, C], None]
"""Called with the configuration before a change, and after it."""


class LiveConfig(Generic[C]):
    """`now` is the configuration as it is. Who uses a key that may change reads it from there each
    time; what was made of one is made anew by a watcher."""

    def __init__(self, config: C) -> None:
        self.now = config
        self._watchers: list[Watcher[C]] = []
        self._changed = trio.Event()

    def watch(self, watcher: Watcher[C]) -> None:
        self._watchers.append(watcher)

    def change(self, config: C) -> None:
        """From now on this is the configuration, for all that read it."""
        before, self.now = self.now, config
        for watcher in self._watchers:
            watcher(before, config)
        self._changed.set()
        self._changed = trio.Event()

    async def pause(self, milliseconds: Callable[[C], float]) -> None:
        """Sleeps for as long as the configuration says, also if it says so in the meantime."""
        start = trio.current_time()
        over = False
        while not over:
            changed = self._changed
            with trio.move_on_at(start + milliseconds(self.now) / 1000) as scope:
                await changed.wait()
            over = scope.cancelled_caught
