"""Heartbeats and what belongs to them. [ClientManageProcessor, ConsumerManageProcessor]"""

from __future__ import annotations

from typing import Any

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.requests import fields
from pyrmq.broker.tables.clients import MAX_CLIENT_ID, Client, ClientTable
from pyrmq.broker.tables.filter_data import check_kind, sql_filter
from pyrmq.broker.tables.groups import Group, GroupTable
from pyrmq.broker.tables.subscriptions import (
    CONSUMING,
    MAX_TAGS,
    PRODUCING,
    SubscribedBy,
    cost,
    cost_of_member,
)
from pyrmq.broker.tables.topic_creation import Topics
from pyrmq.engine import Command
from pyrmq.errors import InvalidParameterError, ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.names import check_group, retry_topic
from pyrmq.model.subscription import TAG, check_codes
from pyrmq.model.topic import as_int
from pyrmq.net import fastjson
from pyrmq.net.command import Response
from pyrmq.net.server.answers import InTurns
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import Steps, Turns, finish

MAX_GROUPS = 1024
SMALL = 16 << 10
"""Bytes of a heartbeat that is taken in one step: some 50 groups. A larger one works in turns."""
MAX_SUBSCRIPTIONS = 4096
MAX_VALUES = 1 << 17
"""Most JSON values of a heartbeat: it is read in one step."""


