"""The task that revives: where messages go, what is kept of its progress and when. The timers are
the test's own: it puts check points and acks into the revive topic itself."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.pop.revive import ReviveService, Targets
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.tables import Tables
from pyrmq.broker.tables.topic_creation import open_topics
from pyrmq.engine import Pops, Store
from pyrmq.errors import NoPermissionError, SystemBusyError
from pyrmq.model.names import REVIVE_GROUP
from pyrmq.model.topic import TopicConfig
from tests.store.tools import bodies, image, open_store, read_queue
from tests.support.waiting import eventually_trio

T0 = 1_700_000_000_000
IT = 10_000
REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"
RETRY = "%RETRY%G_T"
LATE = T0 + IT + 2001
"""Timers up to here are delivered: what was popped at T0 can be judged."""


class Rig:
    """A broker's tables, and the service, on a store."""

    def __init__(self, store: Store, root: Path, **settings: Any) -> None:
        config = BrokerConfig(namesrv_addr="", store_path_root_dir=root, **settings)
        self.live = LiveConfig(config)
        self.store, self.folder = store, root / "config"
        topics = open_topics(self.folder / "topics.json", self.live, store)
        groups = GroupTable(self.folder / "subscriptionGroup.json", self.live)
        offsets = OffsetTable(self.folder / "consumerOffset.json", 1)
        self.tables = Tables(topics, groups, offsets, cast(Any, None), cast(Any, None))
        if topics.table.get("T") is None:
            topics.creation.update(TopicConfig("T", 1, 1))
        groups.require("G")
        self.now, self.timers, self.woken = T0, 0, 0
        self.pops = Pops(store.native, cluster="DefaultCluster", broker_name=config.broker_name)
        self.service = self.open()

    def open(self) -> ReviveService:
        return ReviveService(
            self.live,
            self.store,
            self.pops,
            self.tables,
            lambda now: self.timers,
            self.wake,
            lambda: self.now,
        )

    def wake(self) -> None:
        self.woken += 1

    def _deliver(self, tag: str, queue: int, **body: Any) -> None:
        body = {"t": "T", "c": "G", "q": 0, "bn": "b", "pt": T0, "so": 0} | body
        self.store.put(REVIVE, queue, json.dumps(body).encode(), f"TAGS\x01{tag}\x02")

    def ck(self, count: int, queue: int = 0, **change: Any) -> None:
        more = {"it": IT, "n": count, "d": list(range(count)), "bm": 0, "ro": 0}
        self._deliver("ck", queue, **more | change)

    def ack(self, offset: int, queue: int = 0, **change: Any) -> None:
        self._deliver("ack", queue, ao=offset, **change)

    def messages(self, count: int) -> None:
        for i in range(count):
            self.store.put("T", 0, f"m{i}".encode())

    def revive(self, timers: int = LATE) -> None:
        self.timers = timers
        while trio.run(self.service.revive):
            pass

    def keep(self) -> None:
        trio.run(self.service.finish)

    def kept(self, queue: int = 0) -> int | None:
        return self.tables.offsets.query(REVIVE, REVIVE_GROUP, queue)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    store = open_store(tmp_path / "store")
    yield Rig(store, tmp_path / "store")
    store.close()


def test_revived_into_a_topic_that_is_made(rig: Rig) -> None:
    rig.messages(3)
    rig.ck(3)
    rig.ack(1)
    rig.revive(T0 + IT + 2000)
    assert rig.tables.topics.table.get(RETRY) is None, "its time is not over"
    rig.revive()
    assert bodies(rig.store, RETRY) == [b"m0", b"m2"]
    made = rig.tables.topics.table.get(RETRY)
    assert made is not None
    assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (1, 1, 6)
    assert rig.tables.offsets.query(RETRY, "G", 0) == 0
    assert rig.woken == 1
    (first, _) = read_queue(rig.store, RETRY, 0)
    assert first.properties == {"ORIGIN_GROUP": "G", "1ST_POP_TIME": str(T0)}
    assert first.reconsume_times == 1


def test_where_messages_go(rig: Rig) -> None:
    targets = Targets(rig.live, rig.tables)
    assert targets.of((b"T", b"G")) == RETRY
    assert targets.of((RETRY.encode(), b"G")) == RETRY
    assert targets.of((b"%RETRY%G+T", b"G")) == "%RETRY%G+T"
    assert rig.tables.topics.table.get("%RETRY%G+T") is not None
    gone = [(b"U", b"G"), (b"T", b"H"), (b"%RETRY%G_U", b"G"), (b"\xff", b"G"), (b"T", b"\xff")]
    assert [targets.of(pair) for pair in gone] == [None] * len(gone)


