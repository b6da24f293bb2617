"""What the kill loops share: workers that keep a broker busy, SIGKILL in the middle of it, a start
on what is left, a look at all of it; again and again on one store."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from tests.support.client import Client
from tests.support.server import ServerProcess

SMALL_FILES = """\
mappedFileSizeCommitLog=1048576
mappedFileSizeConsumeQueue=20000
maxHashSlotNum=500
maxIndexNum=1500
"""
"""So that rolling to the next commit-log, ConsumeQueue and index file is hit all the time."""

Outcome = TypeVar("Outcome", covariant=True)


class Worker(Protocol[Outcome]):
    """A thread that works until its connection breaks."""

    name: str

    @property
    def outcome(self) -> Outcome: ...

    def start(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...
    def is_alive(self) -> bool: ...


class KillLoop:
    """`chance` gives the moments of the kills; what the scheduler does no seed repeats."""

    def __init__(self, server: ServerProcess, seed: int, rounds: int) -> None:
        self.server = server
        self.chance = random.Random(seed)
        self.rounds = rounds
        self.kills_during_start = 0

    def kill_amid(
        self, workers: Sequence[Worker[Outcome]], begun: threading.Event, longest: float
    ) -> list[Outcome]:
        """SIGKILL from 20 ms to `longest` seconds after `begun` is set; what the workers know."""
        for worker in workers:
            worker.start()
        has_begun = begun.wait(20)
        time.sleep(self.chance.uniform(0.020, longest))  # the moment of the kill
        self.server.kill()
        for worker in workers:
            worker.join(30)
            assert not worker.is_alive(), f"{worker.name} still runs"
        assert has_begun, "nothing was acknowledged in 20 s"
        return [worker.outcome for worker in workers]

    def _start_again(self) -> None:
        """Starts on the store the kill left; now and then kills the recovery too."""
        while self.chance.random() < 0.25:
            self.server.spawn()
            time.sleep(self.chance.uniform(0.0, 0.4))  # the moment of the kill
            self.server.kill()
            self.kills_during_start += 1
        self.server.restart(same_ports=self.chance.random() < 0.5)

    def run(
        self,
        load_and_kill: Callable[[int], None],
        verify_round: Callable[[Client, int], None],
        verify_all: Callable[[Client], None],
        *,
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        """The rounds; then `finish` and a clean stop and start, after which all is looked at."""
        with self.server as server:
            for number in range(self.rounds):
                load_and_kill(number)
                self._start_again()
                with Client(server.broker) as client:
                    verify_round(client, number)
            finish()
            server.terminate()
            server.restart()
            with Client(server.broker) as client:
                verify_all(client)
        assert "panicked" not in server.stderr_text(), server.stderr_text()[-4000:]

    def summary(self) -> str:
        return f"{self.rounds} kills, {self.kills_during_start} kills during start"
