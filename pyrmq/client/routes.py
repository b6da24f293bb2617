"""Routes of a client's topics: asked for, refreshed while a topic is in use, and forgotten later.
Where no broker has registered yet, whoever asks waits for the first one."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import trio

from pyrmq.errors import ProtocolError, PyrmqError, TopicNotExistError
from pyrmq.escape import escape
from pyrmq.model.route import TopicRoute
from pyrmq.net.address import format_address
from pyrmq.net.backoff import Backoff
from pyrmq.net.client.channel import Channels
from pyrmq.net.client.name_servers import NameServers, RouteTable
from pyrmq.net.client.protocol import LATE
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)

NEW_TOPIC = 0.1
"""Seconds until the name server is asked again for a topic that does not exist."""
LIFETIME = 300.0
"""Seconds of a generation of topics in use."""
MOST = 4096
"""Topics of a generation, because each costs a request whenever routes are refreshed."""
LOOK_PAUSE, LONGEST_LOOK_PAUSE = 0.5, 10.0
"""Seconds from one look at a topic's route to the next, as long as nothing has changed."""
SPREAD = 0.2
"""Seconds over which clients spread their requests that were told of changed routes at once."""
MOST_LEFT = 256
"""Names of brokers that are remembered from one fetch to the next."""
LEAVES_PAUSE = 0.5
"""Seconds between two fetches of routes because brokers leave."""
FIRST_BROKER_PAUSE, LONGEST_FIRST_BROKER_PAUSE = 0.05, 0.5
"""Seconds until name servers that know no broker are asked again."""
T = TypeVar("T")


