"""After a kill: offsets of groups that pop are those of the check points in the log, and a file of
offsets waits for the check points that belong to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from pyrmq.broker.pop import restore
from pyrmq.broker.pop.restore import PopsInLog, restore_offsets
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.engine import Store
from pyrmq.model.topic import TopicConfig
from tests.broker.unit.test_revive import Rig
from tests.store.tools import open_store

NOW = 1_700_000_000_000


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    store = open_store(tmp_path / "store")
    rig = Rig(store, tmp_path / "store")
    rig.messages(10)
    rig.tables.offsets.pop_start = 0
    yield rig
    store.close()


def pop(
    rig: Rig, start: int, count: int, topic: str = "T", group: str = "G", queue: int = 0
) -> Any:
    popped = rig.pops.pop(
        topic, queue, group, start, count, pop_time=NOW, invisible_time=9000, revive_queue=1
    )
    assert popped is not None
    return popped


def offset(rig: Rig, topic: str = "T", group: str = "G", queue: int = 0) -> int | None:
    return rig.tables.offsets.query(topic, group, queue)


def restored(rig: Rig) -> int | None:
    restore_offsets(rig.store, rig.pops, rig.tables)
    return offset(rig)


def test_the_last_pop_counts(rig: Rig) -> None:
    pop(rig, 0, 3)
    pop(rig, 3, 2)
    assert restored(rig) == 5


def test_from_the_place_that_the_file_names(rig: Rig) -> None:
    pop(rig, 0, 3)
    rig.tables.offsets.pop_start = 1
    assert restored(rig) is None
    rig.tables.offsets.pop_start = None
    pop(rig, 3, 3)
    assert restored(rig) is None, "RocketMQ wrote the file"


def test_a_single_message_counts_where_the_group_stood(rig: Rig) -> None:
    rig.tables.offsets.keep("T", "G", 0, 4)
    pop(rig, 6, 1)
    assert restored(rig) == 4, "it may be half of a change of the invisible time"
    rig.tables.offsets.keep("T", "G", 0, 6)
    assert restored(rig) == 7


def test_what_was_acknowledged_in_order(rig: Rig) -> None:
    rig.pops.done_in_order("T", 0, "G", 1, NOW)
    rig.pops.done_in_order("T", 0, "G", 4, NOW)
    assert restored(rig) == 4


def test_nothing_of_what_was_deleted(rig: Rig) -> None:
    rig.tables.topics.creation.update(TopicConfig("U", 2, 2))
    rig.store.put("U", 1, b"x")
    rig.store.put("U", 1, b"y")
    pop(rig, 0, 2, topic="U", queue=1)
    restore_offsets(rig.store, rig.pops, rig.tables)
    assert offset(rig, "U", "G", 1) == 2
    rig.tables.offsets.remove("U", "G")
    rig.tables.topics.creation.update(TopicConfig("U", 1, 1))
    restore_offsets(rig.store, rig.pops, rig.tables)
    assert offset(rig, "U", "G", 1) is None, "the topic has lost that queue"


def test_a_reset_that_the_group_has_not_heard_of_stays(rig: Rig) -> None:
    pop(rig, 0, 5)
    rig.tables.offsets.reset("T", "G", 0, 2)
    assert restored(rig) == 2


def popping(**values: Any) -> Any:
    return cast(Any, SimpleNamespace(**{"busy": set()} | values))


async def test_what_the_file_says(rig: Rig, tmp_path: Path) -> None:
    offsets = rig.tables.offsets
    busy: set[object] = set()
    offsets.pops = PopsInLog(rig.store, popping(busy=busy))
    pop(rig, 0, 3)
    offsets.commit("T", "G", 0, 3)
    await offsets.save_if_changed()
    assert OffsetTable(offsets.path, 1).pop_start == 1
    busy.add(("T", "G", 1))  # a thread has appended a check point, maybe
    pop(rig, 3, 2)
    offsets.commit("T", "G", 0, 5)
    await offsets.save_if_changed()
    assert OffsetTable(offsets.path, 1).pop_start == 1


class Disk:
    """A store whose log is on disk up to a place that the test sets."""

    def __init__(self, store: Store) -> None:
        self._store, self.end = store, 0

    def flushed(self) -> int:
        return self.end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_a_file_of_offsets_waits_for_their_check_points(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "FLUSH_WAIT", 0.05)
    disk = Disk(rig.store)
    offsets = rig.tables.offsets
    offsets.pops = PopsInLog(cast(Any, disk), popping())
    offsets.commit("T", "G", 0, 3)
    with pytest.raises(OSError, match="not on disk"):
        await offsets.save_if_changed()
    assert not await trio.Path(offsets.path).exists()
    disk.end = int(rig.store.stats()["maxPhyOffset"])
    await offsets.save_if_changed()
    assert OffsetTable(offsets.path, 1).query("T", "G", 0) == 3
