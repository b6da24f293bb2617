"""What producers and consumers share: connections, routes, heartbeats. [MQClientInstance]"""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import trio

from pyrmq.engine import Command
from pyrmq.errors import ClientError, ConfigError, ConnectError, PyrmqError, TopicNotExistError
from pyrmq.model.codes import RequestCode
from pyrmq.model.names import AUTO_CREATE_TOPIC
from pyrmq.model.route import MASTER_ID, QueueData, TopicRoute
from pyrmq.net import fastjson
from pyrmq.net.address import Address, own_ip, parse_address, parse_addresses
from pyrmq.net.channel import Channel, Channels
from pyrmq.net.command import Response
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)

HEARTBEAT_INTERVAL = 30.0
ROUTE_INTERVAL = 30.0
API_TIMEOUT = 3.0
DEFAULT_QUEUES = 4
"""defaultTopicQueueNums: queues that a producer asks for when its topic is new."""

_instances = itertools.count()


@dataclass(slots=True)
class _Routes:
    by_topic: dict[str, TopicRoute] = field(default_factory=dict)
    watched: set[str] = field(default_factory=set)


class ClientInstance:
    """One client id with its connections. `producer_groups` and `consumers` make up the
    heartbeat; `on_ids_changed` is called when a broker says that a group's members changed."""

    def __init__(self, namesrv: str | None) -> None:
        text = namesrv or os.environ.get("NAMESRV_ADDR", "")
        self.namesrv = parse_addresses(text, "name server address")
        if not self.namesrv:
            raise ConfigError("no name server: pass namesrv='HOST:PORT' or set NAMESRV_ADDR")
        self.client_id = f"{own_ip()}@{os.getpid()}#{time.time_ns()}_{next(_instances)}"
        self.producer_groups: set[str] = set()
        self.consumers: dict[str, Callable[[], dict[str, Any]]] = {}
        self.on_ids_changed: list[Callable[[], None]] = []
        self._channels = Channels(self._handle)
        self._routes = _Routes()
        self._tasks = Tasks()
        self._route_lock = trio.Lock()
        self._next_server = 0

    async def __aenter__(self) -> Self:
        await self._channels.__aenter__()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._every, HEARTBEAT_INTERVAL, self.heartbeat)
        self._tasks.start_soon(self._every, ROUTE_INTERVAL, self.refresh_routes)
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._tasks.__aexit__(*error)
        finally:
            await self._channels.__aexit__(*error)

    async def _every(self, seconds: float, work: Callable[[], Any]) -> None:
        while True:
            await trio.sleep(seconds)
            try:
                await work()
            except PyrmqError as e:
                log.warning("%s", e)

    async def _handle(self, channel: Channel, command: Command) -> Response | None:
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            for tell in self.on_ids_changed:
                tell()
            return None
        return Response(3, f"request type {command.code} not supported")

    async def channel(self, address: str | Address) -> Channel:
        target = parse_address(address) if isinstance(address, str) else address
        return await self._channels.get(target)

    async def _ask_namesrv(self, code: int, ext: dict[str, str | int | bool]) -> Command:
        """One name server is kept while it answers, then the next is tried."""
        failure: PyrmqError | None = None
        for _ in self.namesrv:
            server = self.namesrv[self._next_server % len(self.namesrv)]
            try:
                channel = await self._channels.get(server)
                return await channel.request(code, ext, timeout=API_TIMEOUT)
            except TopicNotExistError:
                raise
            except PyrmqError as e:
                failure = e
                self._next_server += 1
        raise ConnectError(f"no name server answered: {failure}") from failure

    async def _fetch(self, topic: str) -> TopicRoute:
        answer = await self._ask_namesrv(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        return TopicRoute.from_json(fastjson.loads(answer.body))

    async def route(self, topic: str, *, fresh: bool = False) -> TopicRoute:
        """Where a topic is. TopicNotExistError if the name server knows no live broker of it."""
        self._routes.watched.add(topic)
        known = self._routes.by_topic.get(topic)
        if known is not None and not fresh:
            return known
        async with self._route_lock:
            again = self._routes.by_topic.get(topic)
            if again is not None and again is not known:
                return again
            route = self._routes.by_topic[topic] = await self._fetch(topic)
            return route

    async def publish_route(self, topic: str) -> TopicRoute:
        """As `route`; a topic that is new gets the brokers that create topics on demand."""
        try:
            return await self.route(topic)
        except TopicNotExistError:
            try:
                template = await self._fetch(AUTO_CREATE_TOPIC)
            except TopicNotExistError:
                raise TopicNotExistError(
                    f"topic {topic} does not exist and no broker creates topics on demand"
                ) from None
            queues = [
                QueueData(q.broker_name, n, n, q.perm, q.topic_sys_flag)
                for q in template.queues
                for n in [min(DEFAULT_QUEUES, q.write_queue_nums)]
            ]
            return TopicRoute(queues, template.brokers)

    async def refresh_routes(self) -> None:
        """Fetches the routes of all topics in use again. One that the name server does not know
        stays as it was: it may be a broker that is about to come back."""
        for topic in list(self._routes.watched):
            try:
                self._routes.by_topic[topic] = await self._fetch(topic)
            except TopicNotExistError:
                log.info("the name server has no route of topic %s now", topic)

    async def master(self, topic: str, broker_name: str) -> Channel:
        """A channel to the master of a broker name. ClientError if the route has none."""
        route = await self.publish_route(topic)
        address = route.master_of(broker_name)
        if address is None:
            raise ClientError(f"broker {broker_name} has no master in the route of {topic}")
        return await self.channel(address)

    def brokers(self) -> set[str]:
        """Addresses of all masters in the routes that are known."""
        return {
            b.broker_addrs[MASTER_ID]
            for route in self._routes.by_topic.values()
            for b in route.brokers
            if MASTER_ID in b.broker_addrs
        }

    async def heartbeat(self) -> None:
        """HEART_BEAT to every known broker; failures are logged."""
        body = fastjson.dumps(
            {
                "clientID": self.client_id,
                "consumerDataSet": [data() for data in self.consumers.values()],
                "heartbeatFingerprint": 0,
                "producerDataSet": [{"groupName": g} for g in sorted(self.producer_groups)],
                "withoutSub": False,
            }
        )
        await self._all_brokers(RequestCode.HEART_BEAT, {}, body)

    async def unregister(self, **groups: str) -> None:
        """UNREGISTER_CLIENT (producerGroup=… or consumerGroup=…) to every known broker."""
        ext: dict[str, str | int | bool] = {"clientID": self.client_id, **groups}
        await self._all_brokers(RequestCode.UNREGISTER_CLIENT, ext, b"")

    async def _all_brokers(self, code: int, ext: dict[str, str | int | bool], body: bytes) -> None:
        for address in self.brokers():
            try:
                channel = await self.channel(address)
                await channel.request(code, ext, body, timeout=API_TIMEOUT)
            except PyrmqError as e:
                log.warning("request %d to broker %s: %s", code, address, e)
