"""The server is stopped (SIGTERM) and killed (SIGKILL) and started again on what is left."""

from __future__ import annotations

import random
import threading
import time
import traceback
from typing import Literal

from tests.support.delays import log_end
from tests.system.soak.settings import Settings
from tests.system.soak.shared import Shared

How = Literal["SIGTERM", "SIGKILL"]


def schedule(settings: Settings, chance: random.Random) -> list[tuple[float, How]]:
    """When and how, in seconds from the start: at random moments in the first part of the run, in
    turns; then once more, amid the load at its end, after a long life."""
    restless = settings.seconds * (1 - settings.calm)
    count = max(round(restless / settings.restart_every), 2)
    hows: tuple[How, How] = ("SIGKILL", "SIGTERM")
    step = restless / count
    found = [
        ((number + chance.uniform(0.3, 0.95)) * step, hows[number % 2]) for number in range(count)
    ]
    return [*found, (settings.seconds, "SIGKILL")]


class Lives(threading.Thread):
    """Restarts as the schedule says, and notices a server that dies by itself."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(name="lives", daemon=True)
        self.begun = 0.0
        """When this process of the server was ready."""
        self.slowest_start = 0.0
        self.hurry = threading.Event()
        """Set: no more restarts but the last one, now."""
        self.ended = threading.Event()
        self._shared = shared
        self._plan = schedule(shared.settings, shared.chance("restarts"))

    def first(self) -> None:
        """The first life."""
        self._start()

    def run(self) -> None:
        try:
            begun = time.monotonic()
            for at, how in self._plan:
                if how == "SIGTERM" and self.hurry.is_set():
                    continue
                while time.monotonic() < begun + at and not self.hurry.is_set():
                    if not self._shared.server.running:
                        raise RuntimeError("the server died by itself")
                    time.sleep(0.05)
                if self._shared.over.is_set():
                    break
                self._again(how)
                if self.hurry.is_set():
                    break
        except Exception:
            self._shared.fault(f"lives: {traceback.format_exc()}")
        finally:
            self.ended.set()

    def _again(self, how: How) -> None:
        self._shared.up.clear()
        self._shared.count(how)
        if how == "SIGKILL":
            self._shared.server.kill()
        else:
            self._shared.server.terminate()
        self._start()

    def _start(self) -> None:
        begun = time.monotonic()
        self._shared.server.start()
        self.begun = time.monotonic()
        if self._shared.life:
            self.slowest_start = max(self.slowest_start, self.begun - begun)
        self._check_log_end()
        self._shared.life += 1
        if self._shared.over.is_set():
            self._shared.server.kill()
        else:
            self._shared.up.set()

    def _check_log_end(self) -> None:
        """What was acknowledged before is in the log, also what has been consumed already."""
        newest = self._shared.ledgers.newest()
        with self._shared.connect() as client:
            end = log_end(client)
        if end <= newest:
            self._shared.fault(f"after a restart the log ends at {end}, before {newest}")
