"""Rows that are encoded when they changed, while their table goes on changing."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.config_file import Rows
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.net import fastjson
from tests.support import scratch


class Numbers:
    """A table of numbers, and what was encoded of it."""

    def __init__(self, count: int) -> None:
        self.values: dict[str, int] = {}
        self.encoded: list[str] = []
        self.rows: Rows[str] = Rows(self._row)
        for n in range(count):
            self.set(f"k{n}", n)

    def _row(self, key: str) -> bytes:
        self.encoded.append(key)
        return fastjson.member(key, self.values[key])

    def set(self, key: str, value: int) -> None:
        self.rows.change(key)
        self.values[key] = value

    def remove(self, key: str) -> None:
        self.rows.remove(key)
        del self.values[key]

    def read(self) -> Any:
        return fastjson.loads(b"".join(fastjson.parts(self.rows)))


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks run after every row."""
    monkeypatch.setattr(config_file, "TURN_SECONDS", 0)


def test_only_rows_that_changed_are_encoded_again() -> None:
    numbers = Numbers(5)
    numbers.rows.freeze()
    assert numbers.read() == numbers.values
    assert numbers.encoded == ["k0", "k1", "k2", "k3", "k4"]
    numbers.encoded.clear()
    numbers.set("k3", 30)
    numbers.set("new", 1)
    numbers.set("k3", 31)
    numbers.rows.freeze()
    assert numbers.read() == numbers.values
    assert numbers.encoded == ["k3", "new"]
    numbers.encoded.clear()
    numbers.rows.freeze()
    assert numbers.read() == numbers.values
    assert numbers.encoded == []


def test_what_is_frozen_does_not_change() -> None:
    numbers = Numbers(3)
    before = dict(numbers.values)
    numbers.rows.freeze()
    numbers.set("k1", 10)
    numbers.set("k1", 11)
    numbers.set("new", 1)
    assert numbers.read() == before
    numbers.set("k2", 20)
    assert numbers.read() == before
    numbers.rows.freeze()
    assert numbers.read() == numbers.values == {"k0": 0, "k1": 11, "k2": 20, "new": 1}


def test_freezing_again_before_all_is_encoded() -> None:
    numbers = Numbers(3)
    numbers.rows.freeze()
    numbers.set("k0", 10)
    numbers.set("new", 1)
    numbers.rows.freeze()
    numbers.set("k1", 20)
    assert numbers.read() == {"k0": 10, "k1": 1, "k2": 2, "new": 1}
    numbers.encoded.clear()
    numbers.rows.freeze()
    assert numbers.read() == numbers.values
    assert numbers.encoded == ["k1"]


def test_a_removed_row_is_in_what_was_frozen_before() -> None:
    numbers = Numbers(4)
    before = dict(numbers.values)
    numbers.rows.freeze()
    numbers.remove("k1")  # before its turn
    assert numbers.read() == before
    numbers.remove("k2")  # behind it
    assert numbers.read() == before
    numbers.set("new", 1)
    numbers.remove("new")  # in no table ever
    numbers.rows.freeze()
    assert numbers.read() == numbers.values == {"k0": 0, "k3": 3}


def test_a_removed_row_that_is_made_again() -> None:
    numbers = Numbers(2)
    numbers.rows.freeze()
    numbers.remove("k1")
    numbers.set("k1", 10)
    assert numbers.read() == {"k0": 0, "k1": 1}
    numbers.rows.freeze()
    numbers.remove("k1")
    numbers.set("k1", 11)
    numbers.remove("k0")
    assert numbers.read() == {"k0": 0, "k1": 10}
    numbers.rows.freeze()
    assert numbers.read() == numbers.values == {"k1": 11}


def test_removing_before_all_of_an_earlier_table_is_encoded() -> None:
    numbers = Numbers(3)
    numbers.rows.freeze()
    numbers.remove("k0")
    numbers.set("k3", 3)
    numbers.rows.freeze()  # k1 and k2 have not been encoded yet
    numbers.remove("k1")
    assert numbers.read() == {"k1": 1, "k2": 2, "k3": 3}
    numbers.rows.freeze()
    assert numbers.read() == numbers.values == {"k2": 2, "k3": 3}