class ClientManageProcessor:
    def __init__(
        self, config: LiveConfig, topics: Topics, groups: GroupTable, clients: ClientTable
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._turns = Turns()

    def heartbeat(self, connection: Connection, command: Command) -> Response | InTurns:
        """HEART_BEAT: HeartbeatData in the body."""
        steps = self._heartbeat(connection, command)
        return self._in_order(connection, steps, len(command.body))

    def _in_order(
        self, connection: Connection, steps: Steps[Response], size: int = 0
    ) -> Response | InTurns:
        """Works at once, or in turns: if the request is large, or if the connection has another one
        in turns already, which comes first."""
        if size <= SMALL and not self._turns.has_work(connection):
            return finish(steps)
        return InTurns(self._turns.run(steps, connection))

    def _heartbeat(self, connection: Connection, command: Command) -> Steps[Response]:
        data = fastjson.loads_object(command.body, MAX_VALUES)
        yield
        client_id = data.get("clientID")
        if not isinstance(client_id, str):
            raise InvalidParameterError("clientID is needed, a text")
        client = Client(client_id, command.language, command.version, trio.current_time())
        consumers = _objects(data, "consumerDataSet")
        producers = _objects(data, "producerDataSet")
        self._check_size(connection, client, consumers, producers)
        _check_groups(consumers, producers)
        yield
        fingerprint = as_int(data.get("heartbeatFingerprint"), 0)
        keeps = fingerprint != 0 and data.get("withoutSub") is True
        sizes = {} if keeps else self._sizes(consumers)
        made = {(PRODUCING, p["groupName"]): cost_of_member(p["groupName"]) for p in producers}
        self._clients.subscribed.check(connection, sizes | made)
        sub_change = fingerprint == 0
        for consumer in consumers:
            yield
            if connection.is_closed:  # it has no groups any more
                break
            group = self._groups.find(consumer["groupName"], connection)
            if group is None:
                continue
            self._make_retry_topic(group, consumer)
            sub_change |= self._clients.register_consumer(
                consumer,
                connection,
                client,
                notify=self._config.now.notify_consumer_ids_changed_enable
                and group.enabled("notifyConsumerIdsChangedEnable"),
                keep_subscriptions=keeps,
                fingerprint=fingerprint,
            )
            if not keeps:
                key = CONSUMING, group.name
                self._clients.subscribed.take(connection, key, sizes[key])
        for producer in producers:
            yield
            if connection.is_closed:
                break
            name = producer["groupName"]
            self._clients.register_producer(name, connection, client)
            self._clients.subscribed.take(connection, (PRODUCING, name), made[PRODUCING, name])
        return Response(ext={"IS_SUPPORT_HEART_BEAT_V2": True, "IS_SUB_CHANGE": sub_change})

    def _sizes(self, consumers: list[dict[Any, Any]]) -> dict[SubscribedBy, int]:
        """Bytes that each group and its subscriptions take. InvalidParameterError for too many
        tags."""
        tags, sizes = 0, {}
        for consumer in consumers:
            count, sizes[CONSUMING, consumer["groupName"]] = cost(consumer)
            tags += count
        if tags > MAX_TAGS:
            raise InvalidParameterError(f"a heartbeat states at most {MAX_TAGS} tags: {tags}")
        return sizes

    def _make_retry_topic(self, group: Group, consumer: dict[Any, Any]) -> None:
        """Makes the group's retry topic, if it is new: ordered, if one of its topics is. While it
        is being deleted the next heartbeat will do."""
        name = retry_topic(group.name)
        if self._topics.table.get(name) is not None or self._topics.removal.is_removing(name):
            return
        subs = consumer.get("subscriptionDataSet")
        wanted = [
            self._topics.table.get(str(sub.get("topic")))
            for sub in (subs if isinstance(subs, list) else [])
            if isinstance(sub, dict)
        ]
        self._topics.creation.create_send_back(
            name,
            group.retry_queue_nums,
            unit=consumer.get("unitMode") is True,
            order=any(topic is not None and topic.order for topic in wanted),
        )

    def _check_size(
        self,
        connection: Connection,
        client: Client,
        consumers: list[dict[Any, Any]],
        producers: list[dict[Any, Any]],
    ) -> None:
        """A heartbeat that no client library sends is refused before anything is made of it."""
        of_connection = self._clients.groups_of(connection)
        groups = {str(c.get("groupName")) for c in [*consumers, *producers]} | of_connection
        subscriptions = sum(
            len(s) for c in consumers if isinstance(s := c.get("subscriptionDataSet"), list)
        )
        if (
            len(groups) > MAX_GROUPS
            or len(consumers) + len(producers) > 2 * MAX_GROUPS
            or subscriptions > MAX_SUBSCRIPTIONS
            or len(client.client_id) > MAX_CLIENT_ID
        ):
            raise InvalidParameterError(
                f"a client has at most {MAX_GROUPS} groups, {MAX_SUBSCRIPTIONS} subscriptions and "
                f"an id of {MAX_CLIENT_ID} characters"
            )

    def unregister(self, connection: Connection, command: Command) -> Response | InTurns:
        fields.text(command, "clientID")
        groups = command.ext.get("producerGroup"), command.ext.get("consumerGroup")
        return self._in_order(connection, self._unregister(connection, *groups))

    def _unregister(
        self, connection: Connection, producer_group: str | None, consumer_group: str | None
    ) -> Steps[Response]:
        yield
        self._clients.unregister(
            connection, producer_group=producer_group, consumer_group=consumer_group
        )
        return Response()

    def check_config(self, connection: Connection, command: Command) -> Response:
        """CHECK_CLIENT_CONFIG: whether a subscription can be served."""
        data = fastjson.loads_object(command.body)
        sub = data.get("subscriptionData")
        if sub is not None:
            if not isinstance(sub, dict):
                raise InvalidParameterError("subscriptionData is an object")
            kind = str(sub.get("expressionType") or TAG)
            check_kind(self._config.now, kind)
            if kind != TAG:
                sql_filter(str(sub.get("subString") or ""))
        return Response()

    def consumer_list(self, connection: Connection, command: Command) -> Response:
        name = fields.text(command, "consumerGroup")
        group = self._clients.consumers.get(name)
        if group is None or not group.clients:
            raise ResponseError(
                f"no consumer for this group, {name[:255]}", ResponseCode.SYSTEM_ERROR
            )
        return Response(body=fastjson.dumps({"consumerIdList": group.client_ids()}))


def _objects(data: dict[Any, Any], key: str) -> list[dict[Any, Any]]:
    """A list of objects, which may be missing."""
    value = data.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
        raise InvalidParameterError(f"{key} is a list of objects")
    return value


def _check_groups(consumers: list[dict[Any, Any]], producers: list[dict[Any, Any]]) -> None:
    """Refuses invalid groups before any part of the heartbeat has an effect."""
    for group in [*consumers, *producers]:
        if not isinstance(group.get("groupName"), str):
            raise InvalidParameterError("groupName is needed, a text")
    for producer in producers:
        check_group(producer["groupName"])
    for consumer in consumers:
        for sub in _objects(consumer, "subscriptionDataSet"):
            if not isinstance(sub.get("topic"), str):
                raise InvalidParameterError("subscriptionDataSet: topic is needed, a text")
            check_codes(sub)
