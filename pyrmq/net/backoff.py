"""Pauses between tries: each longer than the one before, and not the same for everybody. And when a
failure that repeats is logged again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import trio

Source = Callable[[], float]
"""Chance: numbers from 0 to 1."""
FACTOR = 2.0
JITTER = 0.1
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
"""Seconds before a second try, and before any."""
_MANY = 64
"""Failures in a row after which a pause is the longest one for sure."""


def _pause(first: float, most: float, factor: float, failed: int) -> float:
    return min(first * factor ** min(failed - 1, _MANY), most)


def _less(pause: float, jitter: float, source: Source | None) -> float:
    return pause * (1 - jitter * (random.random() if source is None else source()))


class Backoff:
    """The pause after the first failure has `first` seconds, each further one `factor` times as
    many, up to `most`. Of each pause a part is left out at random, `jitter` of it at most, so that
    those who failed together do not come again together. `source` is where chance comes from,
    `random.random` by default."""

    def __init__(
        self,
        first: float,
        most: float,
        *,
        factor: float = FACTOR,
        jitter: float = JITTER,
        source: Source | None = None,
    ) -> None:
        self.failed = 0
        """How often `next` was called since the last `reset`."""
        self._first = first
        self._most = most
        self._factor = factor
        self._jitter = jitter
        self._source = source

    @property
    def upcoming(self) -> float:
        """Seconds that the pause after the next failure has at most."""
        return _pause(self._first, self._most, self._factor, self.failed + 1)

    def next(self) -> float:
        """Seconds until the next try, after one that failed."""
        pause = self.upcoming
        self.failed += 1
        return _less(pause, self._jitter, self._source)

    def reset(self) -> None:
        """A try was good: the next failure is the first one again."""
        self.failed = 0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`retries` further tries after one that failed, with pauses between them as of `Backoff`, of
    `longest` seconds at most."""

    retries: int
    first: float = FIRST_PAUSE
    longest: float = LONGEST_PAUSE
    jitter: float = JITTER
    source: Source | None = None

    def pause(self, failed: int) -> float | None:
        """Seconds before the next try when `failed` (1 on) have failed; None: there is none."""
        return None if failed > self.retries else self.pause_after(failed)

    def pause_after(self, failed: int) -> float:
        """The same without a bound on tries."""
        return _less(_pause(self.first, self.longest, FACTOR, failed), self.jitter, self.source)


NO_RETRY = RetryPolicy(0)


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
