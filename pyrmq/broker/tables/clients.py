"""Who is connected: producers and consumers by group. Members of a group are told when it changes.
[ConsumerManager, ProducerManager, NOTIFY_CONSUMER_IDS_CHANGED]
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import trio

from pyrmq.broker.tables.popped_subscriptions import PoppedSubscriptions
from pyrmq.broker.tables.subscriptions import CONSUMING, PRODUCING, Agreement, Subscribed, is_same
from pyrmq.model.codes import RequestCode
from pyrmq.model.subscription import Subscription
from pyrmq.net.command import encode_request
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import TURN_SECONDS

log = logging.getLogger(__name__)

MAX_CLIENT_ID = 255
"""Longest client id, characters."""
BROADCASTING = "BROADCASTING"
ACTIVELY = "CONSUME_ACTIVELY"
_CONSUME_TYPES = (ACTIVELY, "CONSUME_PASSIVELY", "CONSUME_POP")
_MODELS = (BROADCASTING, "CLUSTERING")
_WHERE = (
    "CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET", "CONSUME_FROM_MAX_OFFSET", "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)  # fmt: skip
MAX_KEPT = 1024
"""Notices that wait behind what a member has not taken; it is told no more of them."""


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
    agreement: Agreement = field(init=False)

    def __post_init__(self) -> None:
        self.agreement = Agreement(self.name)

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

    def state(
        self, connection: Connection, kind: str, model: str, wanted: dict[str, Subscription]
    ) -> None:
        """Notes what a member wants, to compare it with what the others want."""
        if kind == ACTIVELY:
            self.agreement.gone(connection)
            return
        for topic, sub in wanted.items():  # most want what the group has: one object for all
            known = self.subscriptions[topic]
            if is_same(known, sub):
                wanted[topic] = known
        self.agreement.state(connection, self.clients[connection].client_id, model, wanted)

    def member_gone(self, connection: Connection) -> bool:
        """A member has left; whether the group's subscriptions are others now. What it alone wanted
        is wanted no more: of its topics those who stay get what they have asked for. (RocketMQ
        keeps the latest version, whosever it was.)"""
        differed, changed = self.agreement.differs, False
        self.agreement.gone(connection)
        for topic, sub in list(self.subscriptions.items()) if differed else ():
            if not self.agreement.holds(sub):
                latest = self.agreement.latest(topic) or sub
                changed |= latest is not sub
                self.subscriptions[topic] = latest
        return changed


class ClientTable:
    """Producers and consumers by group. `on_change(group)` is called when the members of a
    clustering group or its topics have changed, `on_subscribed(name, subscriptions)` when pulls of
    a group may have to be answered otherwise than before."""

    def __init__(
        self,
        on_change: Callable[[ConsumerGroup], None],
        on_subscribed: Callable[[str, dict[str, Subscription]], None] = lambda name, wanted: None,
        same_user: Callable[[Connection, Connection], bool] = lambda one, other: True,
    ) -> None:
        """`same_user`: whether two connections are one user's."""
        self._same_user = same_user
        self.consumers: dict[str, ConsumerGroup] = {}
        self.subscribed = Subscribed()
        self.popped = PoppedSubscriptions()
        """What groups have popped that may have no members."""
        self.producers: dict[str, dict[Connection, Client]] = {}
        self._groups_of: dict[Connection, tuple[set[str], set[str]]] = {}
        self._producers_by_id: dict[str, Connection] = {}
        self._ids: dict[Connection, str] = {}
        """Client ids of the connections of producers."""
        self._fingerprints: dict[str, int] = {}
        """The fingerprint of the last heartbeat of a group; 0: it had none."""
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
        holder = self._producers_by_id.get(client.client_id)
        if holder is None or holder.is_closed or self._same_user(holder, connection):
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
        fingerprint: int = 0,
    ) -> bool:
        """Takes one ConsumerData of a heartbeat. True if a client that keeps its subscriptions to
        itself while nothing changes (heartbeat V2) has to state them next time."""
        name = str(data.get("groupName", ""))
        group = self.consumers.setdefault(name, ConsumerGroup(name))
        new = connection not in group.clients
        group.clients[connection] = client
        self._groups_of.setdefault(connection, (set(), set()))[1].add(name)
        kind = _enum(data.get("consumeType"), _CONSUME_TYPES, group.consume_type)
        model = _enum(data.get("messageModel"), _MODELS, group.message_model)
        group.consume_type = kind
        if model != group.message_model:
            group.message_model = model
            self._on_subscribed(name, group.subscriptions)
        group.consume_from_where = _enum(
            data.get("consumeFromWhere"), _WHERE, group.consume_from_where
        )
        changed = False
        if not keep_subscriptions:
            subs = data.get("subscriptionDataSet")
            found = (
                Subscription.from_json(s) for s in (subs if isinstance(subs, list) else [])
                if isinstance(s, dict)
            )  # fmt: skip
            wanted = {s.topic: s for s in found}
            before = dict(group.subscriptions)
            changed = group.update_subscriptions(wanted)
            if group.subscriptions != before:
                self._on_subscribed(name, group.subscriptions)
            group.state(connection, kind, model, wanted)
            group.agreement.report(client.last_seen)
        self._watch(connection)
        if (new or changed) and notify:
            self._notify(group)
        last = self._fingerprints.get(name)
        self._fingerprints[name] = fingerprint
        unknown = keep_subscriptions and not group.subscriptions
        return unknown or (last is not None and last != fingerprint)

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
        self.subscribed.forget(connection, (PRODUCING, name))
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

    def client_id_of(self, connection: Connection) -> str | None:
        """The client id that a connection stated; None if it stated none yet."""
        known = self._ids.get(connection)
        _, consuming = self._groups_of.get(connection, (set(), set()))
        for name in consuming if known is None else ():
            group = self.consumers.get(name)
            if group is not None and connection in group.clients:
                return group.clients[connection].client_id
        return known

    def by_client_id(self, client_id: str) -> Connection | None:
        """The connection of the producer with this client id."""
        return self._producers_by_id.get(client_id)

    def _remove_consumer(self, name: str, connection: Connection) -> None:
        self.subscribed.forget(connection, (CONSUMING, name))
        group = self.consumers.get(name)
        if group is None or group.clients.pop(connection, None) is None:
            return
        if group.clients:
            if group.member_gone(connection):
                self._on_subscribed(name, group.subscriptions)
            self._notify(group)
        else:
            del self.consumers[name]
            self._on_subscribed(name, {})

    def find_consumer(self, group: str, client_id: str) -> tuple[Connection, Client] | None:
        """A member of a group by its client id. [ConsumerGroupInfo.findChannel]"""
        members = self.consumers[group].clients if group in self.consumers else {}
        return next((m for m in members.items() if m[1].client_id == client_id), None)

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """What a group with members wants of a topic. [findSubscriptionData]"""
        known = self.consumers.get(group)
        return None if known is None else known.subscriptions.get(topic)

    def forget_group(self, group: str) -> None:
        """A group was removed; its members, if any, stay."""
        self._fingerprints.pop(group, None)

    def connection_gone(self, connection: Connection) -> None:
        producing, consuming = self._groups_of.pop(connection, (set(), set()))
        for name in producing:
            self._remove_producer(name, connection)
        for name in consuming:
            self._remove_consumer(name, connection)


class Notices:
    """Tells in turns of a millisecond, each group once for all that has happened meanwhile: a
    heartbeat may change a thousand groups with hundreds of members each."""

    def __init__(self) -> None:
        self._changed: dict[str, ConsumerGroup] = {}
        self._news = trio.Event()

    def changed(self, group: ConsumerGroup) -> None:
        """Its members are others now, or its topics."""
        self._changed[group.name] = group
        self._news.set()

    async def run(self) -> None:
        """Tells until cancelled."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            end = time.monotonic() + TURN_SECONDS
            while self._changed:
                name = next(iter(self._changed))
                group = self._changed.pop(name)
                frame = encode_request(
                    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, 0, {"consumerGroup": name}, oneway=True
                )
                for connection in list(group.clients):
                    tell(connection, frame)
                    if time.monotonic() >= end:
                        await trio.lowlevel.checkpoint()
                        end = time.monotonic() + TURN_SECONDS


def tell(connection: Connection, frame: bytes) -> None:
    """A notice, one-way."""
    if len(connection.out) < MAX_KEPT:  # one that does not read is not piled up on
        connection.send(frame)