def test_retry_topics_of_version_2(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    rig = Rig(store, tmp_path / "store", enable_retry_topic_v2=True)
    rig.messages(1)
    rig.ck(1)
    rig.revive()
    assert bodies(store, "%RETRY%G+T") == [b"m0"]
    store.close()


def test_the_offset_of_a_retry_topic_stays(rig: Rig) -> None:
    rig.tables.offsets.keep(RETRY, "G", 0, 7)
    assert Targets(rig.live, rig.tables).of((b"T", b"G")) == RETRY
    assert rig.tables.offsets.query(RETRY, "G", 0) == 7


def test_nothing_is_revived_while_its_topic_is_removed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig.messages(1)
    rig.ck(1)

    def busy(topic: str) -> None:
        raise SystemBusyError("is being deleted")

    with monkeypatch.context() as patched:
        patched.setattr(rig.tables.topics.removal, "check_not_removing", busy)
        rig.revive()
        rig.revive()
    assert caplog.text.count("messages are not revived, next try follows") == 1
    rig.revive()
    assert bodies(rig.store, RETRY) == [b"m0"]


def test_messages_of_what_is_gone_are_told(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rig.messages(1)
    rig.ck(2)
    rig.ck(3, c="H")
    rig.revive()
    assert "3 messages are not revived: they have lost their topic or group" in caplog.text
    assert "1 messages are not revived: they are in no queue any more" in caplog.text
    rig.keep()
    assert rig.kept() == 1


def test_progress_is_the_last_place_that_is_dealt_with(rig: Rig) -> None:
    rig.messages(1)
    rig.ck(1)
    rig.ck(1, queue=3)
    rig.revive(0)
    rig.keep()
    assert (rig.kept(), rig.kept(3)) == (None, None), "nothing was judged"
    rig.ack(0)
    rig.revive()
    rig.keep()
    assert (rig.kept(), rig.kept(3), rig.kept(1)) == (1, 0, None)
    again = rig.open()
    assert again.engine.progress()[0][:4] == [2, 0, 0, 1]


def test_progress_waits_for_the_disk(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.messages(1)
    rig.ck(1)
    rig.revive()
    reached = [0]
    monkeypatch.setattr(rig.service, "_store", On(rig.store, reached))
    trio.run(rig.service._keep)
    assert rig.kept() is None
    reached[0] = 1 << 60
    trio.run(rig.service._keep)
    assert rig.kept() == 0


class On:
    """A store whose log is on disk up to a place that the test sets."""

    def __init__(self, store: Store, reached: list[int]) -> None:
        self._store, self._reached = store, reached

    def flushed(self) -> int:
        return self._reached[0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_after_a_kill_nothing_is_revived_twice(
    rig: Rig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rig.messages(4)
    rig.ck(4)
    rig.ack(2)
    rig.revive()
    assert bodies(rig.store, RETRY) == [b"m0", b"m1", b"m3"]
    root = image(tmp_path / "store", tmp_path / "killed")
    store = open_store(root)
    again = Rig(store, root)
    again.ck(1, queue=1, so=1)
    again.revive()
    assert bodies(store, RETRY) == [b"m0", b"m1", b"m3", b"m1"]
    assert "3 messages were revived before the broker was killed" in caplog.text
    store.close()


def test_figures(rig: Rig) -> None:
    rig.messages(1)
    rig.ck(1)
    rig.now = T0 + IT + 700
    rig.revive(0)
    figures = rig.service.figures()
    assert (figures["popReviveBehindMessages"], figures["popReviveBehindMs"]) == (1, 700)
    assert figures["popReviveQueue_0"] == "1,700"
    rig.revive()
    figures = rig.service.figures()
    assert (figures["popReviveBehindMessages"], figures["popReviveRetryMessages"]) == (0, 1)


def test_nobody_else_moves_its_offsets(rig: Rig) -> None:
    with pytest.raises(NoPermissionError):
        rig.tables.offsets.commit(REVIVE, REVIVE_GROUP, 0, 99)


async def test_the_task_revives_and_keeps_until_it_is_stopped(rig: Rig) -> None:
    rig.messages(1)
    rig.ck(1)
    rig.timers = LATE
    async with trio.open_nursery() as nursery:
        await nursery.start(rig.service.run)
        await eventually_trio(rig.kept, "progress is kept", until=lambda kept: kept == 0)
        nursery.cancel_scope.cancel()
    rig.service.stop()
    rig.ck(1, queue=1)
    assert await rig.service.revive()
    assert bodies(rig.store, RETRY) == [b"m0"], "nothing once it is stopped"
