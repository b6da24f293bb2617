"""Where a load goes: the queues of its topics on all masters of a cluster. It makes topics."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from pyrmq.bench.options import GROUP, OptionError, Options
from pyrmq.bench.result import BenchError
from pyrmq.engine import Command
from pyrmq.errors import ConfigError, ConnectError, PyrmqError, ResponseError
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.names import AUTO_CREATE_TOPIC
from pyrmq.model.route import MASTER_ID, ClusterInfo, TopicRoute
from pyrmq.model.topic import as_int
from pyrmq.net import fastjson
from pyrmq.net.address import Address, format_address, parse_address, parse_addresses
from pyrmq.net.client.channel import Channels
from pyrmq.net.client.protocol import Ext

TIMEOUT = 5.0
"""Seconds for a request."""
ROUTE_TIMEOUT = 15.0
"""Seconds until a topic that was made has its route."""
MOST_FACT = 1000
"""Characters of a broker's setting that are kept."""
AT_ONCE = 16
"""Topics that are asked for at once."""

Target = tuple[str, str, str, int]
"""Topic, broker's name, ip:port, queue: as the engine wants it."""


@dataclass(slots=True)
class Master:
    name: str
    address: str
    """`host:port`, as the name server has it."""
    ip: str
    """The same with a numeric host."""


@dataclass(slots=True)
class Places:
    """Queues of each topic, to send to and to receive from."""

    write: dict[str, list[Target]] = field(default_factory=dict)
    read: dict[str, list[Target]] = field(default_factory=dict)
    masters: list[Master] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    """What the first master says of itself: brokerVersionDesc, flushDiskType, brokerRole,
    messageDelayLevel. What it does not say is missing."""


def resolved(address: str) -> str:
    """With a numeric host. ConnectError."""
    try:
        host, port = parse_address(address)
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except ConfigError as e:
        raise BenchError(f"the address of a broker is none: {escape(str(e))}") from e
    except (OSError, UnicodeError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is no name of a host"
        raise ConnectError(f"{escape(address)}: the host does not resolve: {why}") from e
    return format_address((str(found[0][4][0]), port))


class _Asker:
    """Asks name servers and brokers."""

    def __init__(self, options: Options, channels: Channels) -> None:
        self.options = options
        self._channels = channels
        self.name_servers = parse_addresses(options.namesrv) if options.namesrv else []
        self._last = 0

    async def ask(
        self,
        server: str | Address,
        code: int,
        ext: Ext | None = None,
        *,
        body: bytes = b"",
        ok: bool = True,
    ) -> Command:
        """ResponseError unless it is a success, if `ok`."""
        address = parse_address(server) if isinstance(server, str) else server
        channel = await self._channels.get(address)
        answer = await channel.call(code, ext, body, timeout=TIMEOUT)
        if ok and answer.code != ResponseCode.SUCCESS:
            error = ResponseError.of(answer.code, answer.remark or "")
            error.server = format_address(address)
            raise error
        return answer

    async def name_server(self, code: int, ext: Ext | None = None, *, ok: bool = True) -> Command:
        """The first name server that answers."""
        failed: PyrmqError | None = None
        for n in range(len(self.name_servers)):
            at = (self._last + n) % len(self.name_servers)
            try:
                answer = await self.ask(self.name_servers[at], code, ext, ok=ok)
            except ConnectError as e:
                failed = e
                continue
            self._last = at
            return answer
        raise failed or BenchError("no name server")

    async def route(self, topic: str) -> TopicRoute | None:
        answer = await self.name_server(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, ok=False
        )
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise ResponseError.of(answer.code, answer.remark or "")
        return TopicRoute.from_json(fastjson.loads_object(answer.body))

    async def create(self, master: Master, topic: str) -> None:
        queues = self.options.queues
        ext: Ext = {
            "topic": topic,
            "defaultTopic": AUTO_CREATE_TOPIC,
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
        }
        await self.ask(master.address, RequestCode.UPDATE_AND_CREATE_TOPIC, ext)

    async def masters(self) -> list[Master]:
        if self.options.address:
            facts = await self.facts(self.options.address)
            name = facts.get("brokerName", "broker-a")
            return [Master(name, self.options.address, resolved(self.options.address))]
        answer = await self.name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        info = ClusterInfo.from_json(fastjson.loads_object(answer.body))
        clusters = sorted({b.cluster for b in info.brokers.values()})
        wanted = self.options.cluster
        if wanted and wanted not in clusters:
            raise OptionError(
                f"there is no cluster {escape(wanted)}: {escape(', '.join(clusters)) or 'none'}"
            )
        if not wanted and len(clusters) > 1:
            raise OptionError(
                f"there are clusters {escape(', '.join(clusters))}: say which with --cluster"
            )
        found = [
            Master(b.broker_name, b.broker_addrs[MASTER_ID], resolved(b.broker_addrs[MASTER_ID]))
            for _, b in sorted(info.brokers.items())
            if MASTER_ID in b.broker_addrs and b.cluster in (wanted or b.cluster,)
        ]
        if not found:
            raise BenchError("the name server knows no broker that is a master: start one first")
        return found

    async def facts(self, address: str) -> dict[str, str]:
        """Of a broker, as far as it says; ConnectError if it cannot be reached."""
        found: dict[str, str] = {}
        answer = await self.ask(address, RequestCode.GET_BROKER_CONFIG, ok=False)
        if answer.code == ResponseCode.SUCCESS:
            for line in answer.body.decode("utf-8", "replace").splitlines():
                key, _, value = line.partition("=")
                if key in ("flushDiskType", "brokerRole", "brokerName", "messageDelayLevel"):
                    found[key] = value.strip()[:MOST_FACT]
        answer = await self.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO, ok=False)
        if answer.code == ResponseCode.SUCCESS:
            table = fastjson.loads_object(answer.body).get("table")
            if isinstance(table, dict):
                found["brokerVersionDesc"] = str(table.get("brokerVersionDesc", ""))[:MOST_FACT]
        return found


