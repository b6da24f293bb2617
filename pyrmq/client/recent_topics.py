"""Forgets topics that a client has not used lately, so that a producer for very many topics does
not grow with their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LIFETIME = 300.0
"""Seconds of a generation."""
MOST = 4096
"""Topics of a generation, because each costs a request whenever routes are refreshed."""


class RecentTopics:
    """A topic is forgotten if it was not used in a whole generation. Call `used` for each use;
    `turn` is called now and then, and before a new topic is added."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.used: set[str] = set()
        self.forgotten: list[Callable[[set[str]], None]] = []
        """Called with the topics that stay; tables by topic then drop all others."""
        self._clock = clock
        self._since: float | None = None

    def turn(self) -> None:
        """Starts a new generation if it is time."""
        now = self._clock()
        if self._since is None:
            self._since = now
        elif now - self._since < LIFETIME and len(self.used) < MOST:
            return
        else:
            stay, self.used, self._since = self.used, set(), now
            for forget in self.forgotten:
                forget(stay)


def keep(table: dict[str, Any], topics: set[str]) -> None:
    """Removes all other topics."""
    for topic in table.keys() - topics:
        del table[topic]
