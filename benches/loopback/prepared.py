"""Apache RocketMQ, ready to be measured: kept over scenarios, and under load before the first."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from .generator import generate
from .harness import Broker
from .peer import VERSION, apache


class Prepared:
    """One broker at a time, in the flush mode that was asked for last.

    A JVM is fast when it has compiled what it runs, so it has `seconds` of each kind of load
    before that kind is measured for the first time.
    """

    def __init__(self, directory: Path | None, seconds: float) -> None:
        self._directory = directory
        self._seconds = seconds
        self._stack = ExitStack()
        self._running: tuple[str, Broker] | None = None
        self._warm: set[str] = set()

    def stop(self) -> None:
        """Ends it, until it is asked for again."""
        self._running = None
        self._warm.clear()
        self._stack.close()

    def broker(self, flush: str) -> Broker:
        """The broker in this flush mode; one in another mode ends."""
        if self._running is not None and self._running[0] == flush:
            return self._running[1]
        self.stop()
        print(f"loopback: starting Apache RocketMQ {VERSION}, {flush}", file=sys.stderr, flush=True)
        broker = self._stack.enter_context(apache(flush=flush, directory=self._directory))
        self._running = (flush, broker)
        return broker

    def prepare(self, mode: str, broker: Broker, options: Mapping[str, object]) -> None:
        """Load of this kind, unless it has had that."""
        if mode not in self._warm:
            self._warm.add(mode)
            generate(mode, broker, {**options, "seconds": self._seconds})
