"""A table and its tail against a model: messages are sent, committed and deleted in any order, and
each query has every message once, or says that some are lost."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from pyrmq.errors import DataLossError
from pyrmq.tables.history import table
from tests.support import scratch
from tests.support.thorough import examples
from tests.tables.tailing import TABLE, Key, Log, commit, keys

BODY = b"x" * 4000
"""Some fifteen messages fill a log file."""
COLUMNS = ["brokerName", "queueId", "queueOffset"]


class Model(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(dir=scratch.place()))
        self.log = Log(self.home / "store")
        self.catalog = self.home / "catalog"
        self.table: set[Key] = set()
        self.given_up: set[Key] = set()
        """Deleted before a commit that had nothing of their queue, or began it."""
        self.made = False

    def teardown(self) -> None:
        self.log.close()
        shutil.rmtree(self.home)

    @initialize()
    def begins(self) -> None:
        self.log.put(9, body=BODY)

    @rule(count=st.integers(1, 40), queue=st.integers(0, 4))
    def send(self, count: int, queue: int) -> None:
        self.log.put(count, queue, BODY)

    @rule(most=st.none() | st.integers(1, 20))
    def commit(self, most: int | None) -> None:
        before = self._there()
        try:
            rows = commit(self.catalog, [self.log.root], most=most)
        except DataLossError:
            return
        self.made = True
        if not rows:
            return
        ends: dict[int, int] = {}
        for _, queue, offset in self.table:
            ends[queue] = max(ends.get(queue, 0), offset + 1)
        for queue in {key[1] for key in before}:
            own = sorted(k for k in before if k[1] == queue and k[2] >= ends.get(queue, 0))
            self.table.update(own if most is None else own[:most])
        self.given_up |= self._lost()
        self.query()

    @rule(count=st.integers(1, 3))
    def delete(self, count: int) -> None:
        self.log.delete_first_files(count)
        self.query()

    @rule()
    def query(self) -> None:
        if not self.made:
            return
        there = self._there()
        if self._lost() - self.given_up:
            with pytest.raises(DataLossError):
                self._read(True)
        else:
            found = self._read(True)
            assert len(found) == len(set(found))
            assert set(found) == self.table | there
        found = self._read(False)
        assert len(found) == len(set(found))
        assert set(found) == self.table | there

    def _read(self, fail: bool) -> list[Key]:
        scan = table(
            TABLE,
            self.log.root,
            catalog=self.catalog,
            broker_names=["b"],
            columns=COLUMNS,
            fail_on_data_loss=fail,
        )
        return keys(scan.to_arrow())

    def _there(self) -> set[Key]:
        return self.log.kept()

    def _lost(self) -> set[Key]:
        return self.log.sent.keys() - self.table - self._there()


Model.TestCase.settings = settings(max_examples=examples(15), stateful_step_count=12, deadline=None)
TestModel = Model.TestCase
