"""Time and chance of a run: how long things take, what gets lost, when a process dies."""

from __future__ import annotations

import time
from random import Random

import trio

from tests.system.simulation.settings import draw


class Chance:
    """All that is random in a run, and its clock."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.settings = draw(self.random)
        self.trace: list[str] = []
        self.counts: dict[str, int] = {}
        self.calm = False
        """Nothing bad happens any more."""
        self.kills = 0
        self.jumped = 0
        self._begin = int(time.time() * 1000)  # the engine reads the time of day itself
        self._ports = 40_000

    def now(self) -> int:
        return self._begin + int(trio.current_time() * 1000) + self.jumped

    def note(self, who: str, what: str) -> None:
        self.trace.append(f"{trio.current_time():10.3f} {who:<9} {what}")

    def count(self, what: str, times: int = 1) -> None:
        if times:
            self.counts[what] = self.counts.get(what, 0) + times

    def chance(self, share: float) -> bool:
        return not self.calm and self.random.random() < share

    def latency(self) -> float:
        if self.chance(self.settings.slow):
            return self.random.uniform(1, 8)
        return self.random.uniform(0.0005, 0.02)

    def loses(self) -> bool:
        return self.chance(self.settings.lose)

    def work_time(self) -> float:
        if self.chance(0.2):
            return self.random.uniform(0, 3 * self.settings.interval / 1000)
        return self.random.uniform(0, 0.2)

    def delay_of_end(self) -> float:
        if self.chance(0.3):
            return self.random.uniform(0, self.settings.length)
        return self.random.uniform(0, 0.05)

    def answer_delay(self) -> float:
        if self.chance(0.2):
            return self.random.uniform(0, 2 * self.settings.interval / 1000)
        return self.random.uniform(0, 0.05)

    def answers_check(self) -> bool:
        return self.calm or self.random.random() < self.settings.answer_checks

    def flush_pause(self) -> float:
        if self.settings.sync:
            return self.random.uniform(0.001, 0.01)
        return self.random.uniform(0.01, 1) * self.settings.interval / 1000

    def save_pause(self) -> float:
        return self.random.uniform(0.1, 2) * self.settings.interval / 1000

    def index_pause(self) -> float:
        return 0 if self.calm else self.random.uniform(0, self.settings.index_pause)

    def pieces(self, data: bytes) -> list[bytes]:
        """As the network cuts them."""
        if len(data) > 1 and self.random.random() < 0.1:
            at = self.random.randrange(1, len(data))
            return [data[:at], data[at:]]
        return [data]

    def dies_in_call(self) -> bool:
        return self.kills < 12 and self.chance(self.settings.die_in_call)

    def new_port(self) -> int:
        self._ports += 1
        return self._ports
