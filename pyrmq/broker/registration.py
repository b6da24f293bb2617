"""Keeping the name servers informed. [BrokerOuterAPI, BrokerController.registerBrokerAll]"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from pyrmq.broker.config import BrokerConfig
from pyrmq.broker.live_config import LiveConfig
from pyrmq.broker.topics import TopicTable
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.model.topic import PERM_READ, PERM_WRITE, TopicConfig
from pyrmq.net import fastjson
from pyrmq.net.address import Address, format_address, parse_addresses
from pyrmq.net.channel import Channels

log = logging.getLogger(__name__)

START = 3.0
"""Seconds that a start waits for name servers at most."""
TELL = 3.0
"""Seconds that a new topic waits for the name servers at most."""
RETRY = 0.5
"""Seconds until the next try after a failure, doubled each time up to the period."""


def ordered_topics(body: bytes) -> list[str]:
    """The topics of ORDER_TOPIC_CONFIG, which a name server may answer with. [KVTable]"""
    table = fastjson.loads_object(body).get("table") if body else None
    return [str(topic) for topic in table] if isinstance(table, dict) else []


class Registration:
    """Registers at start, at every change of topics, and again every registerNameServerPeriod."""

    def __init__(self, config: LiveConfig, topics: TopicTable, address: Address) -> None:
        self._config = config
        self._topics = topics
        self._permission = config.now.broker_permission
        self._rows = topics.rows(self._row)
        self._encoding = trio.Lock()
        self._address = address
        self._servers = parse_addresses(config.now.namesrv_addr, "namesrvAddr")
        self._changed = [[trio.Event()] for _ in self._servers]
        self._leaving = False
        self._changes = 0
        """How often topics changed."""
        self._told: list[int | None] = [None] * len(self._servers)
        """How many changes each name server knows; None: the last try failed, or there was none."""
        self._news = trio.Event()
        topics.watch(self._topics_changed)
        topics.tell_first = self.told
        config.watch(self._configured)

    async def told(self) -> None:
        """Waits until the name servers that can be reached know the topics as they are now."""
        wanted = self._changes
        with trio.move_on_after(TELL):
            while not self._leaving and any(
                known is not None and known < wanted for known in self._told
            ):
                await self._news.wait()

    def _configured(self, before: BrokerConfig, now: BrokerConfig) -> None:
        if now.broker_permission != before.broker_permission:
            for topic in self._topics.topics:
                self._rows.change(topic)
            self._permission = now.broker_permission
            self._topics.announce()
        if now.register_name_server_period != before.register_name_server_period:
            for event in self._changed:
                event[0].set()

    def _topics_changed(self) -> None:
        self._changes += 1
        for event in self._changed:
            event[0].set()

    def _header(self) -> dict[str, str | int | bool]:
        host, port = self._address
        return {
            "brokerName": self._config.now.broker_name,
            "brokerAddr": format_address((host, port)),
            "clusterName": self._config.now.broker_cluster_name,
            "brokerId": self._config.now.broker_id,
        }

    def _row(self, topic: TopicConfig) -> bytes:
        perm = self._permission
        limit = 0xF if perm & PERM_READ and perm & PERM_WRITE else perm
        value = {**topic.to_json(), "perm": topic.perm & limit}
        return fastjson.member(topic.topic_name, value)

    async def _body(self) -> bytes:
        # One after the other: name servers share the rows.
        async with self._encoding:
            version = self._topics.version.to_json()
            wrapper = {
                "dataVersion": version,
                "mappingDataVersion": version,
                "topicConfigTable": self._rows.freeze(),
                "topicQueueMappingDetailMap": {},
                "topicQueueMappingInfoMap": {},
            }
            await self._rows.encode()
            body = {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}
            return b"".join(fastjson.parts(body))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Registers until cancelled; started once every name server was tried, or after START."""
        async with Channels() as channels, trio.open_nursery() as nursery:
            tried = [trio.Event() for _ in self._servers]
            for i in range(len(self._servers)):
                nursery.start_soon(self._keep, channels, i, tried[i])
            with trio.move_on_after(START):
                for event in tried:
                    await event.wait()
            task_status.started()
            await trio.sleep_forever()

    async def _keep(self, channels: Channels, number: int, tried: trio.Event) -> None:
        """One name server: again at every change, every period, and soon after a failure."""
        server, changed = self._servers[number], self._changed[number]
        retry = RETRY
        while not self._leaving:
            period = min(max(self._config.now.register_name_server_period, 10_000), 60_000) / 1000
            changed[0] = trio.Event()
            changes = self._changes
            done = await self._one(channels, server, self._register)
            self._told[number] = changes if done else None
            self._news.set()
            self._news = trio.Event()
            tried.set()
            retry = RETRY if done else min(2 * retry, period)
            with trio.move_on_after(period if done else retry):
                await changed[0].wait()

    async def unregister(self) -> None:
        """Unregisters this broker at every name server; it registers no more."""
        self._leaving = True
        async with Channels() as channels, trio.open_nursery() as nursery:
            for server in self._servers:
                nursery.start_soon(self._one, channels, server, self._unregister)

    async def _one(
        self,
        channels: Channels,
        server: Address,
        call: Callable[[Channels, Address], Awaitable[None]],
    ) -> bool:
        try:
            await call(channels, server)
        except PyrmqError as e:
            log.warning("name server %s: %s", format_address(server), escape(e))
            return False
        return True

    async def _register(self, channels: Channels, server: Address) -> None:
        host, port = self._address
        channel = await channels.get(server)
        header = {
            **self._header(),
            "haServerAddr": format_address((host, port + 1 if port < 65535 else port)),
            "compressed": False,
            "bodyCrc32": 0,
        }
        answer = await channel.request(
            RequestCode.REGISTER_BROKER,
            header,
            await self._body(),
            timeout=self._config.now.register_broker_timeout_mills / 1000,
        )
        self._topics.set_ordered(ordered_topics(answer.body))

    async def _unregister(self, channels: Channels, server: Address) -> None:
        channel = await channels.get(server)
        await channel.request(RequestCode.UNREGISTER_BROKER, self._header(), timeout=3)
