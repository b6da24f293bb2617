"""Who is connected to brokers: consumers, producers, and what they say of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyrmq.admin import values
from pyrmq.admin.link import Part
from pyrmq.errors import (
    BrokerMissingError,
    ClientError,
    ConnectError,
    PyrmqError,
    RequestTimeoutError,
    ResponseError,
    TopicNotExistError,
)
from pyrmq.model.codes import RequestCode, ResponseCode, version_name
from pyrmq.model.names import retry_topic

BROADCASTING = "BROADCASTING"
PUSH = "CONSUME_PASSIVELY"


@dataclass(frozen=True, slots=True)
class Connection:
    """One connected client. [Connection]"""

    client_id: str
    address: str
    language: str
    version: int
    subscriptions: dict[str, str] | None = None
    """The expression of each topic that this member wants; pyrmq's brokers say it if the members of
    a group differ, Apache's never."""

    @property
    def version_name(self) -> str:
        return version_name(self.version)

    @classmethod
    def from_json(cls, value: Mapping[Any, Any]) -> Connection:
        wanted = value.get("subscriptions")
        return cls(
            values.text(value, "clientId"),
            values.text(value, "clientAddr"),
            values.text(value, "language"),
            values.number(value, "version"),
            {str(t): str(e) for t, e in wanted.items()} if isinstance(wanted, dict) else None,
        )


@dataclass(frozen=True, slots=True)
class SubscribedTo:
    """One topic of a subscription, and its expression. [SubscriptionData]"""

    topic: str
    expression: str
    expression_type: str = "TAG"
    tags: frozenset[str] = frozenset()
    class_filter: bool = False

    @classmethod
    def from_json(cls, value: Mapping[Any, Any]) -> SubscribedTo:
        tags = value.get("tagsSet")
        return cls(
            values.text(value, "topic"),
            values.text(value, "subString"),
            values.text(value, "expressionType") or "TAG",
            frozenset(str(t) for t in tags) if isinstance(tags, list) else frozenset(),
            values.truth(value, "classFilterMode"),
        )


@dataclass(frozen=True, slots=True)
class ConsumerConnections:
    """The members of a connected group. [ConsumerConnection]"""

    group: str
    consume_type: str
    """`CONSUME_PASSIVELY` for push consumers, `CONSUME_ACTIVELY`, `CONSUME_POP`."""
    message_model: str
    consume_from: str
    connections: list[Connection]
    subscriptions: list[SubscribedTo]

    @property
    def is_push(self) -> bool:
        return self.consume_type == PUSH

    @property
    def lowest_version(self) -> int:
        return min((c.version for c in self.connections), default=0)

    @classmethod
    def from_json(cls, group: str, value: Mapping[Any, Any]) -> ConsumerConnections:
        subscriptions = values.table(value, "subscriptionTable")
        return cls(
            group,
            values.text(value, "consumeType"),
            values.text(value, "messageModel"),
            values.text(value, "consumeFromWhere"),
            [Connection.from_json(c) for c in values.objects(value, "connectionSet")],
            [
                SubscribedTo.from_json({"topic": topic, **sub})
                for topic, sub in sorted(subscriptions.items(), key=lambda item: str(item[0]))
                if isinstance(sub, dict)
            ],
        )


def offline(group: str) -> ResponseError:
    """CONSUMER_NOT_ONLINE, for a group without members at any broker."""
    return ResponseError(
        f"Not found the consumer group connection: {group}", ResponseCode.CONSUMER_NOT_ONLINE
    )


class GroupConnections(Part):
    """The part of `admin.groups` that shows connected members."""

    async def connections(self, group: str, *, broker: str | None = None) -> ConsumerConnections:
        """The members of a group, from `broker` (`host:port`) or the first broker that knows any.
        Raises ResponseError with CONSUMER_NOT_ONLINE if none does, and TopicNotExistError for a
        group without a retry topic. [GET_CONSUMER_CONNECTION_LIST]"""
        if broker is not None:
            addresses = [broker]
        else:
            try:
                addresses = [r.address for r in await self._link.brokers_of(retry_topic(group))]
            except TopicNotExistError as e:
                e.hint = f"no consumer of group {group} has been here, or the name is another"
                raise
        last: PyrmqError = offline(group)
        for address in addresses:
            try:
                answer = await self._link.ask_json(
                    address,
                    RequestCode.GET_CONSUMER_CONNECTION_LIST,
                    {"consumerGroup": group},
                )
            except ResponseError as e:
                if e.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
                last = e
            except BrokerMissingError as e:
                if len(addresses) == 1:  # members are with every broker that is there
                    last = e
            except (ConnectError, RequestTimeoutError) as e:
                last = e
            else:
                found = ConsumerConnections.from_json(group, answer)
                if found.connections:
                    return found
        raise last


@dataclass(frozen=True, slots=True)
class ProducerInstance:
    """One producer, as its broker reports it. [ProducerInfo]"""

    client_id: str
    remote_ip: str
    language: str
    version: int
    last_update: int
    """The time of its last heartbeat, ms since 1970."""

    @property
    def version_name(self) -> str:
        return version_name(self.version)

    @classmethod
    def from_json(cls, value: Mapping[Any, Any]) -> ProducerInstance:
        return cls(
            values.text(value, "clientId"),
            values.text(value, "remoteIP"),
            values.text(value, "language"),
            values.number(value, "version"),
            values.number(value, "lastUpdateTimestamp"),
        )


class Producers(Part):
    """`admin.producers`."""

    async def connections(self, group: str, topic: str) -> list[Connection]:
        """The producers of a group, from the first broker of the topic that knows any. Raises
        ResponseError if none does. [GET_PRODUCER_CONNECTION_LIST]"""
        last: PyrmqError = ClientError(f"no broker has topic {topic}")
        for replica in await self._link.brokers_of(topic):
            try:
                answer = await self._link.ask_json(
                    replica.address,
                    RequestCode.GET_PRODUCER_CONNECTION_LIST,
                    {"producerGroup": group},
                )
            except PyrmqError as e:
                last = e
                continue
            found = [Connection.from_json(c) for c in values.objects(answer, "connectionSet")]
            if found:
                return found
            last = ResponseError(f"Not found the producer group connection: {group}", 1)
        raise last

    async def all(self, broker: str) -> dict[str, list[ProducerInstance]]:
        """All producers of a broker (`host:port`), by group. [GET_ALL_PRODUCER_INFO]"""
        answer = await self._link.ask_json(broker, RequestCode.GET_ALL_PRODUCER_INFO)
        groups = values.table(answer, "data")
        return {
            str(group): [ProducerInstance.from_json(p) for p in values.objects(groups, group)]
            for group in sorted(groups, key=str)
        }
