"""Decides when a failure that repeats is logged again."""

from __future__ import annotations

import trio

EVERY = 60.0
"""Seconds until the same reason is said again."""


class Trouble:
    """One thing that fails again and again, and at last succeeds."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._said: tuple[str, float] = "", 0.0
        """The reason that was said last, and when."""
        self._untold = 0

    def say(self, why: str) -> str | None:
        """What to put behind the failure's name in the log; None: this reason was said a moment
        ago."""
        now = trio.current_time()
        if self._since is None:
            self._since = now
        elif why == self._said[0] and now < self._said[1] + EVERY:
            self._untold += 1
            return None
        count, self._untold, self._said = self._untold, 0, (why, now)
        lasts = now - self._since
        return f" for {lasts:.0f} s ({count + 1} more tries)" if lasts >= 1 else ""

    def over(self) -> float | None:
        """It succeeds: how many seconds it failed; None if it did not."""
        since, self._since, self._untold = self._since, None, 0
        return None if since is None else trio.current_time() - since