class RecentTopics:
    """Which topics a client has used lately: others are forgotten, so that a producer which sends
    to very many topics does not grow with their number.

    A topic is forgotten when it was not used in a whole generation. `used` is for whoever uses one;
    `renew` is called now and then, and before a topic that was not known is added.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.used: set[str] = set()
        self.forgotten: list[Callable[[set[str]], None]] = []
        """Called with the topics that stay; tables by topic then drop all others."""
        self._clock = clock
        self._since: float | None = None

    def renew(self) -> None:
        """Begins a new generation if it is time."""
        now = self._clock()
        if self._since is None:
            self._since = now
        elif now - self._since < LIFETIME and len(self.used) < MOST:
            return
        else:
            stay, self.used, self._since = self.used, set(), now
            for forget in self.forgotten:
                forget(stay)


def keep(table: dict[str, Any], topics: set[str]) -> None:
    """Removes all other topics."""
    for topic in table.keys() - topics:
        del table[topic]


class FirstBroker:
    """`is_there` asks the name servers whether any broker has registered; it raises PyrmqError."""

    def __init__(self, is_there: Callable[[], Awaitable[bool]]) -> None:
        self.missing = False
        """Whether the last answer was that there is no broker."""
        self._is_there = is_there
        self._seen = self._missed = 0
        """How often there was a broker, and how often none."""
        self._lock = trio.Lock()

    async def once_there(self, find: Callable[[], Awaitable[T]]) -> T:
        """The result of `find`. After a TopicNotExistError it calls `find` again while there is no
        broker at all, and once more when there is one, which may have registered between the two
        calls. The caller limits the time."""
        waited: bool | None = None
        while True:
            try:
                return await find()
            except TopicNotExistError:
                if waited is False:
                    raise
            waited = await self._appears()

    async def _appears(self) -> bool:
        """Returns when there is a broker, with whether there was none before. Of several waiting
        tasks one asks for all."""
        seen, missed = self._seen, self._missed
        backoff = Backoff(FIRST_BROKER_PAUSE, LONGEST_FIRST_BROKER_PAUSE)
        async with self._lock:
            while self._seen == seen:
                try:
                    self.missing = not await self._is_there()
                except PyrmqError:
                    self.missing = False
                    raise
                if not self.missing:
                    self._seen += 1
                    break
                self._missed += 1
                await trio.sleep(backoff.next())
        return self._missed != missed


@dataclass(slots=True)
class _Looks:
    """When a topic may be looked at again, and how long it is from one look to the next."""

    due: float
    backoff: Backoff = field(default_factory=lambda: Backoff(LOOK_PAUSE, LONGEST_LOOK_PAUSE))


class TopicRoutes:
    """The routes of one client's topics. The client enters `channels` and `tasks`."""

    def __init__(self, servers: NameServers, channels: Channels, tasks: Tasks) -> None:
        self.recent = RecentTopics(trio.current_time)
        self.recent.forgotten.append(self._forget)
        self.first_broker = FirstBroker(self._has_broker)
        self._servers = servers
        self._channels = channels
        self._tasks = tasks
        self._table = RouteTable(servers)
        self._refreshed: set[str] = set()
        """Topics whose routes are refreshed."""
        self._asking = trio.Lock()
        self._publishing = trio.Lock()
        self._new: dict[str, tuple[float, TopicRoute]] = {}
        """Routes for topics that do not exist yet, and until when they are used."""
        self._looks: dict[str, _Looks] = {}
        self._left: set[str] = set()
        """Names of brokers that have said that their routes changed, which are not fetched yet."""
        self._fetches_left = False

    def __iter__(self) -> Iterator[TopicRoute]:
        """Those that are known of topics that exist."""
        return iter(self._table.known.values())

    def no_answer(self, error: PyrmqError | None = None) -> str:
        """Text for errors of calls that name servers did not answer: which ones, and what to do.
        Empty for an `error` about TLS: a server is there, and the error says what to do."""
        if error is not None and any(word in str(error) for word in ("TLS", "certificate")):
            return ""
        asked = self._asked()
        if self.first_broker.missing:
            return (
                f" (no broker has registered with name server {asked} yet; is one running, and is "
                "this name server in its namesrvAddr?)"
            )
        return (
            f" (asked: name server {asked}; does one run there? If not, pass namesrv='HOST:PORT' "
            f"or set NAMESRV_ADDR{LATE if self._channels.signs else ''})"
        )

    def _asked(self) -> str:
        return ", ".join(map(format_address, self._servers.addresses))

    def known(self, topic: str) -> TopicRoute | None:
        """What `publish` returns at once; None if it would have to ask."""
        self.recent.used.add(topic)
        route = self._table.known.get(topic)
        if route is None and (new := self._new.get(topic)) is not None:
            return new[1] if trio.current_time() < new[0] else None
        return route

    async def route(self, topic: str, *, fresh: bool = False) -> TopicRoute:
        """The route of a topic. Raises TopicNotExistError if the name server knows no live broker
        of it."""
        self.recent.renew()
        self.recent.used.add(topic)
        self._refreshed.add(topic)
        known = self._table.known.get(topic)
        if known is not None and not fresh:
            return known
        async with self._asking:
            return await self._channels.perform(self._table.renew(topic, known))

    async def publish(self, topic: str) -> TopicRoute:
        """As `route`; for a new topic, the brokers that create topics on demand."""
        route = self.known(topic)
        if route is not None:
            return route
        async with self._publishing:  # many senders of a new topic ask once
            route = self.known(topic)
            if route is not None:
                return route
            _, older = self._new.get(topic, (0.0, None))
            with suppress(TopicNotExistError):
                route = await self.route(topic)
                self._new.pop(topic, None)
                return route
            try:
                route = await self._channels.perform(self._table.auto_create_route(topic))
            except TopicNotExistError:
                if older is None:
                    raise
                route = older  # its broker may be about to come back
            self._new[topic] = trio.current_time() + NEW_TOPIC, route
            return route

    async def why_missing(self, error: TopicNotExistError) -> str:
        """Text about a topic that name servers do not know: they may know no broker at all."""
        try:
            if not await self._has_broker():
                return f"no broker has registered with name server {self._asked()} yet"
        except PyrmqError:
            pass
        return f"it does not exist, as far as the name servers know: {error}"

    async def _has_broker(self) -> bool:
        info = await self._channels.perform(self._servers.cluster_info())
        return bool(info.brokers)

    async def refresh(self) -> None:
        """Fetches the routes of all topics in use again. If the name server does not know a topic,
        its route stays: its broker may come back soon."""
        self.recent.renew()
        for topic in list(self._refreshed):
            await self._fetch(topic)

    async def _fetch(self, topic: str) -> None:
        try:
            await self._channels.perform(self._table.route(topic, fresh=True))
        except TopicNotExistError:
            log.info("the name server has no route of topic %s now", escape(topic))
        except ProtocolError as e:  # the others are none the worse for it
            log.warning("the route of topic %s cannot be read: %s", escape(topic), escape(e))

    def look_again(self, topic: str) -> None:
        """Has the route of a topic fetched in the background, unless that was done a moment ago:
        one of its brokers is gone, or may be back."""
        now = trio.current_time()
        looks = self._looks.get(topic) or _Looks(now)
        if now < looks.due or not self._tasks.running:
            return
        if now > looks.due + LONGEST_LOOK_PAUSE:
            looks.backoff.reset()  # that was another trouble
        looks.due = now + looks.backoff.next()
        self._looks[topic] = looks
        self._tasks.start_soon(self._look, topic)

    def broker_leaves(self, broker_name: str) -> None:
        """Has the routes with this broker fetched in the background: it has changed them at the
        name servers, to leave its clients or to come back."""
        if len(self._left) < MOST_LEFT:
            self._left.add(broker_name)
        if not self._fetches_left and self._tasks.running:
            self._fetches_left = True
            self._tasks.start_soon(self._fetch_left)

    async def _fetch_left(self) -> None:
        try:
            while self._left:
                await trio.sleep(random.uniform(0, SPREAD))
                names, self._left = self._left, set()
                for route_topic in list(self._refreshed):
                    known = self._table.known.get(route_topic)
                    if known is None or not any(q.broker_name in names for q in known.queues):
                        continue
                    try:
                        await self._fetch(route_topic)
                    except PyrmqError as e:
                        log.info("routes not refreshed: %s", escape(e))
                        break  # they are fetched every ROUTE_INTERVAL anyway
                await trio.sleep(LEAVES_PAUSE)
        finally:
            self._fetches_left = False

    async def _look(self, topic: str) -> None:
        before = self._table.known.get(topic)
        try:
            await self._fetch(topic)
        except PyrmqError as e:
            log.info("the route of topic %s is not known: %s", escape(topic), escape(e))
        if self._table.known.get(topic) != before:
            self._looks.pop(topic, None)

    def _forget(self, topics: set[str]) -> None:
        """Keeps only these topics."""
        self._refreshed &= topics
        keep(self._table.known, topics)
        keep(self._new, topics)
        keep(self._looks, topics)
