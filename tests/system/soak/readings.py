"""What the server's process holds: read all the time, and printed now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tests.support.server import ServerFailed
from tests.system.soak.flatness import Reading
from tests.system.soak.lives import Lives
from tests.system.soak.shared import Shared

EVERY = 0.5
"""Seconds between two readings."""


class Readings(threading.Thread):
    def __init__(self, shared: Shared, lives: Lives, say: Callable[[str], None]) -> None:
        super().__init__(name="readings", daemon=True)
        self.found: list[Reading] = []
        self._shared = shared
        self._lives = lives
        self._say = say
        self._begun = time.monotonic()
        self._last = (self._begun, 0, 0)

    def run(self) -> None:
        line = self._begun + self._shared.settings.line_every
        while not self._shared.over.is_set():
            reading = self._read()
            # Of a server under load, so that like is compared with like.
            if reading is not None and self._shared.loading.is_set():
                self.found.append(reading)
            if time.monotonic() >= line:
                line += self._shared.settings.line_every
                self._say(self._line(reading))
            time.sleep(EVERY)

    def _read(self) -> Reading | None:
        server, life = self._shared.server, self._shared.life
        if not self._shared.up.is_set():
            return None
        try:
            reading = Reading(
                life,
                time.monotonic() - self._lives.begun,
                server.status_kib("RssAnon"),
                server.open_files(),
                server.threads(),
            )
        except (OSError, ServerFailed):
            return None  # it was just stopped
        return reading if self._shared.up.is_set() and self._shared.life == life else None

    def _line(self, reading: Reading | None) -> str:
        now, counts = time.monotonic(), self._shared.counts()
        sent, delivered = counts["sent"], self._shared.ledgers.receipts()
        then, sent_before, delivered_before = self._last
        self._last = (now, sent, delivered)
        seconds = now - then
        elapsed = int(now - self._begun)
        parts = [
            f"{elapsed // 60:3}:{elapsed % 60:02}",
            f"sent {(sent - sent_before) / seconds:.0f}/s",
            f"delivered {(delivered - delivered_before) / seconds:.0f}/s",
            f"owed {self._shared.ledgers.owed()}",
            "server down" if reading is None else str(reading),
            f"restarts {counts['SIGTERM']} SIGTERM {counts['SIGKILL']} SIGKILL",
        ]
        if self._shared.faults:
            parts.append(f"faults {len(self._shared.faults)}")
        return ", ".join(parts)