def _of(route: TopicRoute, masters: Sequence[Master], topic: str, read: bool) -> list[Target]:
    by_name = {m.name: m for m in masters}
    queues = route.subscribe_queues(topic) if read else route.publish_queues(topic)
    return [
        (topic, q.broker_name, by_name[q.broker_name].ip, q.queue_id)
        for q in queues
        if q.broker_name in by_name
    ]


async def _by_route(asker: _Asker, places: Places, topic: str, make: bool) -> None:
    route = await asker.route(topic)
    names = {q.broker_name for q in route.queues} if route else set()
    if missing := [m for m in places.masters if m.name not in names]:
        if make:
            for master in missing:
                await asker.create(master, topic)
            route = await _route_of_all(asker, places, topic)
        elif route is None:
            raise BenchError(
                f"topic {escape(topic)} does not exist: send to it first, with `pyrmq bench send`"
            )
    assert route is not None
    places.write[topic] = _of(route, places.masters, topic, read=False)
    places.read[topic] = _of(route, places.masters, topic, read=True)


async def _route_of_all(asker: _Asker, places: Places, topic: str) -> TopicRoute:
    with trio.move_on_after(ROUTE_TIMEOUT):
        while True:
            route = await asker.route(topic)
            if route and {m.name for m in places.masters} <= {q.broker_name for q in route.queues}:
                return route
            await trio.sleep(0.05)
    raise BenchError(f"topic {escape(topic)} was made, and has no route after {ROUTE_TIMEOUT:g} s")


async def _at_broker(asker: _Asker, places: Places, topic: str, make: bool) -> None:
    """Where no name server is asked. A server that knows no topics has the queues asked for."""
    (master,) = places.masters
    ext: Ext = {"topic": topic}
    answer = await asker.ask(master.address, RequestCode.GET_TOPIC_CONFIG, ext, ok=False)
    write = read = asker.options.queues
    if answer.code == ResponseCode.SUCCESS:
        config = fastjson.loads_object(answer.body)
        write, read = (as_int(config.get(f"{k}QueueNums", write), -1) for k in ("write", "read"))
    elif answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        pass
    elif make:
        await asker.create(master, topic)
    else:
        raise BenchError(
            f"topic {escape(topic)} does not exist: send to it first, with `pyrmq bench send`"
        )
    if not 0 <= min(write, read) <= max(write, read) <= 65_536:
        raise BenchError(f"topic {escape(topic)}: {write} and {read} queues")
    places.write[topic] = [(topic, master.name, master.ip, q) for q in range(write)]
    places.read[topic] = [(topic, master.name, master.ip, q) for q in range(read)]


async def _group(asker: _Asker, target: Target, group: str) -> None:
    """The group's progress in this queue is its end if it has none, or if it is our own group. So a
    pop brings what is sent from now on; the progress of a pop is the broker's."""
    topic, _, address, queue = target
    where: Ext = {"consumerGroup": group, "topic": topic, "queueId": queue}
    if group != GROUP:
        asked = {**where, "setZeroIfNotFound": False}
        answer = await asker.ask(address, RequestCode.QUERY_CONSUMER_OFFSET, asked, ok=False)
        if answer.code != ResponseCode.QUERY_NOT_FOUND:
            return  # it has one, or the pop will say what is wrong
    ends = await asker.ask(address, RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": queue})
    code = RequestCode.UPDATE_CONSUMER_OFFSET
    progress = {**where, "commitOffset": ends.ext.get("offset", "0")}
    answer = await asker.ask(address, code, progress, ok=False)
    if answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
        body = fastjson.dumps({"groupName": group})
        await asker.ask(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        await asker.ask(address, code, progress)
    elif answer.code not in (ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED):
        raise ResponseError.of(answer.code, answer.remark or "")


async def find(
    options: Options, topics: Sequence[str], pops: Sequence[tuple[str, str]] = ()
) -> Places:
    """Raises what servers say, ConnectError if none can be reached.

    pops: group and topic of those that pop from the end on.
    """
    places = Places()
    make = not options.reads_only
    async with _asker(options) as asker:
        places.masters = await asker.masters()
        places.facts = await asker.facts(places.masters[0].address)
        one = _at_broker if options.address else _by_route
        limit = trio.CapacityLimiter(AT_ONCE)
        failed: list[PyrmqError] = []

        async def each(topic: str) -> None:
            async with limit:
                if not failed:
                    try:
                        await one(asker, places, topic, make)
                    except PyrmqError as e:
                        failed.append(e)

        async with trio.open_nursery() as nursery:
            for topic in topics:
                nursery.start_soon(each, topic)
        if failed:
            raise failed[0]
        for group, topic in pops:
            for target in places.read[topic]:
                await _group(asker, target, group)
    for topic in topics:
        for what, found in (("write", places.write[topic]), ("read", places.read[topic])):
            if not found and (make or what == "read"):
                raise BenchError(
                    f"topic {escape(topic)} has no queue to {what}: see its permissions"
                )
    return places


@asynccontextmanager
async def _asker(options: Options) -> AsyncIterator[_Asker]:
    try:
        async with Channels(credentials=options.credentials, tls=options.tls) as channels:
            yield _Asker(options, channels)
    except ConfigError as e:
        raise OptionError(str(e)) from e
