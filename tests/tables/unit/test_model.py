"""Random histories of a table: messages, runs, runs that are killed, catalogs that fail, changes of
others; at any time the table has each message up to its ends once."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyrmq.tables import commit as committing
from pyrmq.tables import names, parquet
from pyrmq.tables.ends import ends_of
from pyrmq.tables.errors import OutcomeUnknownError
from tests.support import scratch
from tests.support.thorough import THOROUGH
from tests.tables.dying import Killed
from tests.tables.making import Log, World, impatient, rows_of, run_of

KILLS = ("group written", "file finished", "all written", "before the commit", "after the commit")


class Tables(RuleBasedStateMachine):
    @initialize(partition=st.sampled_from([(), ("queue",), ("day", "broker")]))
    def begin(self, partition: tuple[str, ...]) -> None:
        self.temporary = tempfile.TemporaryDirectory(dir=scratch.place())
        self.world = World(Path(self.temporary.name))
        self.logs = [self.world.log("broker-a"), self.world.log("broker-b")]
        self.partition = partition
        self.dead: set[str] = set()
        for log in self.logs:
            log.put(2)
        self.run()

    @rule(log=st.integers(0, 1), count=st.integers(1, 9), queues=st.integers(1, 5))
    def put(self, log: int, count: int, queues: int) -> None:
        self.logs[log].put(count, queues)

    @rule()
    def run(self) -> None:
        self._catch_up()
        assert Counter(rows_of(self.world)) == Counter(self._all())

    @rule(log=st.integers(0, 1))
    def run_beside_one_broker(self, log: int) -> None:
        self._catch_up(self.logs[log])

    @rule(step=st.sampled_from(KILLS), log=st.integers(0, 1))
    def kill(self, step: str, log: int) -> None:
        """A run over both logs is killed, if it comes to the step."""
        owner, name, late = {
            "group written": (parquet.Writer, "_write_group", True),
            "file finished": (parquet.Writer, "_finish", True),
            "all written": (parquet.Writer, "close", True),
            "before the commit": (committing, "_attempt", False),
            "after the commit": (committing, "_attempt", True),
        }[step]
        with pytest.MonkeyPatch.context() as patched:
            real = getattr(owner, name)

            def killed(*args: Any) -> None:
                if late:
                    real(*args)
                raise Killed

            patched.setattr(owner, name, killed)
            patched.setattr(parquet.Writer, "discard", lambda writer: self._left(writer))
            try:
                self._catch_up()
            except Killed:
                self.dead |= {name for name in self.world.files() if names.commit_of(name)}
                self.dead -= self.world.referenced()

    @rule(lost=st.booleans())
    def catalog_fails(self, lost: bool) -> None:
        """A commit has no answer, and nobody can be asked: whether it arrived is open."""
        real = committing._attempt

        def attempt(table: Any, staged: Any) -> Any:
            if lost:
                real(table, staged)
            raise ConnectionError("no answer")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(committing, "_attempt", attempt)
            patched.setattr(committing, "has_commit", lambda table, commit: False)
            patched.setattr(committing, "_check_unmoved", lambda *args: None)
            try:
                self._catch_up()
            except OutcomeUnknownError:
                self.dead |= self.world.files() - self.world.referenced()

    @rule()
    def others_add_a_snapshot(self) -> None:
        with self.world.table().transaction() as t, t.update_snapshot().fast_append():
            pass

    @precondition(lambda self: not self.partition)
    @rule()
    def compact(self) -> None:
        table = self.world.table()
        table.overwrite(table.scan().to_arrow())

    @rule()
    def expire(self) -> None:
        table = self.world.table()
        current = table.metadata.current_snapshot_id
        old = [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id != current]
        if old:
            table.maintenance.expire_snapshots().by_ids(old).commit()

    @invariant()
    def each_message_up_to_the_ends_once(self) -> None:
        ends = ends_of(self.world.table())
        assert ends is not None
        upto = [
            row
            for row in self._all()
            if (one := ends.queue(row[0], row[1])) is not None and row[2] < one.end
        ]
        assert Counter(rows_of(self.world)) == Counter(upto)
        assert self.world.referenced() <= self.world.files()

    def teardown(self) -> None:
        if hasattr(self, "temporary"):
            self.logs[0].put(1)
            self.run()
            assert not (self.dead - self.world.referenced()) & self.world.files()
            self.temporary.cleanup()

    def _all(self) -> list[tuple[str, int, int, bytes]]:
        return [row for log in self.logs for row in log.rows]

    def _left(self, writer: Any) -> None:
        """Instead of deleting: the process is gone."""

    def _catch_up(self, *logs: Log) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(names, "is_abandoned", lambda name: name in self.dead)
            run_of(
                self.world, *(logs or self.logs), partition=self.partition, waiting=impatient()
            ).catch_up()


TestTables = pytest.mark.slow(Tables.TestCase)
TestTables.settings = settings(
    max_examples=60 if THOROUGH else 4,
    stateful_step_count=25 if THOROUGH else 8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
