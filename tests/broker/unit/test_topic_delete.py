"""Deleting topics and what goes by itself: on real tables and a real store, whose queues stay."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from pyrmq.broker import housekeeping
from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.housekeeping import Housekeeping
from pyrmq.broker.tables import config_file, groups
from pyrmq.broker.tables import topic_removal as topic_delete
from pyrmq.broker.tables.clients import Client, ClientTable
from pyrmq.broker.tables.groups import Group, GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topic_creation import open_topics
from pyrmq.broker.tables.topic_removal import TopicDeletion
from pyrmq.engine import Store
from pyrmq.errors import InvalidParameterError, ServiceNotAvailableError, SystemBusyError
from tests.support.build import Deleting, FakeConnection, Told
from tests.support.waiting import eventually_trio

OPERATOR: Any = SimpleNamespace(peer="127.0.0.1:1")
DAY = 86_400_000


class World:
    """A broker's tables, and what its deletions did."""

    def __init__(self, folder: Path, config: BrokerConfig, store: Store) -> None:
        self.folder = folder
        self.config = config
        self.raw = store
        self.store: Any = Deleting(store)
        self.live = LiveConfig(config)
        opened = open_topics(folder / "topics.json", self.live, self.store)
        self.topics, self.creation, self.removal = opened.table, opened.creation, opened.removal
        self.groups = GroupTable(folder / "subscriptionGroup.json", self.live)
        self.offsets = OffsetTable(folder / "consumerOffset.json", 1)
        self.clients = ClientTable(lambda group: None)
        self.ended: list[str] = []
        self.closed: list[Any] = []
        self.deletion = TopicDeletion(
            self.live,
            self.store,
            self.topics,
            self.removal,
            self.groups,
            self.offsets,
            lambda topics: self.ended.extend(sorted(topics)),
        )
        self.housekeeping = Housekeeping(
            self.live,
            self.store,
            self.topics,
            self.groups,
            self.offsets,
            self.clients,
            self.deletion,
            self.closed.append,
        )

    async def make(self, topic: str, messages: int = 0) -> None:
        self.creation.create_send_back(topic, 1)
        await self.topics.saved(topic)
        for _ in range(messages):
            self.raw.put(topic, 0, b"x")

    async def delete(self, topic: str) -> int:
        command: Any = SimpleNamespace(ext={"topic": topic})
        answer: Any = await self.deletion.delete(OPERATOR, command).answer
        return int(answer.code)

    async def clean(self) -> None:
        command: Any = SimpleNamespace(ext={})
        await self.deletion.clean_unused(OPERATOR, command).answer

    def beat(self, group: str, *topics: str) -> FakeConnection:
        connection: Any = FakeConnection()
        subs = [{"topic": topic, "subString": "*", "subVersion": 1} for topic in topics]
        self.clients.register_consumer(
            {"groupName": group, "subscriptionDataSet": subs},
            connection,
            Client("c", 0, 479, trio.current_time()),
            notify=True,
            keep_subscriptions=False,
        )
        return connection

    def saved_topics(self) -> set[str]:
        return set(config_file.load(self.topics.path)["topicConfigTable"])

    def saved_offsets(self) -> set[str]:
        return set(config_file.load(self.offsets.path).get("offsetTable", ()))


@pytest.fixture
def world(tmp_path: Path, config: BrokerConfig, store: Store) -> World:
    return World(tmp_path, config, store)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    clock = [1_000_000]
    monkeypatch.setattr(groups, "now_ms", lambda: clock[0])
    return clock


async def test_a_topic_goes_with_all_that_belongs_to_it(world: World) -> None:
    await world.make("T", 2)
    await world.make("Other")
    for group in ("g", "h"):
        world.offsets.commit("T", group, 0, 1)
        world.offsets.commit("Other", group, 0, 1)
        world.offsets.pulled(("T", group, 0), 2)
    world.offsets.reset("T", "g", 0, 0)
    assert await world.delete("T") == 0
    assert world.topics.get("T") is None
    assert "Other" in world.saved_topics()
    assert "T" not in world.saved_topics()
    assert world.saved_offsets() == {"Other@g", "Other@h"}
    assert [world.offsets.next_pull("T", group, 0) for group in ("g", "h")] == [0, 0]
    assert world.offsets.resets == {}
    assert world.ended == ["T"]
    assert world.store.deleted == ["T"]
    assert not world.removal.is_removing("T")


@pytest.mark.parametrize(
    "topic",
    [
        "TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC", "DefaultCluster", "broker-a", "DefaultCluster_REPLY_TOPIC",
        "rmq_sys_wheel_timer", "rmq_sys_anything", "", "a b", "../x",
    ],
)  # fmt: skip
async def test_topics_that_stay(world: World, topic: str) -> None:
    before = dict(world.topics.topics)
    with pytest.raises(InvalidParameterError):
        await world.delete(topic)
    assert world.topics.topics == before
    assert world.store.deleted == world.ended == []


