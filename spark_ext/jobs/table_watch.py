"""`pyrmq pipeline table watch`: many topics into their tables, by one process that runs on and on.

Tables have turns, one at a time, so memory is that of one run, and a table with a large backlog
does not keep the others waiting for long. A table that fails is tried again, later each time; the
others go on. SIGTERM ends the service when the commit at work is done.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import click

from pyrmq.errors import ConfigError, PyrmqError
from pyrmq.escape import escape
from pyrmq.net.backoff import Backoff
from pyrmq.tables.bodies.dead import SUFFIX
from pyrmq.tables.catalog import Catalog
from pyrmq.tables.commit import Waiting
from pyrmq.tables.compact import compact
from pyrmq.tables.expire import expire
from pyrmq.tables.schema import DEAD_OF
from spark_ext.jobs import report
from spark_ext.jobs.command import run_alone
from spark_ext.jobs.table_service import Stopping, opened
from spark_ext.jobs.table_summary import Told, left_out
from spark_ext.jobs.table_watch_file import Settings, Upkeep, Watched, read
from spark_ext.jobs.table_watch_metrics import Figures, MetricsServer
from spark_ext.jobs.table_write import command as write

log = logging.getLogger(__name__)

TURN = 60.0
"""Seconds after which a table commits what it has read, and the next one has its turn."""
UPKEEP_TURN = 600.0
FIRST_PAUSE, LONGEST_PAUSE = 10.0, 900.0
"""Seconds after a failure; each further one doubles them."""
LOOK = 5.0
"""Seconds between two looks at the file."""


class Turns(Stopping):
    """Asks what runs to stop when its turn is over, too. The clock runs from the first question on:
    to open catalogs and stores takes no time of a turn, and each turn does something."""

    def __init__(self) -> None:
        super().__init__()
        self._seconds = 0.0
        self._until: float | None = None

    def begin(self, seconds: float) -> None:
        self._seconds, self._until = seconds, None

    def is_asked(self) -> bool:
        if self.asked.is_set():
            return True
        if self._until is None:
            self._until = time.monotonic() + self._seconds
            return False
        return time.monotonic() >= self._until


@dataclass
class _State:
    """A table of the file and how it does. Times are those of time.monotonic."""

    watched: Watched
    figures: Figures
    due: float = 0.0
    upkeep_due: float = 0.0
    pauses: Backoff = field(default_factory=lambda: Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0.0))
    """After failures."""


class Service:
    """Runs the tables of a file. Looks at the file again when it changes."""

    def __init__(self, path: str | Path, turns: Turns) -> None:
        """ConfigError for a file that cannot be used; OSError."""
        self._path = Path(path)
        self._turns = turns
        self._stamp = self._stat()
        self._settings = read(self._path)
        self._looked = time.monotonic()
        self.figures: dict[str, Figures] = {}
        self._states: list[_State] = []
        self._take(self._settings)

    def run(self) -> None:
        """Until a stop is asked for."""
        while not self._turns.asked.is_set():
            self._reload()
            now = time.monotonic()
            state = min(self._states, key=lambda one: one.due)
            if state.due > now:
                self._turns.asked.wait(min(state.due - now, LOOK))
                continue
            self.turn(state)

    def turn(self, state: _State) -> None:
        """A commit or more of one table, and its upkeep if that is due."""
        figures = state.figures
        try:
            self._turns.begin(TURN)
            self._write(state)
            caught_up = not self._turns.is_asked()
            if caught_up:
                figures.caught_up = time.monotonic()
                self._maintain(state)
        except Exception as error:
            figures.failures += 1
            figures.failing = True
            pause = state.pauses.next()
            state.due = time.monotonic() + pause
            _say(
                f"{_name(state)}: {_text(error)}; tried again in {report.duration(pause * 1000)}",
                error=True,
            )
            if not isinstance(error, PyrmqError | OSError | click.ClickException):
                log.exception("%s", escape(f"{state.watched.topic} → {state.watched.table}"))
            return
        state.pauses.reset()
        figures.failing = False
        # With more to read it has the next turn after the others that are due.
        state.due = time.monotonic() + (state.watched.every if caught_up else 0.0)

    def _write(self, state: _State) -> None:
        told = Told()
        context = write.make_context("write", list(state.watched.arguments), obj=told)
        with context:
            write.invoke(context)
        added, figures = told.added, state.figures
        figures.commits += added.commits
        figures.messages += added.rows - added.left
        figures.unfit += added.dead + added.skipped
        figures.bytes += added.bytes
        if added.commits:
            parts = [
                f"{_name(state)}: {report.number(added.rows - added.left, 'message')}, "
                f"{report.size(added.bytes)}, {report.number(added.commits, 'commit')}",
                *left_out(state.watched.table, added.dead, added.skipped),
            ]
            missing = sum(gap.end - gap.start for gap in added.gaps)
            if missing:
                parts.append(f"{report.number(missing, 'message')} were not in the log")
            _say("; ".join(parts))

    def _maintain(self, state: _State) -> None:
        upkeep = self._settings.upkeep
        if upkeep is None or state.watched.form != "iceberg":
            return
        if time.monotonic() < state.upkeep_due:
            return
        self._turns.begin(UPKEEP_TURN)
        state.upkeep_due = time.monotonic() + upkeep.every
        _upkeep(state, upkeep, self._turns)

    def _take(self, settings: Settings) -> None:
        """What is in the file now; a table that was there before keeps its figures."""
        before = {(one.watched.catalog, one.watched.table): one for one in self._states}
        states = []
        now = time.monotonic()
        for one in settings.tables:
            old = before.get((one.catalog, one.table))
            if old is not None and old.watched == one:
                states.append(old)
                continue
            figures = Figures(one.table, one.topic, caught_up=now)
            if old is not None:
                figures = replace(old.figures, topic=one.topic)
            upkeep = now + (settings.upkeep.every if settings.upkeep is not None else 0.0)
            states.append(_State(one, figures, now, upkeep))
        self._states, self._settings = states, settings
        self.figures.clear()
        self.figures.update({f"{n}": one.figures for n, one in enumerate(states)})

    def _reload(self) -> None:
        """Reads the file again if it is another one. One that cannot be used changes nothing."""
        now = time.monotonic()
        if now - self._looked < LOOK:
            return
        self._looked = now
        try:
            stamp = self._stat()
            if stamp == self._stamp:
                return
            self._stamp = stamp
            settings = read(self._path)
        except (ConfigError, OSError) as error:
            _say(f"{_text(error)}; the tables of before are watched on", error=True)
            return
        self._take(settings)
        _say(f"{escape(self._path)} was read again: {report.number(len(self._states), 'table')}")

    def _stat(self) -> tuple[int, int, int]:
        found = os.stat(self._path)
        return found.st_mtime_ns, found.st_size, found.st_ino


def _upkeep(state: _State, upkeep: Upkeep, turns: Turns) -> None:
    """Compacts a table and the one of its dead bodies, and expires their snapshots."""
    one = state.watched
    catalog = opened(one.catalog, dict(one.properties), Waiting(0.0, turns.wait))
    _keep_up(catalog, one.table, _name(state), upkeep, turns)
    dead = catalog.find(one.table + SUFFIX)
    if dead is not None and dead.properties.get(DEAD_OF) == one.table:
        _keep_up(catalog, one.table + SUFFIX, _name(state) + SUFFIX, upkeep, turns)


def _keep_up(catalog: Catalog, name: str, shown: str, upkeep: Upkeep, turns: Turns) -> None:
    with catalog.errors(f"table {name} cannot be compacted"):
        done = compact(catalog.load(name), stop=turns.is_asked)
    age = None if upkeep.age is None else int(upkeep.age * 1000)
    with catalog.errors(f"snapshots of table {name} cannot be expired"):
        gone = expire(catalog.load(name), age=age, keep=upkeep.keep)
    said = []
    if done.removed:
        said.append(f"{report.number(done.removed, 'file')} replaced by {done.added}")
    if gone.snapshots or gone.orphans:
        said.append(
            f"{report.number(gone.snapshots, 'snapshot')} and "
            f"{report.number(gone.files + gone.orphans, 'file')} removed"
        )
    if said:
        _say(f"{shown}: {', '.join(said)}")


def _name(state: _State) -> str:
    return escape(f"{state.watched.topic} → {state.watched.table}")


def _text(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        return escape(error.format_message())
    if isinstance(error, PyrmqError | OSError):
        return escape(error)
    return escape(f"{type(error).__name__}: {error}")


def _say(text: str, *, error: bool = False) -> None:
    click.echo(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}", err=error)


@click.command("watch")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--metrics", metavar="HOST:PORT", help="Serve /metrics for Prometheus, such as 127.0.0.1:9464."
)
@click.option("--check", is_flag=True, help="Only check the file.")
def command(file: str, metrics: str | None, check: bool) -> None:
    """Write the topics of a TOML FILE into their tables, on and on.

    A line says what each commit added. The file is read again when it changes. SIGTERM ends the
    service after the commit at work."""
    with Turns() as turns:
        assert isinstance(turns, Turns)
        service = Service(file, turns)
        count = report.number(len(service.figures), "table")
        if check:
            click.echo(f"{escape(file)} is fine: {count}")
            return
        if metrics is not None:
            server = MetricsServer(metrics, service.figures)
            server.start()
            _say(f"/metrics at {server.address}")
        _say(f"{escape(file)}: {count} watched")
        service.run()
        _say("stopped")


if __name__ == "__main__":
    run_alone(command)
