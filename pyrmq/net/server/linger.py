"""When the reader lingers: it waits a moment for the next request before it goes back to the event
loop.

Going back to the loop and returning costs tens of microseconds, more than a small request. It is
worth waiting for a peer that sends its next request as soon as it has its answer. It is not for a
peer that runs on this very loop, as that peer cannot send while the reader waits. So the reader
lingers where shifts follow each other closely, and less and less often where nothing comes.
"""

from __future__ import annotations

LINGER = 0.0002
"""Seconds that the reader waits for the next request."""
CLOSE = 0.0003
"""Most seconds between two shifts that follow each other closely."""
STREAK = 8
"""So many shifts have to follow each other closely before the reader lingers; twice as many after
each miss."""
LONGEST_STREAK = 4096


class Linger:
    """Decides for each shift: `begins`, `lingered` if the reader did, `ends`."""

    def __init__(self) -> None:
        self._ended = 0.0
        self._streak = 0
        self._needed = STREAK

    def begins(self, now: float) -> int:
        """Nanoseconds that this shift may linger; 0: not at all. `now`: seconds."""
        self._streak = self._streak + 1 if now - self._ended <= CLOSE else 0
        return int(LINGER * 1e9) if self._streak >= self._needed else 0

    def lingered(self, *, served: int, missed: bool) -> None:
        """How many rounds the shift served, and whether nothing came in the end. The first round is
        the one that woke the reader."""
        if served > 1:
            self._needed = max(STREAK, self._needed // 2)
        if missed:
            self._streak = 0
            if served <= 1:
                self._needed = min(2 * self._needed, LONGEST_STREAK)

    def ends(self, now: float) -> None:
        """The shift is over."""
        self._ended = now
