"""Who is connected: producers and consumers by group. [ConsumerManager, ProducerManager]"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyrmq.model.subscription import Subscription
from pyrmq.net.connection import Connection

log = logging.getLogger(__name__)

MAX_CLIENT_ID = 255
"""Longest client id, characters."""
BROADCASTING = "BROADCASTING"
_CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
_MODELS = (BROADCASTING, "CLUSTERING")


def _enum(value: Any, names: tuple[str, ...], default: str) -> str:
    """An enum by name or ordinal, as fastjson takes it."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names):
        return names[value]
    return value if value in names else default


@dataclass(slots=True)
class Client:
    client_id: str
    language: int
    version: int
    last_seen: float


@dataclass(slots=True)
class ConsumerGroup:
    """Live members of a group and what they subscribe to (one set for all)."""

    name: str
    clients: dict[Connection, Client] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"

    def client_ids(self) -> list[str]:
        return sorted({c.client_id for c in self.clients.values()})

    def update_subscriptions(self, wanted: dict[str, Subscription]) -> bool:
        """Takes the topics of a heartbeat; whether a topic came or went."""
        changed = wanted.keys() != self.subscriptions.keys()
        for topic, sub in wanted.items():
            known = self.subscriptions.get(topic)
            if known is None or sub.version > known.version:
                self.subscriptions[topic] = sub
        for topic in self.subscriptions.keys() - wanted.keys():
            del self.subscriptions[topic]
        return changed


class ClientTable:
    """Producers and consumers by group. `on_change(group)` is called when the members of a
    clustering group or its topics have changed, `on_subscribed` when pulls of a group may have to
    be answered otherwise than before."""

    def __init__(
        self,
        on_change: Callable[[ConsumerGroup], None],
        on_subscribed: Callable[[], None] = lambda: None,
    ) -> None:
        self.consumers: dict[str, ConsumerGroup] = {}
        self.producers: dict[str, dict[Connection, Client]] = {}
        self._groups_of: dict[Connection, tuple[set[str], set[str]]] = {}
        self._producers_by_id: dict[str, Connection] = {}
        self._ids: dict[Connection, str] = {}
        """Client ids of the connections of producers."""
        self._on_change = on_change
        self._on_subscribed = on_subscribed

    def groups_of(self, connection: Connection) -> set[str]:
        """Groups that a connection is a member of, as producer or consumer."""
        producing, consuming = self._groups_of.get(connection, (set(), set()))
        return producing | consuming

    def _watch(self, connection: Connection) -> None:
        connection.call_on_close(self.connection_gone)

    def register_producer(self, group: str, connection: Connection, client: Client) -> None:
        self.producers.setdefault(group, {})[connection] = client
        known = self._ids.get(connection)
        if known != client.client_id:
            self._forget_id(connection)
            self._ids[connection] = client.client_id
        self._producers_by_id[client.client_id] = connection
        self._groups_of.setdefault(connection, (set(), set()))[0].add(group)
        self._watch(connection)

    def register_consumer(
        self,
        data: dict[Any, Any],
        connection: Connection,
        client: Client,
        *,
        notify: bool,
        keep_subscriptions: bool,
    ) -> None:
        """Takes one ConsumerData of a heartbeat."""
        name = str(data.get("groupName", ""))
        group = self.consumers.setdefault(name, ConsumerGroup(name))
        new = connection not in group.clients
        group.clients[connection] = client
        self._groups_of.setdefault(connection, (set(), set()))[1].add(name)
        group.consume_type = _enum(data.get("consumeType"), _CONSUME_TYPES, group.consume_type)
        model = _enum(data.get("messageModel"), _MODELS, group.message_model)
        if model != group.message_model:
            group.message_model = model
            self._on_subscribed()
        where = data.get("consumeFromWhere")
        if isinstance(where, str):
            group.consume_from_where = where
        changed = False
        if not keep_subscriptions:
            subs = data.get("subscriptionDataSet")
            wanted = (
                Subscription.from_json(s) for s in (subs if isinstance(subs, list) else [])
                if isinstance(s, dict)
            )  # fmt: skip
            before = dict(group.subscriptions)
            changed = group.update_subscriptions({s.topic: s for s in wanted})
            if group.subscriptions != before:
                self._on_subscribed()
        self._watch(connection)
        if (new or changed) and notify:
            self._notify(group)

    def _notify(self, group: ConsumerGroup) -> None:
        if group.message_model != BROADCASTING:
            self._on_change(group)

    def unregister(
        self, connection: Connection, *, producer_group: str | None, consumer_group: str | None
    ) -> None:
        producing, consuming = self._groups_of.get(connection, (set(), set()))
        if producer_group is not None:
            producing.discard(producer_group)
            self._remove_producer(producer_group, connection)
        if consumer_group is not None:
            consuming.discard(consumer_group)
            self._remove_consumer(consumer_group, connection)

    def _remove_producer(self, name: str, connection: Connection) -> None:
        members = self.producers.get(name)
        client = members.pop(connection, None) if members is not None else None
        if client is None:
            return
        if not members:
            del self.producers[name]
        producing, _ = self._groups_of.get(connection, ((), ()))
        if not producing:
            self._forget_id(connection)

    def _forget_id(self, connection: Connection) -> None:
        client_id = self._ids.pop(connection, None)
        if client_id is not None and self._producers_by_id.get(client_id) is connection:
            del self._producers_by_id[client_id]

    def by_client_id(self, client_id: str) -> Connection | None:
        """The connection of the producer with this client id."""
        return self._producers_by_id.get(client_id)

    def _remove_consumer(self, name: str, connection: Connection) -> None:
        group = self.consumers.get(name)
        if group is None or group.clients.pop(connection, None) is None:
            return
        if group.clients:
            self._notify(group)
        else:
            del self.consumers[name]
            self._on_subscribed()

    def connection_gone(self, connection: Connection) -> None:
        producing, consuming = self._groups_of.pop(connection, (set(), set()))
        for name in producing:
            self._remove_producer(name, connection)
        for name in consuming:
            self._remove_consumer(name, connection)

    def expired(self, before: float) -> set[Connection]:
        """Connections whose last heartbeat is older than `before`."""
        tables = [*self.producers.values(), *(g.clients for g in self.consumers.values())]
        return {c for table in tables for c, client in table.items() if client.last_seen < before}