async def test_other_tasks_run_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row takes 0.4 ms here, so that there are three in a turn of 1 ms."""
    numbers = Numbers(20)
    clock = SimpleNamespace(monotonic=lambda: len(numbers.encoded) * 0.0004)
    monkeypatch.setattr(config_file, "time", clock)
    turns: list[int] = []

    async def watch() -> None:
        while True:
            turns.append(len(numbers.encoded))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        numbers.rows.freeze()
        await numbers.rows.encode()
        nursery.cancel_scope.cancel()
    assert set(turns) <= {0, 3, 6, 9, 12, 15, 18, 20}
    # Trio gives every other task a turn between two turns of one; the last may come too late.
    assert len(turns) >= 5
    numbers.encoded.clear()
    assert numbers.read() == numbers.values
    assert numbers.encoded == [], "all was encoded in turns"


@pytest.mark.usefixtures("short_turns")
async def test_a_cancelled_encoding_goes_on_with_the_next_table() -> None:
    numbers = Numbers(4)
    numbers.rows.freeze()
    with trio.CancelScope() as scope:
        scope.cancel()
        await numbers.rows.encode()
    assert numbers.encoded == ["k0"]
    numbers.set("k0", 10)
    numbers.set("k1", 11)
    numbers.rows.freeze()
    await numbers.rows.encode()
    numbers.set("k2", 12)
    assert numbers.read() == {"k0": 10, "k1": 11, "k2": 2, "k3": 3}


class Watched(OffsetTable):
    """Offsets that note what was frozen, and how many rows were encoded."""

    def __init__(self, path: Path) -> None:
        self.encoded = 0
        self.frozen: dict[str, Any] | None = None
        super().__init__(path, 1)

    def _offset_row(self, key: tuple[str, str]) -> bytes:
        assert threading.current_thread() is threading.main_thread(), "where nothing changes it"
        self.encoded += 1
        return super()._offset_row(key)

    def content(self) -> dict[str, Any]:
        """What the file has to hold, made of the offsets themselves."""
        topics: dict[str, list[str]] = {}
        for topic, group in sorted(self.offsets):
            topics.setdefault(group, []).append(topic)
        return {
            "dataVersion": self.version.to_json(),
            "groupTopicMap": topics,
            "offsetTable": {f"{t}@{g}": dict(q) for (t, g), q in self.offsets.items()},
            "popStart": self.pop_start,
        }

    def to_json(self) -> dict[str, Any]:
        self.frozen = self.content()
        return super().to_json()


Commits = list[tuple[str, str, int, int]]
"""An offset of -1 stands for removing what there is of the topic, -2 of the group."""
_COMMITS = st.lists(
    st.tuples(
        st.sampled_from(["T", "U", "%RETRY%ä"]),
        st.sampled_from(["g", "h"]),
        st.integers(0, 2),
        st.integers(-2, 3) | st.integers(0, 1 << 60),
    ),
    max_size=12,
)
_STEPS = st.lists(
    st.tuples(st.sampled_from(["commit", "save", "cancel", "fail", "restart"]), _COMMITS),
    max_size=12,
)


class Life:
    """A broker's offsets: saved while commits come, and read again."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.table = Watched(file)
        self.held = self.table.content()
        """What the file has to hold; at first there is none."""

    async def step(self, what: str, commits: Commits) -> None:
        if what == "restart":
            self.table = Watched(self.file)
            assert self.table.content() == self.held
        elif what == "commit":
            await self.commit(commits)
        else:
            await self.save(what, commits)
            self.check_file()

    async def commit(self, commits: Commits) -> None:
        for commit in commits:
            if commit[3] == -1:
                self.table.remove_topic(commit[0])
            elif commit[3] == -2:
                self.table.remove_group(commit[1])
            else:
                self.table.commit(*commit)
            await trio.lowlevel.checkpoint()

    async def save(self, how: str, commits: Commits) -> None:
        """Saves while commits come; it is cancelled with the last of them, or the disk is full."""
        table = self.table
        before, encoded = table.content(), table.encoded
        table.frozen = None
        written = True
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def others() -> None:
                await self.commit(commits)
                if how == "cancel":
                    scope.cancel()

            with pytest.MonkeyPatch.context() as patch, scope:
                # No example is about power cuts, and an fsync takes longer than all the rest.
                patch.setattr(os, "fsync", disk_full if how == "fail" else lambda fd: None)
                if before == self.held:
                    await table.save_if_changed()
                    assert (table.frozen, table.encoded) == (None, encoded)
                    return
                nursery.start_soon(others)
                try:
                    await table.save_if_changed()
                except OSError:
                    written = False
            written = written and not scope.cancelled_caught
        assert written or how != "save"
        if written:
            assert table.frozen is not None
            self.held = table.frozen

    def check_file(self) -> None:
        value = config_file.load(self.file)
        if not value:
            assert self.held["dataVersion"]["counter"] == 0
            return
        assert self.file.read_bytes() == b"".join(fastjson.parts(value, "\n"))
        for topics in value["groupTopicMap"].values():
            topics.sort()
        assert value == self.held


def disk_full(fd: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.usefixtures("short_turns")
@given(steps=_STEPS)
def test_a_file_holds_the_table_as_it_was(steps: list[tuple[str, Commits]]) -> None:
    """Whatever happens while it is written; and the next save has what came in between."""

    async def run() -> None:
        with tempfile.TemporaryDirectory(dir=scratch.place()) as folder:
            life = Life(Path(folder) / "consumerOffset.json")
            for what, commits in [*steps, ("save", []), ("restart", [])]:
                await life.step(what, commits)

    trio.run(run)
