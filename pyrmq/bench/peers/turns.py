"""Measures peers in turns: all run at once, and in every round each has one window of a load.
They are started anew for each flush mode.

So a machine that is slow for a while is slow for all of them. Ratios are taken within a round.
"""

from __future__ import annotations

import datetime
import itertools
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from pyrmq.bench.environment import environment
from pyrmq.bench.peers.peer import Load, Measured, Peer, Plan, Serving, Unavailable, Window
from pyrmq.bench.peers.report import Entry, Failure, Report
from pyrmq.bench.result import BenchError

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
    flushes: dict[str, None] = {}
    try:
        for flush, group in itertools.groupby(loads, lambda load: load.flush or plan.flush):
            flushes[flush] = None
            turns.round(peers, replace(plan, flush=flush), list(group))
    except KeyboardInterrupt:
        if not turns.windows:
            raise
        interrupted = True
    return Report(
        started=started,
        command=list(command),
        flush=" and ".join(flushes),
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

    def round(self, peers: Sequence[Peer], plan: Plan, loads: Sequence[Load]) -> None:
        """Loads of one flush mode, which the peers are started with."""
        self._plan = plan
        self._serving = []
        with ExitStack() as stack:
            for peer in peers:
                self._start(peer, stack, loads)
            if not self._serving and not self.windows:
                raise BenchError("no peer can be measured: see above what is missing")
            for load in loads:
                self.load(load)

    def _start(self, peer: Peer, stack: ExitStack, loads: Sequence[Load]) -> None:
        known = next((n for n, e in enumerate(self.entries) if e.key == peer.key), None)
        if known is not None and self.entries[known].missing:
            return
        self._say(f"starting {peer.title}")
        try:
            peer.require()
            serving = stack.enter_context(peer.serve(self._plan))
        except (BenchError, OSError) as error:
            missing = str(error)
            self._say(f"{peer.title} is not measured: {missing}")
            if known is None:
                self.entries.append(Entry(peer.key, peer.title, missing=missing))
            else:
                self.failures += [Failure(peer.key, load.name, missing) for load in loads]
            return
        self._serving.append((peer, serving))
        if known is None:
            self.entries.append(
                Entry(peer.key, peer.title, serving.version, serving.command, serving.settings)
            )
        elif serving.settings != self.entries[known].settings:
            entry = self.entries[known]
            both = f"{entry.settings}; with {self._plan.flush}: {serving.settings}"
            self.entries[known] = replace(entry, settings=both)

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
