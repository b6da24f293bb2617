"""Where the queues of topics are, for the queues that the broker assigns: name servers say it, at
most every half minute for a topic. [TopicRouteInfoManager]"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable

import trio

from pyrmq.broker.bounds import OneByOne
from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.errors import PyrmqError, TopicNotExistError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import is_routed_topic
from pyrmq.net.address import parse_addresses
from pyrmq.net.client.channel import Channels
from pyrmq.net.client.name_servers import NameServers

log = logging.getLogger(__name__)

FRESH = 30.0
"""Seconds for which a route is believed."""
UNKNOWN = 5.0
"""The same for a topic that no name server knows, and where none answers."""
TIMEOUT = 2.0
MAX_TOPICS = 10_000
Queues = tuple[MessageQueue, ...]


class Routes:
    def __init__(
        self, live: LiveConfig, topics: TopicTable, open_channels: Callable[[], Channels]
    ) -> None:
        self._live = live
        self._topics = topics
        self._open_channels = open_channels
        self._channels: Channels | None = None
        self._known: OrderedDict[str, tuple[float, Queues | None]] = OrderedDict()
        """By topic until when the route counts; who was asked for last comes last."""
        self._asking = OneByOne()

    async def run(self) -> None:
        """Keeps connections to name servers until cancelled."""
        try:
            async with self._open_channels() as self._channels:
                await trio.sleep_forever()
        finally:
            self._channels = None

    async def queues(self, topic: str) -> Queues | None:
        """The queues that consumers of a topic read, sorted; None if it is not known."""
        if not self._live.now.namesrv_addr:
            return self._own(topic)
        known = self._fresh(topic)
        if known is None:
            async with self._asking.alone(topic):
                known = self._fresh(topic)
                if known is None:
                    known = await self._ask(topic)
        return known[1]

    def _own(self, topic: str) -> Queues | None:
        """A broker that is registered nowhere is the only one."""
        known, name = self._topics.get(topic), self._live.now.broker_name
        if known is None or not known.readable:
            return None
        return tuple(MessageQueue(topic, name, q) for q in range(known.read_queue_nums))

    def _fresh(self, topic: str) -> tuple[float, Queues | None] | None:
        known = self._known.get(topic)
        return known if known is not None and trio.current_time() < known[0] else None

    async def _ask(self, topic: str) -> tuple[float, Queues | None]:
        before = self._known.get(topic)
        queues, seconds = (None if before is None else before[1]), UNKNOWN
        try:
            found = await self._route(topic)
            if found is not None:
                queues, seconds = found, FRESH
        except TopicNotExistError:
            queues = None
        except PyrmqError as e:  # what was known counts on
            log.warning(
                "no name server tells the route of %s: %s",
                escape(topic),
                escape(e),
                extra=about(topic=topic),
            )
        known = trio.current_time() + seconds, queues
        self._known[topic] = known
        self._known.move_to_end(topic)
        if len(self._known) > MAX_TOPICS:
            self._known.popitem(last=False)
        return known

    async def _route(self, topic: str) -> Queues | None:
        addresses = parse_addresses(self._live.now.namesrv_addr, "namesrvAddr")
        if self._channels is None or not is_routed_topic(topic):
            return None
        servers = NameServers(addresses, timeout=TIMEOUT)
        route = await self._channels.perform(servers.route(topic))
        return tuple(sorted(route.subscribe_queues(topic)))
