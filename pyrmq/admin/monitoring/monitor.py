"""The service: rounds at their times, alarms of what they found, and telling them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Self

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.monitoring.alarms import Alarms, Sample, State
from pyrmq.admin.monitoring.rounds import Lines, Report, Round, Watcher, Write, to_stdout
from pyrmq.admin.monitoring.settings import Settings
from pyrmq.admin.monitoring.sinks import Delivery, Sink, make
from pyrmq.admin.monitoring.watchers import watchers
from pyrmq.errors import leaves

DRAIN = 5.0
"""Seconds that sinks have at the end for what waits."""
GONE = "it is not there any more"


@contextmanager
def os_errors() -> Iterator[None]:
    """An OSError leaves nurseries as it is, not in a group."""
    try:
        yield
    except BaseExceptionGroup as group:
        errors = leaves(group)
        if all(isinstance(e, OSError) for e in errors):
            raise errors[0] from None
        raise


class Monitor:
    """Rounds of `watchers`, and their alarms for `sinks`.

        async with Admin("127.0.0.1:9876") as admin:
            await Monitor.of(admin, read("monitor.toml")).run()

    `write` gets lines about rounds; the log has them if it is None.
    """

    def __init__(
        self,
        settings: Settings,
        watchers: Sequence[Watcher],
        sinks: Sequence[Sink],
        *,
        write: Write | None = None,
    ) -> None:
        self.settings = settings
        self.alarms = Alarms(settings.threshold, settings.rounds.max_alarms)
        self.lines = Lines(write)
        self.deliveries = [Delivery(sink, self.lines) for sink in sinks]
        self._watchers = list(watchers)
        self._round = 0
        self._left_out = 0
        self._stopping = trio.Event()

    @classmethod
    def of(
        cls,
        admin: Admin,
        settings: Settings | None = None,
        *,
        write: Write | None = None,
        json_write: Write = to_stdout,
    ) -> Self:
        """One that watches all that there is to watch, and tells the sinks of the settings. `write`
        gets what is for the log, if it is not the log; `json_write` the lines of `json` sinks."""
        settings = settings or Settings()
        sinks = [make(s, log_lines=write, json_lines=json_write) for s in settings.sinks]
        return cls(settings, watchers(admin, settings), sinks, write=write)

    def stop(self) -> None:
        """Ends `run`: the round that runs is given up, what waits for sinks has a moment."""
        self._stopping.set()

    async def run(self, rounds: int = 0) -> None:
        """Rounds until `stop`, or `rounds` of them. OSError if lines cannot be written."""
        with os_errors():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.lines.run)
                await self._run(rounds)
                self.lines.close()
                nursery.cancel_scope.deadline = trio.current_time() + DRAIN

    async def _run(self, rounds: int) -> None:
        async with trio.open_nursery() as nursery:
            for delivery in self.deliveries:
                nursery.start_soon(delivery.run)
            async with trio.open_nursery() as inner:
                inner.start_soon(self._stopped, inner.cancel_scope)
                await self._rounds(rounds)
                inner.cancel_scope.cancel()
            for delivery in self.deliveries:
                delivery.close()
            nursery.cancel_scope.deadline = trio.current_time() + DRAIN
        for delivery in self.deliveries:
            if delivery.waiting:
                self.lines.tell(
                    f"failed: {delivery.sink.name} was not told {delivery.waiting} events", bad=True
                )

    async def _stopped(self, scope: trio.CancelScope) -> None:
        await self._stopping.wait()
        scope.cancel()

    async def _rounds(self, rounds: int) -> None:
        times = self.settings.rounds
        sinks = ", ".join(d.sink.name for d in self.deliveries) or "nobody"
        self.lines.tell(
            f"started: a round in {times.delay:g} s and every {times.interval:g} s, "
            f"alarms for {sinks}"
        )
        await trio.sleep(times.delay)
        while True:
            begun = trio.current_time()
            await self.round()
            if rounds and self._round >= rounds:
                return
            late = trio.current_time() - begun - times.interval
            if late > 0:
                self.lines.tell(
                    f"late: round {self._round} took {late:.2f} s longer than the interval of "
                    f"{times.interval:g} s; the next one begins now",
                    bad=True,
                )
            await trio.sleep_until(begun + times.interval)

    async def round(self) -> Report:
        """One round, now. Sinks are told its events while `run` runs."""
        self._round += 1
        begun = trio.current_time()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.lines.tell(f"beginRound {self._round} {now}")
        round_ = Round(self._round, self.settings, lambda sample: self._take(sample, round_))
        limit = self.settings.rounds.timeout
        with trio.move_on_after(limit) as scope:
            async with trio.open_nursery() as nursery:
                for watcher in self._watchers:
                    nursery.start_soon(round_.guarded, watcher.name, watcher.watch(round_))
        report = round_.report
        if scope.cancelled_caught:
            left = f"; {report.left} come first in the next one" if report.left else ""
            round_.problem("round", f"not ended within {limit:g} s{left}")
        for subject in self.alarms.not_read(self._round):
            if round_.is_gone(subject):
                self._take(Sample(subject, 0.0, GONE), round_)
        report.seconds = trio.current_time() - begun
        self._end(report)
        return report

    def _take(self, sample: Sample, round_: Round) -> None:
        event = self.alarms.read(
            sample, self._round, now=trio.current_time(), time=time.time_ns() // 1_000_000
        )
        if event is None:
            return
        round_.report.events.append(event)
        for delivery in self.deliveries:
            delivery.put(event)

    def _end(self, report: Report) -> None:
        for problem in report.problems:
            self.lines.tell(f"failed: {problem}", bad=True)
        if report.untold:
            self.lines.tell(f"failed: and {report.untold} more", bad=True)
        if self.alarms.left_out > self._left_out:
            left_out = self.alarms.left_out - self._left_out
            self.lines.tell(f"failed: {left_out} alarms beyond max_alarms are not kept", bad=True)
            self._left_out = self.alarms.left_out
        lost = sum(d.failed + d.dropped for d in self.deliveries)
        sinks = f", {lost} events so far that sinks did not take" if lost else ""
        fired = sum(e.state is State.FIRING for e in report.events)
        over = sum(e.state is State.RESOLVED for e in report.events)
        self.lines.tell(
            f"endRound {self._round}: {report.asked} asked, {report.failed} failed, "
            f"{self.alarms.firing} alarms, {fired} told and {over} ended now, "
            f"{report.seconds:.2f} s{sinks}"
        )


async def run_until_signal(monitor: Monitor) -> None:
    """Runs until SIGINT or SIGTERM; at the second of them it does not wait for sinks. Where signals
    are not to be had, in another thread than the main one, until `monitor.stop`."""
    if threading.current_thread() is not threading.main_thread():
        await monitor.run()
        return
    with os_errors(), trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def stop() -> None:
                stopping = False
                async for _ in signals:
                    if stopping:
                        nursery.cancel_scope.cancel()
                    stopping = True
                    monitor.stop()

            nursery.start_soon(stop)
            await monitor.run()
            nursery.cancel_scope.cancel()
