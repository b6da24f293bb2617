"""Queue locks of orderly consumers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.requests.queues import QueueProcessor
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.locks import LIFETIME, QueueLocks
from pyrmq.broker.tables.new_queues import NewQueues
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topic_creation import open_topics
from pyrmq.engine import Store
from pyrmq.errors import ResponseError
from pyrmq.model.message import MessageQueue
from pyrmq.model.topic import TopicConfig
from pyrmq.net import fastjson
from tests.support.build import FakeConnection

Q = [MessageQueue("T", "b", n) for n in range(4)]


@pytest.fixture
def locks() -> QueueLocks:
    return QueueLocks()


def test_no_more_than_the_bound(locks: QueueLocks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrmq.broker.tables.locks.MAX_LOCKS", 3)
    assert locks.lock("g", "a", Q[:2], 0) == Q[:2]
    assert locks.lock("h", "b", Q, 0) == Q[:1]
    assert locks.lock("g", "a", Q, 1) == Q[:2], "what is held is renewed"
    locks.unlock("g", "a", Q[:1])
    assert locks.lock("h", "b", Q, 2) == Q[:2]
    assert locks.lock("h", "b", Q, 3 * LIFETIME) == Q[:3], "what has run out makes room"


def test_one_holder_per_queue(locks: QueueLocks) -> None:
    assert locks.lock("g", "a", Q[:3], 0) == Q[:3]
    assert locks.lock("g", "b", Q, 1) == [Q[3]]
    assert locks.lock("g", "a", Q, 2) == Q[:3]


def test_groups_are_apart(locks: QueueLocks) -> None:
    locks.lock("g", "a", Q, 0)
    assert locks.lock("h", "b", Q, 0) == Q
    locks.unlock("h", "b", Q)
    assert locks.lock("g", "b", Q, 0) == []


def test_a_lock_runs_out(locks: QueueLocks) -> None:
    locks.lock("g", "a", Q[:1], 0)
    assert locks.lock("g", "b", Q[:1], LIFETIME) == []
    assert locks.lock("g", "b", Q[:1], LIFETIME + 0.1) == Q[:1]
    assert locks.lock("g", "a", Q[:1], LIFETIME + 0.2) == []


def test_renewing_extends(locks: QueueLocks) -> None:
    locks.lock("g", "a", Q[:1], 0)
    locks.lock("g", "a", Q[:1], 50)
    assert locks.lock("g", "b", Q[:1], 50 + LIFETIME) == []


def test_being_refused_does_not_extend(locks: QueueLocks) -> None:
    locks.lock("g", "a", Q[:1], 0)
    locks.lock("g", "b", Q[:1], 59)
    assert locks.lock("g", "b", Q[:1], 61) == Q[:1]


def test_only_the_holder_unlocks(locks: QueueLocks) -> None:
    locks.lock("g", "a", Q, 0)
    locks.unlock("g", "b", Q)
    locks.unlock("other", "a", Q)
    assert locks.lock("g", "b", Q, 1) == []
    locks.unlock("g", "a", Q[:1])
    assert locks.lock("g", "b", Q, 1) == Q[:1]


def test_any_live(locks: QueueLocks) -> None:
    assert not locks.any_live("g", 0)
    locks.lock("g", "a", Q[:1], 0)
    assert locks.any_live("g", LIFETIME)
    assert not locks.any_live("h", 0)
    assert not locks.any_live("g", LIFETIME + 1)
    locks.lock("g", "a", Q[1:2], 70)
    assert locks.any_live("g", 80)
    locks.unlock("g", "a", Q)
    assert not locks.any_live("g", 80)


def test_the_name_of_the_broker_says_nothing(locks: QueueLocks) -> None:
    """All queues are of this broker: names that a client makes up are no further queues."""
    other = [MessageQueue(q.topic, "other", q.queue_id) for q in Q]
    assert locks.lock("g", "a", Q, 0) == Q
    assert locks.lock("g", "b", other, 1) == []
    assert locks.lock("g", "a", other, 2) == other
    assert sum(map(len, locks._locks.values())) == len(Q)


_NAMES = st.sampled_from("ab")
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["lock", "unlock"]),
        st.sampled_from("gh"),
        _NAMES,
        st.sets(st.integers(0, 3)),
        st.sampled_from([0.0, 1.0, LIFETIME / 2, LIFETIME, LIFETIME + 0.1]),
    )
)


@given(_STEPS)
def test_locks_against_their_rules(
    steps: list[tuple[str, str, str, set[int], float]],
) -> None:
    """Whoever holds a lock that has not run out has it; nobody else gets it or gives it up."""
    locks = QueueLocks()
    held: dict[tuple[str, int], tuple[str, float]] = {}
    now = 0.0
    for what, group, client, queues, passed in steps:
        now += passed
        named = [Q[n] for n in sorted(queues)]
        if what == "unlock":
            locks.unlock(group, client, named)
            held = {
                key: lock
                for key, lock in held.items()
                if not (key[0] == group and key[1] in queues and lock[0] == client)
            }
        else:
            free = [
                n
                for n in sorted(queues)
                if held.get((group, n), (client, 0))[0] == client
                or now - held[group, n][1] > LIFETIME
            ]
            assert locks.lock(group, client, named, now) == [Q[n] for n in free]
            held.update({(group, n): (client, now) for n in free})
        for name in "gh":
            live = any(g == name and now - at <= LIFETIME for (g, _), (_, at) in held.items())
            assert locks.any_live(name, now) == live


async def test_a_lock_runs_out_by_the_clock_of_the_broker(
    tmp_path: Path, config: BrokerConfig, store: Store, autojump_clock: MockClock
) -> None:
    """LOCK_BATCH_MQ and UNLOCK_BATCH_MQ. An expired lock is free, and turns no retried message into
    a dead letter any more."""
    topics = open_topics(tmp_path / "topics.json", LiveConfig(config), store)
    topics.creation.update(TopicConfig("T", 2, 2))
    groups = GroupTable(tmp_path / "subscriptionGroup.json", LiveConfig(config))
    offsets = OffsetTable(tmp_path / "consumerOffset.json", 1)
    locks = QueueLocks()
    new = NewQueues(LiveConfig(config), topics.table, offsets)
    processor = QueueProcessor(store, topics, groups, offsets, locks, new)
    connection: Any = FakeConnection()

    def ask(call: Any, client: str, queues: int = 2, group: str = "g") -> list[int]:
        named = [{"topic": "T", "brokerName": "b", "queueId": n} for n in range(queues)]
        body = {"consumerGroup": group, "clientId": client, "mqSet": named}
        response = call(connection, SimpleNamespace(body=fastjson.dumps(body), ext={}))
        found = fastjson.loads_object(response.body)["lockOKMQSet"] if response.body else []
        return [queue["queueId"] for queue in found]

    assert ask(processor.lock, "a", 9) == [0, 1], "there are no more queues"
    await trio.sleep(LIFETIME / 2)
    assert ask(processor.lock, "b") == []
    ask(processor.unlock, "b")
    assert ask(processor.lock, "a", 1) == [0]  # renewed
    await trio.sleep(LIFETIME / 2 + 1)
    assert ask(processor.lock, "b") == [1], "the other one has run out"
    ask(processor.unlock, "a")
    assert ask(processor.lock, "b") == [0, 1]
    await trio.sleep(LIFETIME)
    assert locks.any_live("g", trio.current_time())
    await trio.sleep(0.1)
    assert not locks.any_live("g", trio.current_time())
    with pytest.raises(ResponseError, match="is illegal"):
        ask(processor.lock, "a", group="a b")
    strict = LiveConfig(replace(config, auto_create_subscription_group=False))
    processor = QueueProcessor(
        store, topics, GroupTable(tmp_path / "none.json", strict), offsets, locks, new
    )
    with pytest.raises(ResponseError, match="autoCreateSubscriptionGroup"):
        ask(processor.lock, "a")
