"""What all threads of a run share: the server that comes and goes, the ledgers, what went wrong."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from tests.support.client import Client, Closed
from tests.support.server import ServerProcess
from tests.system.soak.ledgers import Ledgers
from tests.system.soak.settings import Settings

REFUSALS = {2: "SYSTEM_BUSY", 10: "FLUSH_DISK_TIMEOUT", 14: "SERVICE_NOT_AVAILABLE"}
"""Answers to a send that promise nothing and are no fault: the sender goes on."""
ANSWER_SECONDS = 30.0
"""Until an answer must have come from a server that is up."""
MOST_FAULTS = 50


class Shared:
    """`loading` is set while load is made, `over` at the very end. The server may be connected to
    while `up` is set: nobody knocks at a closed port, which another program might take."""

    def __init__(self, settings: Settings, server: ServerProcess) -> None:
        self.settings = settings
        self.server = server
        self.ledgers = Ledgers()
        self.up = threading.Event()
        self.loading = threading.Event()
        self.over = threading.Event()
        self.life = 0
        self.faults: list[str] = []
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def chance(self, name: str) -> random.Random:
        """Chance of one thread's own, by the seed of the run."""
        return random.Random(f"{self.settings.seed} {name}")

    def count(self, what: str, more: int = 1) -> None:
        with self._lock:
            self._counts[what] += more

    def counts(self) -> Counter[str]:
        with self._lock:
            return self._counts.copy()

    def fault(self, what: str) -> None:
        """Something that must not be: the run fails."""
        with self._lock:
            if len(self.faults) < MOST_FAULTS:
                self.faults.append(what)

    def refused(self, code: int) -> bool:
        """Whether an answer's code is a refusal, which is counted."""
        if code in REFUSALS:
            self.count(f"refused: {REFUSALS[code]}")
        return code in REFUSALS

    def wait_up(self) -> bool:
        """Waits for the server; False when the run is over instead."""
        while not self.over.is_set():
            if self.up.wait(0.1):
                return True
        return False

    def connect(self) -> Client:
        return Client(self.server.broker, timeout=ANSWER_SECONDS)


class Pace:
    """Lets through `burst` at a time, `rate` a second; what was missed is not made up for."""

    def __init__(self, shared: Shared, rate: float, burst: int = 1) -> None:
        self._loading = shared.loading
        self._pause = burst / (rate * shared.settings.rate)
        self._burst = burst
        self._left = 0
        self._next = time.monotonic()

    def wait(self) -> None:
        """Returns when the next one may go. Raises Closed when no more load is made, as if the
        broker had gone: senders then wait for their answers and end."""
        if self._left == 0:
            now = time.monotonic()
            self._next = max(self._next, now - self._pause)
            if self._next > now:
                time.sleep(min(self._next - now, 1.0))
            self._next += self._pause
            self._left = self._burst
        if not self._loading.is_set():
            raise Closed("no more load is made")
        self._left -= 1


class Role(threading.Thread):
    """A thread that does one thing on the server until it is told to stop, over all restarts."""

    def __init__(self, shared: Shared, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.shared = shared
        self.chance = shared.chance(name)

    def wanted(self) -> bool:
        """Whether it is to go on."""
        return self.shared.loading.is_set()

    def work(self) -> None:
        """On a server that is up, until the connection breaks or nothing is left to do."""
        raise NotImplementedError

    def run(self) -> None:
        try:
            while self.wanted() and self.shared.wait_up():
                try:
                    self.work()
                except (Closed, ConnectionError):
                    self.shared.count("connections that broke")
                    time.sleep(0.02)
        except Exception:
            self.shared.fault(f"{self.name}: {traceback.format_exc()}")


class _Sender(Protocol):
    """A sender of tests/system/crash: it ends when its connection does."""

    def run(self) -> None: ...
    def problems(self) -> Sequence[str]: ...


class SenderRole(Role):
    """One sender after the other: `make(n)` connects the n-th."""

    def __init__(self, shared: Shared, name: str, make: Callable[[int], _Sender]) -> None:
        super().__init__(shared, name)
        self._make = make
        self._made = 0

    def work(self) -> None:
        self._made += 1
        sender = self._make(self._made)
        sender.run()
        for problem in sender.problems():
            self.shared.fault(f"{self.name}: {problem}")