async def test_an_unknown_topic_is_no_error(world: World) -> None:
    world.offsets.commit("T", "g", 0, 1)
    assert await world.delete("T") == 0
    assert world.offsets.offsets == {}, "what is left of it goes"
    assert world.store.deleted == [], "there is nothing to delete"
    world.raw.set_topic("Stored", read_queues=1, write_queues=1)
    world.raw.put("Stored", 0, b"x")
    for _ in range(2):
        assert await world.delete("Stored") == 0
        assert world.store.deleted == ["Stored"]
        assert world.topics.deleted.first_offset("Stored", 0) == 1


async def test_retry_topics_of_pop_consumers(world: World) -> None:
    for topic in ("T", "%RETRY%g_T", "%RETRY%h_T", "%RETRY%i_T", "%RETRY%g"):
        await world.make(topic)
    world.groups.update(Group("h_T"))  # whose own retry topic has the same name
    for group in ("g", "h"):
        world.offsets.commit("T", group, 0, 1)
    await world.delete("T")
    assert sorted(world.store.deleted) == ["%RETRY%g_T", "T"]
    assert world.topics.get("%RETRY%h_T") is not None


async def test_retry_topics_stay_where_that_is_configured(world: World) -> None:
    world.live.change(replace(world.config, clear_retry_topic_when_delete_topic=False))
    for topic in ("T", "%RETRY%g_T"):
        await world.make(topic)
    world.offsets.commit("T", "g", 0, 1)
    await world.delete("T")
    assert world.store.deleted == ["T"]


async def test_name_servers_know_first(world: World) -> None:
    await world.make("T")
    order: list[object] = []

    async def tell() -> None:
        order.append(world.topics.get("T"))

    world.topics.watch(Told(told=tell))
    await world.delete("T")
    assert order == [None]


async def test_nobody_makes_the_topic_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.make("T")
    seen: list[str] = []

    def delete(topic: str) -> list[tuple[int, int]]:
        assert world.removal.is_removing(topic)
        with pytest.raises(SystemBusyError):
            world.creation.create_send_back(topic, 1)
        seen.append(topic)
        return []

    monkeypatch.setattr(world.store, "delete_topic", delete)
    await world.delete("T")
    assert seen == ["T"]
    await world.make("T")


@asynccontextmanager
async def full_disk(monkeypatch: pytest.MonkeyPatch, times: int) -> AsyncIterator[None]:
    left = [times]

    def fsync(fd: int) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield


async def test_a_full_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleting makes room: what cannot be saved before may be saved behind it."""
    await world.make("T")
    async with full_disk(monkeypatch, 1):
        assert await world.delete("T") == 0
    assert "T" not in world.saved_topics()
    await world.make("U")
    async with full_disk(monkeypatch, 9):
        with pytest.raises(ServiceNotAvailableError, match="No space left"):
            await world.delete("U")
    assert world.topics.get("U") is None
    assert world.store.deleted == ["T", "U"]
    await world.topics.save_if_changed()
    assert "U" not in world.saved_topics(), "it is saved as soon as that works"


async def test_data_that_cannot_be_deleted(world: World) -> None:
    await world.make("T", 1)
    world.store.failure = OSError(errno.EIO, "broken")
    with pytest.raises(OSError, match="broken"):
        await world.delete("T")
    assert world.topics.get("T") is None
    assert not world.removal.is_removing("T")
    world.store.failure = None
    await world.clean()
    assert world.store.deleted == ["T", "T"]


async def test_cleaning_unused_topics(world: World) -> None:
    for topic in ("Unused", "SELF_TEST_TOPIC"):
        world.raw.set_topic(topic, read_queues=1, write_queues=1)
        world.raw.put(topic, 0, b"x")
    await world.make("Used", 1)
    await world.clean()
    assert world.store.deleted == ["Unused"]
    assert world.ended == ["Unused"]


async def test_what_comes_into_use_meanwhile_stays(
    world: World, now: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One topic goes at a time; while the others wait, they may be made or used again."""
    world.raw.set_topic("Unused", read_queues=1, write_queues=1)
    world.raw.put("Unused", 0, b"x")
    world.groups.require("idle")
    await world.make("%RETRY%idle")
    await world.make("T")
    now[0] += 8 * DAY

    def come_into_use() -> None:
        world.creation.create_send_back("Unused", 1)
        assert "idle" not in world.groups.groups
        world.groups.require("idle")

    others_wait = threading.Event()

    def delete(topic: str) -> list[tuple[int, int]]:
        world.store.deleted.append(topic)
        assert others_wait.wait(10)
        return []

    monkeypatch.setattr(world.store, "delete_topic", delete)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.delete, "T")
        await eventually_trio(lambda: world.store.deleted, "T is being deleted")
        nursery.start_soon(world.clean)
        nursery.start_soon(world.housekeeping.expire_groups)
        turns = world.deletion._one.statistics
        await eventually_trio(lambda: turns().tasks_waiting, "both wait", until=lambda n: n == 2)
        come_into_use()
        others_wait.set()
    assert world.store.deleted == ["T"]
    assert world.topics.get("%RETRY%idle") is not None
    assert world.topics.get("Unused") is not None


