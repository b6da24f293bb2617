"""When the reader waits a moment for what comes next, instead of going back to the event loop.

Back to the loop and here again costs tens of microseconds, more than a small request. A peer that
sends its next request as soon as it has its answer is worth waiting for; one that runs on this very
loop is not, as it cannot send while the reader waits. So it is tried where turns follow each other
closely, and less and less often where nothing comes.
"""

from __future__ import annotations

LINGER = 0.0002
"""Seconds that the reader waits for what comes next."""
CLOSE = 0.0003
"""Seconds between two turns that follow each other closely."""
STREAK = 8
"""Turns that follow each other closely before it is tried; twice as many after each miss."""
LONGEST_STREAK = 4096


class Linger:
    """Decides it for each turn: `begins`, `lingered` if it was tried, `ends`."""

    def __init__(self) -> None:
        self._ended = 0.0
        self._streak = 0
        self._needed = STREAK

    def begins(self, now: float) -> int:
        """Nanoseconds that this turn may wait for more; 0: it does not. `now`: seconds."""
        self._streak = self._streak + 1 if now - self._ended <= CLOSE else 0
        return int(LINGER * 1e9) if self._streak >= self._needed else 0

    def lingered(self, *, served: int, missed: bool) -> None:
        """What came of it: the rounds served in it, and whether nothing came in the end. The first
        round is what woke the reader."""
        if served > 1:
            self._needed = max(STREAK, self._needed // 2)
        if missed:
            self._streak = 0
            if served <= 1:
                self._needed = min(2 * self._needed, LONGEST_STREAK)

    def ends(self, now: float) -> None:
        """The turn is over."""
        self._ended = now
