"""Peers that are made up, and a run of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyrmq.bench.peers import turns
from pyrmq.bench.peers.peer import Load, Measured, Plan, Serving, Unavailable
from pyrmq.bench.peers.report import Report
from pyrmq.bench.result import BenchError

TWO = (Load("1x64", "send", 1, 64, 1024), Load("64x1", "send", 64, 1, 1024))
NASTY = "<script>alert(1)</script> \x1b[31m & |"


class Made:
    """A peer whose rates are given, one a window."""

    def __init__(
        self, key: str, rates: list[float], compiles: bool = False, missing: str = ""
    ) -> None:
        self.key, self.title, self.compiles = key, key.capitalize(), compiles
        self.asked: list[tuple[str, float]] = []
        self.running = False
        self._rates, self._missing = rates, missing

    def require(self) -> None:
        if self._missing:
            raise Unavailable(self._missing)

    @contextmanager
    def serve(self, plan: Plan) -> Iterator[Serving]:
        self.running = True
        yield Serving("127.0.0.1:1", 1, "1.0", [self.key, "--start"], NASTY)
        self.running = False

    def load(self, serving: Serving, load: Load, seconds: float, warmup: float) -> Measured:
        assert self.running
        self.asked.append((load.name, seconds))
        rate = self._rates[len(self.asked) - 1]
        if rate < 0:
            raise BenchError(NASTY)
        return Measured(
            *(rate, 100, 1.0, 100.0, 2000.0, None, 4.0, 0, "a client", [self.key]),
            notes=[NASTY],
        )


def measured(*made: Made, rounds: int = 2, loads: tuple[Load, ...] = TWO) -> Report:
    plan = Plan(rounds=rounds, seconds=1, warmup=0, prepare=9)
    return turns.run(made, loads, plan, ["pyrmq", "bench", "peers", NASTY])
