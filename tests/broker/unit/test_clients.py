"""Producers and consumers by group, and who hears of changes."""

from __future__ import annotations

from typing import Any

import pytest

from pyrmq.broker.tables.clients import Client, ClientTable
from tests.support.build import FakeConnection


class World:
    """A table, and the groups that it announced."""

    def __init__(self) -> None:
        self.announced: list[str] = []
        self.table = ClientTable(lambda group: self.announced.append(group.name))

    def beat(
        self,
        connection: FakeConnection,
        group: str = "g",
        client_id: str = "c1",
        *topics: str,
        version: int = 1,
        notify: bool = True,
        keep: bool = False,
        now: float = 0,
        **more: Any,
    ) -> None:
        """A heartbeat of one consumer; topics are subscribed to whole."""
        subs = [{"topic": t, "subString": "*", "subVersion": version} for t in topics]
        data = {"groupName": group, "subscriptionDataSet": subs, **more}
        client = Client(client_id, 0, 479, now)
        self.table.register_consumer(
            data, connection, client, notify=notify, keep_subscriptions=keep
        )

    def heard(self) -> list[str]:
        """What was announced since the last call."""
        out = list(self.announced)
        self.announced.clear()
        return out


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def connections() -> list[FakeConnection]:
    return [FakeConnection() for _ in range(3)]


def test_members_come_and_go(world: World, connections: list[FakeConnection]) -> None:
    a, b, _ = connections
    world.beat(a, "g", "c2", "T")
    assert world.heard() == ["g"]
    world.beat(a, "g", "c2", "T")
    assert world.heard() == []  # nothing new
    world.beat(b, "g", "c1", "T")
    assert world.heard() == ["g"]
    assert world.table.consumers["g"].client_ids() == ["c1", "c2"]
    world.table.unregister(a, producer_group=None, consumer_group="g")
    assert world.heard() == ["g"]
    assert world.table.consumers["g"].client_ids() == ["c1"]
    world.table.unregister(b, producer_group=None, consumer_group="g")
    assert world.heard() == []  # nobody is left to hear of it
    assert world.table.consumers == {}


def test_two_connections_of_one_client(world: World, connections: list[FakeConnection]) -> None:
    for connection in connections:
        world.beat(connection)
    assert world.table.consumers["g"].client_ids() == ["c1"]


def test_topics_that_come_or_go_are_announced(
    world: World, connections: list[FakeConnection]
) -> None:
    a = connections[0]
    world.beat(a, "g", "c", "T", "U")
    world.heard()
    world.beat(a, "g", "c", "T")
    assert world.heard() == ["g"]
    assert set(world.table.consumers["g"].subscriptions) == {"T"}
    world.beat(a, "g", "c", "T", "V", notify=False)
    assert world.heard() == []
    assert set(world.table.consumers["g"].subscriptions) == {"T", "V"}


def test_only_a_later_version_replaces(world: World, connections: list[FakeConnection]) -> None:
    a = connections[0]
    world.beat(a, "g", "c", "T", version=5)
    subscriptions = world.table.consumers["g"].subscriptions
    for stated, kept in ((4, 5), (6, 6), (5, 6)):
        world.beat(a, "g", "c", "T", version=stated)
        assert subscriptions["T"].version == kept
    known = subscriptions["T"]
    world.beat(a, "g", "c", "T", version=6)
    assert subscriptions["T"] is known  # the same version says nothing new
    world.beat(a, "g", "c", "T", version=7)
    assert len(world.heard()) == 1  # a new version is no new topic


def test_a_heartbeat_without_subscriptions(world: World, connections: list[FakeConnection]) -> None:
    a, b, _ = connections
    world.beat(a, "g", "c1", "T")
    world.heard()
    world.beat(b, "g", "c2", keep=True)
    assert set(world.table.consumers["g"].subscriptions) == {"T"}
    assert world.heard() == ["g"]


def test_broadcasting_groups_do_not_share(world: World, connections: list[FakeConnection]) -> None:
    a, b, _ = connections
    world.beat(a, "g", "c1", "T", messageModel="BROADCASTING")
    world.beat(b, "g", "c2", "T", messageModel=0)
    a.close()
    assert world.heard() == []


@pytest.mark.parametrize(
    ("stated", "kind", "model"),
    [
        ({}, "CONSUME_PASSIVELY", "CLUSTERING"),
        ({"consumeType": 0, "messageModel": 0}, "CONSUME_ACTIVELY", "BROADCASTING"),
        ({"consumeType": "CONSUME_POP"}, "CONSUME_POP", "CLUSTERING"),
        ({"consumeType": "PUSH", "messageModel": 9}, "CONSUME_PASSIVELY", "CLUSTERING"),
        ({"consumeType": True, "messageModel": [1]}, "CONSUME_PASSIVELY", "CLUSTERING"),
    ],
)
def test_kinds(
    world: World, connections: list[FakeConnection], stated: dict[str, Any], kind: str, model: str
) -> None:
    world.beat(connections[0], **stated)
    group = world.table.consumers["g"]
    assert (group.consume_type, group.message_model) == (kind, model)


@pytest.mark.parametrize("subs", [None, 1, {}, ["x", None, 3]])
def test_subscriptions_of_a_wrong_kind(
    world: World, connections: list[FakeConnection], subs: Any
) -> None:
    data = {"groupName": "g", "subscriptionDataSet": subs}
    world.table.register_consumer(
        data, connections[0], Client("c", 0, 0, 0), notify=True, keep_subscriptions=False
    )
    assert world.table.consumers["g"].subscriptions == {}


def test_a_connection_takes_everything_with_it(
    world: World, connections: list[FakeConnection]
) -> None:
    a, b, _ = connections
    for _ in range(3):
        world.beat(a, "g")
        world.beat(a, "h")
        world.table.register_producer("p", a, Client("c", 0, 0, 0))
    assert len(a.on_close) == 1
    world.beat(b, "g", "c2")
    world.table.register_producer("p", b, Client("c2", 0, 0, 0))
    world.heard()
    a.close()
    assert world.heard() == ["g"]
    assert list(world.table.consumers) == ["g"]
    assert list(world.table.producers["p"]) == [b]
    b.close()
    assert world.table.producers == {}


def test_unregistering_what_is_not_there(world: World, connections: list[FakeConnection]) -> None:
    a, b, _ = connections
    world.beat(a)
    world.heard()
    world.table.unregister(b, producer_group="p", consumer_group="g")
    world.table.unregister(a, producer_group="g", consumer_group="none")
    assert world.heard() == []
    assert world.table.consumers["g"].client_ids() == ["c1"]
