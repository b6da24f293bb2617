"""Slow requests: each that took longer than slowLogMs is a line in the log, with its parts.

What the engine answers it notes by itself; what Python answers comes from `AnswerTimes`. Once a
second both are written. A slow disk makes everything slow at once, so only the slowest LINES of a
second have a line, and the others are counted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import trio

from pyrmq.engine import RpcFigures
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.model.codes import request_text
from pyrmq.net.about import NOTHING, About

log = logging.getLogger(__name__)

PERIOD = 1.0
"""Seconds between two looks."""
LINES = 10
"""Lines of one look."""
MOST = 256
"""Slow requests that are kept between two looks."""


@dataclass(frozen=True, slots=True)
class SlowRequest:
    """A request that took too long. Times are µs."""

    code: int
    response: int | None
    """None: it waits for messages now."""
    peer: str
    queued: int = 0
    """It was ready to be received, or to be processed, and others came first."""
    processing: int = 0
    writing: int = 0
    """The write into the log."""
    flushing: int = 0
    """It waited until a flush had carried it (SYNC_FLUSH)."""
    confirming: int = 0
    """It waited until slaves had it (SYNC_MASTER), and until the answer was sent."""
    size: int | None = None
    """Bytes of the request."""
    about: About = NOTHING
    offset: int | None = None
    """Queue offset of the message that was stored."""
    at: int | None = None
    """Its physical offset."""

    @property
    def took(self) -> int:
        return self.queued + self.processing + self.writing + self.flushing + self.confirming

    def text(self) -> str:
        """The line of the log."""
        parts = {
            "queued": self.queued,
            "processing": self.processing,
            "writing": self.writing,
            "flushing": self.flushing,
            "confirming": self.confirming,
        }
        spent = ", ".join(f"{name} {_ms(us)}" for name, us in parts.items() if us >= 1000)
        told = {
            "client": self.about.client,
            "group": self.about.group,
            "topic": self.about.topic,
            "queue": self.about.queue,
            "offset": self.offset,
            "bytes": self.size,
            "response": "parked" if self.response is None else self.response,
        }
        rest = "".join(f", {name} {value}" for name, value in told.items() if value is not None)
        return (
            f"request {request_text(self.code)} of {self.peer} took {_ms(self.took)} ms "
            f"({spent}){rest}"
        )


def _ms(us: int) -> int:
    return us // 1000


class SlowRequests:
    """Requests that took longer than `ms`; 0: none is too slow.

    `client_of(peer)`: the client id and the groups of who is connected from this address, if that
    is known. `stored_at(offset)`: topic, and bytes of the message at a physical offset; it may read
    the disk, and is called in a thread."""

    def __init__(self, name: str, figures: RpcFigures, ms: int) -> None:
        self._name = name
        self._figures = figures
        self._noted: list[SlowRequest] = []
        self._left_out = 0
        self.limit_us = 0
        self.client_of: Callable[[str], tuple[str | None, Iterable[str]]] = lambda peer: (None, ())
        self.stored_at: Callable[[int], tuple[str, int] | None] = lambda offset: None
        self.set_limit(ms)

    def set_limit(self, ms: int) -> None:
        """slowLogMs."""
        self.limit_us = ms * 1000 if ms else 1 << 62
        self._figures.set_slow_ms(ms)

    def note(self, slow: SlowRequest) -> None:
        """Python has answered it."""
        if len(self._noted) < MOST:
            self._noted.append(slow)
        else:
            self._left_out += 1

    async def run(self) -> None:
        """Writes what came every second, until cancelled; then what is left."""
        try:
            while True:
                await trio.sleep(PERIOD)
                await self.write()
        finally:
            self._write(self._take())

    async def write(self) -> None:
        """Writes what came since the last call."""
        slow = self._take()
        if any(one.at is not None for one in slow):
            # A disk that hangs does not hold up the stop.
            slow = await trio.to_thread.run_sync(self._completed, slow, abandon_on_cancel=True)
        self._write(slow)

    def _take(self) -> list[SlowRequest]:
        """The slowest since the last call. The others are counted."""
        rows, left_out = self._figures.take_slow()
        noted, self._noted = self._noted, []
        for code, response, peer, times, place in rows:
            queued, processing, writing, flushing, confirming = times
            queue, offset, at = place or (None, None, None)
            one = SlowRequest(
                code, response, peer, queued, processing, writing, flushing, confirming,
                about=About(queue=None if queue is None else str(queue)), offset=offset, at=at,
            )  # fmt: skip
            noted.append(one)
        self._left_out += left_out + max(len(noted) - LINES, 0)
        return sorted(noted, key=lambda one: -one.took)[:LINES]

    def _completed(self, slow: list[SlowRequest]) -> list[SlowRequest]:
        """With what the records say of those that the engine answered."""
        return [one if one.at is None else self._with_record(one, one.at) for one in slow]

    def _with_record(self, one: SlowRequest, at: int) -> SlowRequest:
        try:
            stored = self.stored_at(at)
        except (OSError, PyrmqError):  # the disk, most likely: the line comes without it
            return one
        if stored is None:
            return one
        topic, size = stored
        return replace(one, about=replace(one.about, topic=topic), size=size)

    def _write(self, slow: list[SlowRequest]) -> None:
        for one in slow:
            log.warning("%s: slow %s", self._name, escape(self._known(one).text()))
        if self._left_out:
            log.warning("%s: %d more slow requests have no line", self._name, self._left_out)
            self._left_out = 0

    def _known(self, one: SlowRequest) -> SlowRequest:
        """With the client that is connected from its address, and its group if it has one only."""
        client, groups = self.client_of(one.peer)
        known = list(groups)
        return replace(
            one,
            about=replace(
                one.about,
                client=one.about.client or client,
                group=one.about.group or (known[0] if len(known) == 1 else None),
            ),
        )
