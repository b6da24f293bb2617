"""Measures peers in turns: all run at once, and in every round each has one window of a load.

So a machine that is slow for a while is slow for all of them. Ratios are taken within a round.
"""

from __future__ import annotations

import datetime
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from pyrmq.bench.environment import environment
from pyrmq.bench.peers.peer import Load, Measured, Peer, Plan, Serving, Unavailable, Window
from pyrmq.bench.peers.report import Entry, Failure, Report
from pyrmq.bench.result import BenchError

LOADS = (
    Load("1x1", "send", 1, 1, 1024),
    Load("1x64", "send", 1, 64, 1024),
    Load("8x128", "send", 8, 128, 1024),
    Load("64x1", "send", 64, 1, 1024),
    Load("batch-1x4x32", "batch", 1, 4, 1024, 32),
)
Say = Callable[[str], None]


def run(
    peers: Sequence[Peer],
    loads: Sequence[Load],
    plan: Plan,
    command: Sequence[str],
    say: Say = lambda _: None,
) -> Report:
    """A peer that is missing, or that fails, is said in the report; the others go on. Ctrl-C gives
    what was measured so far. BenchError if no peer can be started."""
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    where = environment({}, plan.directory or Path(tempfile.gettempdir()))
    turns = _Turns(plan, say)
    interrupted = False
    try:
        with ExitStack() as stack:
            turns.start(peers, stack)
            for load in loads:
                turns.load(load)
    except KeyboardInterrupt:
        if not turns.windows:
            raise
        interrupted = True
    return Report(
        started=started,
        command=list(command),
        flush=plan.flush,
        seconds=plan.seconds,
        warmup=plan.warmup,
        prepare=plan.prepare,
        rounds=plan.rounds,
        heap=plan.heap,
        loads=list(loads),
        peers=turns.entries,
        windows=turns.windows,
        failures=turns.failures,
        environment=where,
        interrupted=interrupted,
    )


class _Turns:
    def __init__(self, plan: Plan, say: Say) -> None:
        self._plan = plan
        self._say = say
        self._serving: list[tuple[Peer, Serving]] = []
        self.entries: list[Entry] = []
        self.windows: list[Window] = []
        self.failures: list[Failure] = []

    def start(self, peers: Sequence[Peer], stack: ExitStack) -> None:
        for peer in peers:
            self._say(f"starting {peer.title}")
            try:
                peer.require()
                serving = stack.enter_context(peer.serve(self._plan))
            except (BenchError, OSError) as error:
                missing = str(error)
                self._say(f"{peer.title} is not measured: {missing}")
                self.entries.append(Entry(peer.key, peer.title, missing=missing))
                continue
            self._serving.append((peer, serving))
            self.entries.append(
                Entry(peer.key, peer.title, serving.version, serving.command, serving.settings)
            )
        if not self._serving:
            raise BenchError("no peer can be measured: see above what is missing")

    def load(self, load: Load) -> None:
        """All windows of a load; a peer that fails has no further one of it."""
        failed: set[str] = set()
        for peer, serving in self._serving:
            if peer.compiles and self._plan.prepare > 0:
                self._say(f"{load.name}: {peer.title} warms up for {self._plan.prepare:g} s")
                self._measure(peer, serving, load, self._plan.prepare, 0.0, failed)
        for number in range(1, self._plan.rounds + 1):
            for peer, serving in self._serving:
                if peer.key in failed:
                    continue
                # What the one before has left to be written is not written in this one's time.
                os.sync()
                plan = self._plan
                found = self._measure(peer, serving, load, plan.seconds, plan.warmup, failed)
                if found is not None:
                    self._keep(peer, load, number, found)

    def _measure(
        self,
        peer: Peer,
        serving: Serving,
        load: Load,
        seconds: float,
        warmup: float,
        failed: set[str],
    ) -> Measured | None:
        if peer.key in failed:
            return None
        try:
            return peer.load(serving, load, seconds, warmup)
        except (Unavailable, BenchError, OSError) as error:
            failed.add(peer.key)
            self.failures.append(Failure(peer.key, load.name, str(error)))
            self._say(f"{load.name}: {peer.title} is not measured: {error}")
            return None

    def _keep(self, peer: Peer, load: Load, number: int, found: Measured) -> None:
        window = Window(
            peer=peer.key,
            load=load.name,
            round=number,
            rate=found.rate,
            messages=found.messages,
            seconds=found.seconds,
            p50_us=found.p50_us,
            p99_us=found.p99_us,
            p999_us=found.p999_us,
            server_cpu_us=found.server_cpu_us,
            errors=found.errors,
            client=found.client,
            command=found.command,
            notes=found.notes,
        )
        self.windows.append(window)
        self._say(f"{load.name}, round {number}: {peer.title} {found.rate:,.0f} messages/s")