async def test_silent_clients(world: World, autojump_clock: trio.testing.MockClock) -> None:
    limit = world.config.channel_expired_timeout / 1000
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.housekeeping.run)
        await trio.sleep(1)
        silent = world.beat("g", "T")
        await trio.sleep(limit - 1)
        assert world.closed == []
        world.beat("g", "T")
        await trio.sleep(housekeeping.CLIENT_SCAN + 1)
        assert world.closed[0] is silent
        assert len(world.closed) == 1
        nursery.cancel_scope.cancel()


async def test_unused_groups_expire(world: World, now: list[int]) -> None:
    names = ("idle", "member", "consumed", "retries", "dead", "asked")
    for name in names:
        world.groups.require(name)
        await world.make(f"%RETRY%{name}", 1 if name == "retries" else 0)
    world.groups.update(Group("operators"))
    await world.make("%DLQ%idle")
    await world.make("%DLQ%dead", 1)
    world.offsets.commit("T", "consumed", 0, 1)
    world.offsets.pulled(("T", "idle", 0), 1)
    gone = world.beat("member", "T")
    now[0] += 8 * DAY
    world.groups.require("asked")
    await world.housekeeping.expire_groups()
    left = {"member", "consumed", "retries", "asked", "operators"}
    assert {*names, "operators"} & world.groups.groups.keys() == left
    assert sorted(world.store.deleted) == ["%DLQ%idle", "%RETRY%dead", "%RETRY%idle"]
    assert world.topics.get("%DLQ%dead") is not None, "dead letters are for somebody to look at"
    assert world.offsets.next_pull("T", "idle", 0) == 0
    gone.close()
    world.offsets.remove_group("consumed")
    await world.housekeeping.expire_groups()
    assert {*names, "operators"} & world.groups.groups.keys() == {"retries", "asked", "operators"}


async def test_many_groups_expire_together(
    world: World, now: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are not written for each of them."""
    monkeypatch.setattr(topic_delete, "AT_ONCE", 3)
    for n in range(5):
        world.groups.require(f"g{n}")
        await world.make(f"%RETRY%g{n}")
    now[0] += 8 * DAY
    written: list[str] = []
    save = config_file.save

    def noted(path: Path, value: dict[str, Any]) -> None:
        written.append(path.name)
        save(path, value)

    monkeypatch.setattr(config_file, "save", noted)
    await world.housekeeping.expire_groups()
    assert len(world.store.deleted) == 5
    assert written.count("topics.json") <= 4, "ten topics are asked for, three at a time"
    assert not [topic for topic in world.saved_topics() if topic.startswith("%RETRY%g")]


async def test_looks_go_on_behind_a_failure(
    world: World, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    looks: list[float] = []

    async def expire() -> None:
        looks.append(trio.current_time())
        if len(looks) == 1:
            raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(world.housekeeping, "expire_groups", expire)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.housekeeping.run)
        await trio.sleep(3 * housekeeping.GROUP_SCAN + 1)
        nursery.cancel_scope.cancel()
    assert len(looks) == 3


async def test_offsets_of_topics_that_are_gone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "AT_ONCE", 2)

    def pulled(topic: str) -> int:
        return world.offsets.next_pull(topic, "g", 0)

    await world.make("T")
    for topic in ("T", "Gone", "Gone2", "Gone3", "Wanted", "%LMQ%light"):
        for group in ("g", "h"):
            world.offsets.commit(topic, group, 0, 5)
            world.offsets.pulled((topic, group, 0), 6)
    world.beat("g", "Wanted")
    await world.housekeeping.drop_offsets()
    kept = {("T", "g"), ("T", "h"), ("Wanted", "g"), ("%LMQ%light", "g"), ("%LMQ%light", "h")}
    assert world.offsets.offsets.keys() == kept
    kept_pulls = {topic for topic in ("T", "Gone", "Wanted", "%LMQ%light") if pulled(topic)}
    assert kept_pulls == {"T", "%LMQ%light"}
