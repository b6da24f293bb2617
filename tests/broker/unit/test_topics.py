"""The topic table, on a real store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.tables.topic_creation import Topics, open_topics
from pyrmq.broker.tables.topics import TopicTable, check_sendable
from pyrmq.engine import Store
from pyrmq.errors import (
    InvalidParameterError,
    NoPermissionError,
    SystemBusyError,
    TopicNotExistError,
)
from pyrmq.model.topic import MULTI_TAG, TopicConfig
from pyrmq.net import fastjson
from tests.support.build import FakeConnection, Told, open_store

Make = Callable[..., Topics]


def text(table: TopicTable) -> bytes:
    """What the file of a table would hold now."""
    return b"".join(fastjson.parts(table.to_json()))


@pytest.fixture
def changes() -> list[int]:
    return []


@pytest.fixture
def make(tmp_path: Path, config: BrokerConfig, store: Store, changes: list[int]) -> Make:
    def build(**settings: object) -> Topics:
        live = LiveConfig(replace(config, **settings))
        topics = open_topics(tmp_path / "topics.json", live, store)
        topics.table.watch(Told(lambda: changes.append(1)))
        return topics

    return build


def test_topics_from_the_first_start(make: Make) -> None:
    topics = make()
    rows = {
        n: (t.write_queue_nums, t.read_queue_nums, t.perm) for n, t in topics.table.topics.items()
    }
    assert rows == {
        "SELF_TEST_TOPIC": (1, 1, 6), "TBW102": (8, 8, 7), "BenchmarkTest": (1024, 1024, 6),
        "DefaultCluster": (16, 16, 7), "broker-a": (1, 1, 7), "OFFSET_MOVED_EVENT": (1, 1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 18, 6), "DefaultCluster_REPLY_TOPIC": (1, 1, 6),
        "rmq_sys_REVIVE_LOG_DefaultCluster": (8, 8, 6),
        "rmq_sys_SYNC_BROKER_MEMBER_broker-a": (1, 1, 1), "RMQ_SYS_TRANS_HALF_TOPIC": (1, 1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 1, 6), "rmq_sys_wheel_timer": (1, 1, 6),
    }  # fmt: skip


def test_trace_topic_if_enabled(make: Make) -> None:
    assert "RMQ_SYS_TRACE_TOPIC" in make(trace_topic_enable=True).table.topics


@pytest.mark.parametrize(
    ("asked", "template", "made"), [(4, 8, 4), (16, 8, 8), (8, 8, 8), (0, 8, 0), (-1, 8, 0)]
)
def test_a_sender_gets_no_more_queues_than_the_template(
    make: Make, changes: list[int], asked: int, template: int, made: int
) -> None:
    topics = make(default_topic_queue_nums=template)
    before = topics.table.version.counter
    topic = topics.creation.create_in_send("T", "TBW102", asked, False)
    assert topic == TopicConfig("T", made, made, 6)
    assert topics.table.get("T") is topic
    assert changes == [1]
    assert topics.table.version.counter == before + 1


def test_unit_flag(make: Make) -> None:
    topic = make().creation.create_in_send("T", "TBW102", 4, True)
    assert topic is not None
    assert topic.topic_sys_flag == 1


@pytest.mark.parametrize("template", ["none", "SELF_TEST_TOPIC", ""])
def test_only_templates_that_are_inherited(make: Make, changes: list[int], template: str) -> None:
    topics = make()
    assert topics.creation.create_in_send("T", template, 4, False) is None
    assert topics.table.get("T") is None
    assert changes == []


def test_auto_creation_switched_off(make: Make) -> None:
    topics = make(auto_create_topic_enable=False)
    assert topics.creation.create_in_send("T", "TBW102", 4, False) is None
    other = topics.creation.create_in_send("T", "DefaultCluster", 4, False)
    assert other is not None  # the cluster's own topic is a template of its own


async def test_auto_creation_switched_off_and_on_again(make: Make) -> None:
    topics = make()
    await topics.table.save_if_changed()
    off = make(auto_create_topic_enable=False)
    assert off.creation.create_in_send("T", "TBW102", 4, False) is None
    off.table.changed()
    await off.table.save_if_changed()
    assert make().creation.create_in_send("T", "TBW102", 4, False) is not None


async def test_topics_survive(make: Make) -> None:
    topics = make()
    topics.creation.create_in_send("T", "TBW102", 4, False)
    topics.creation.update(TopicConfig("U", 2, 3, 4, MULTI_TAG, 1, True))
    await topics.table.save_if_changed()
    again = make().table
    assert again.topics == topics.table.topics
    assert again.version == topics.table.version
    await again.save_if_changed()
    assert text(again) == text(topics.table)


def test_update_announces_what_changed(make: Make, changes: list[int]) -> None:
    topics = make()
    topics.creation.update(TopicConfig("T", 4, 4))
    counter = topics.table.version.counter
    topics.creation.update(TopicConfig("T", 4, 4))
    assert (len(changes), topics.table.version.counter) == (1, counter)
    topics.creation.update(TopicConfig("T", 8, 4))
    assert (len(changes), topics.table.version.counter) == (2, counter + 1)


@pytest.mark.parametrize(
    "topic",
    [
        TopicConfig("TBW102", 4, 4), TopicConfig("rmq_sys_x", 4, 4), TopicConfig("a b", 4, 4),
        TopicConfig("DefaultCluster", 4, 4), TopicConfig("broker-a", 4, 4), TopicConfig("", 1, 1),
        TopicConfig("T", -1, 4), TopicConfig("T", 4, 65_537),
    ],
)  # fmt: skip
def test_updates_that_are_refused(make: Make, changes: list[int], topic: TopicConfig) -> None:
    topics = make()
    before = text(topics.table)
    with pytest.raises(InvalidParameterError):
        topics.creation.update(topic)
    assert text(topics.table) == before
    assert changes == []


def test_retry_topics(make: Make, changes: list[int]) -> None:
    topics = make()
    made = topics.creation.create_send_back("%RETRY%g", 1)
    assert made == TopicConfig("%RETRY%g", 1, 1, 6)
    assert topics.creation.create_send_back("%RETRY%g", 5, unit=True) is made
    assert changes == [1]
    with pytest.raises(InvalidParameterError):
        topics.creation.create_send_back("%RETRY%../g", 1)


def test_stored_topics_without_configuration_are_adopted(
    tmp_path: Path, config: BrokerConfig
) -> None:
    """A crash may come before topics.json was written: what was acknowledged is read anyway."""
    root = tmp_path / "crashed"
    store = open_store(root)
    for topic, queue in (("T", 6), ("T", 1), ("U", 0)):
        store.set_topic(topic, read_queues=8, write_queues=8)
        store.put(topic, queue, b"x")
    store.close()
    store = open_store(root)
    try:
        topics = open_topics(tmp_path / "none.json", LiveConfig(config), store)
        assert topics.table.get("T") == TopicConfig("T", 7, 7)
        assert topics.table.get("U") == TopicConfig("U", 4, 4)
        assert store.queue_range("T", 6) == (0, 1)
    finally:
        store.close()


def test_a_configured_topic_is_not_adopted_again(make: Make, store: Store) -> None:
    store.set_topic("TBW102", read_queues=8, write_queues=8)
    store.put("TBW102", 0, b"x")
    assert make().table.topics["TBW102"].write_queue_nums == 8


def test_a_file_with_nonsense(tmp_path: Path, make: Make) -> None:
    (tmp_path / "topics.json").write_text(
        '{"dataVersion":{"counter":5},"topicConfigTable":{"../x":{"perm":6},"T":7,'
        '"U":{"readQueueNums":"9","writeQueueNums":99999999,"perm":null,"order":1},'
        '"SELF_TEST_TOPIC":{"perm":0,"readQueueNums":1,"writeQueueNums":1}}}'
    )
    topics = make()
    assert "../x" not in topics.table.topics
    assert "T" not in topics.table.topics
    assert topics.table.get("U") == TopicConfig("U", 9, 65_536)
    assert topics.table.topics["SELF_TEST_TOPIC"].perm == 6  # what the system needs is put right
    assert topics.table.version.counter > 5


def test_a_sender_makes_so_many(make: Make) -> None:
    topics = make(max_new_topics_per_connection=2)
    greedy, other = FakeConnection(), FakeConnection()
    for name in ("a", "b"):
        assert topics.creation.create_in_send(name, "TBW102", 1, False, by=greedy)
    with pytest.raises(TopicNotExistError, match="maxNewTopicsPerConnection=2"):
        topics.creation.create_in_send("c", "TBW102", 1, False, by=greedy)
    assert topics.table.get("c") is None
    assert topics.creation.create_in_send("c", "TBW102", 1, False, by=other)


def test_senders_make_so_many_in_all(make: Make) -> None:
    """Retry and dead-letter topics are bounded by the groups that they belong to."""
    have = len(make().table.topics)
    topics = make(max_auto_created_topics=have + 2, max_auto_created_groups=2)
    for n in range(3):
        topics.creation.create_send_back(f"%RETRY%g{n}", 1)
    assert topics.creation.create_in_send("a", "TBW102", 1, False)
    assert topics.creation.create_in_send("%DLQ%mine", "TBW102", 1, False)
    with pytest.raises(TopicNotExistError, match="2 \\* maxAutoCreatedGroups=4"):
        topics.creation.create_in_send("%DLQ%more", "TBW102", 1, False)
    topics.creation.create_send_back("%DLQ%g0", 1)
    assert topics.creation.create_in_send("b", "TBW102", 1, False)
    with pytest.raises(TopicNotExistError, match=f"maxAutoCreatedTopics={have + 2}"):
        topics.creation.create_in_send("c", "TBW102", 1, False)
    topics.creation.update(TopicConfig("operators", 1, 1))
    for name in ("a", "operators"):
        assert topics.removal.begin(name)
        topics.removal.end(name)
    assert topics.creation.create_in_send("c", "TBW102", 1, False)


def test_a_topic_that_is_being_deleted_is_not_made(make: Make, changes: list[int]) -> None:
    topics = make()
    topics.creation.create_in_send("T", "TBW102", 4, False)
    counter = topics.table.version.counter
    assert topics.removal.begin("T")
    assert topics.table.get("T") is None
    assert (topics.table.version.counter, len(changes)) == (counter + 1, 2)
    assert not topics.removal.begin("unknown")
    for name in ("T", "unknown"):
        assert topics.removal.is_removing(name)
        with pytest.raises(SystemBusyError, match="being deleted"):
            topics.creation.create_in_send(name, "TBW102", 4, False)
        with pytest.raises(SystemBusyError):
            topics.creation.update(TopicConfig(name, 4, 4))
        with pytest.raises(SystemBusyError):
            topics.creation.create_send_back(name, 1)
        topics.removal.end(name)
        assert topics.creation.create_in_send(name, "TBW102", 4, False)


async def test_a_topic_is_deleted_while_it_is_saved(make: Make) -> None:
    """Whoever waits for it to be saved goes on: the topic is not there. One that is made anew in
    that moment is saved like any other."""
    topics = make()
    told: list[int] = []

    async def tell() -> None:
        told.append(len(told))
        if len(told) == 1:
            topics.removal.begin("T")
            topics.removal.end("T")
        elif len(told) == 2:
            topics.removal.begin("U")
            topics.removal.end("U")
            topics.creation.create_in_send("U", "TBW102", 3, False)

    topics.table.watch(Told(told=tell))
    topics.creation.create_in_send("T", "TBW102", 4, False)
    await topics.table.saved("T")
    assert topics.table.is_saved("T")
    assert topics.table.get("T") is None
    topics.creation.create_in_send("U", "TBW102", 4, False)
    await topics.table.saved("U")
    assert topics.table.is_saved("U")
    assert len(told) == 3, "the second U was told as well"
    assert make().table.topics["U"].write_queue_nums == 3


def test_ordered_topics_of_name_servers(make: Make) -> None:
    topics = make()
    topics.creation.update(TopicConfig("T", 1, 1))
    counter = topics.table.version.counter
    topics.table.mark_ordered(["T", "unknown"])
    assert topics.table.topics["T"].order
    assert topics.table.version.counter == counter + 1
    topics.table.mark_ordered(["T"])
    topics.table.mark_ordered([])
    assert topics.table.topics["T"].order, "what an operator ordered stays ordered"
    assert topics.table.version.counter == counter + 1


def test_check_sendable() -> None:
    check_sendable("TBW102")
    check_sendable("T")
    with pytest.raises(NoPermissionError):
        check_sendable("SCHEDULE_TOPIC_XXXX")
