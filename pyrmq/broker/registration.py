"""Registers the broker and its topics at the name servers.
[BrokerOuterAPI, BrokerController.registerBrokerAll]
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import trio

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.config.drain_keys import DRAIN_ALL, DRAIN_WRITE
from pyrmq.broker.replication.slave import KnownMaster, Master
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Command
from pyrmq.errors import NoPermissionError, PyrmqError, ResponseError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode
from pyrmq.model.names import is_routed_topic
from pyrmq.model.topic import PERM_READ, PERM_WRITE, TopicConfig
from pyrmq.net import fastjson
from pyrmq.net.address import Address, format_address, parse_address, parse_addresses
from pyrmq.net.backoff import Backoff, Trouble
from pyrmq.net.client.channel import Channel, Channels
from pyrmq.net.client.server_access import channels_of
from pyrmq.net.server.turns import in_turns

log = logging.getLogger(__name__)

USER = (
    "; give this name server the user of innerClientAuthenticationCredentials, in its namesrv.conf"
)

START = 3.0
"""Seconds that a start waits for name servers at most."""
TELL = 3.0
"""Seconds that a new topic waits for the name servers at most."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds until the next try after a failure; a period at most."""
SEEK = 2.0
"""Seconds after which a slave registers again that does not know or reach its master."""
MANY_TOPICS, SEEK_WITH_MANY = 2000, 10.0
"""So many topics make a registration large; seconds then."""
SHORT = 3.0
"""Seconds that a name server may take to answer a small request."""
LOOK = 64
"""Topics between two looks at the clock."""
MAX_SINGLE = 64
"""Topics that are registered one by one; if there are more, all are."""


@dataclass(slots=True)
class _NameServer:
    address: Address
    changed: trio.Event = field(default_factory=trio.Event)
    """Set when topics have changed."""
    told: int | None = None
    """How many changes it knows; None: the last try failed, or there was none."""
    channel: Channel | None = None
    """On which it was told. Its end unregisters the broker."""
    rows: int = 0
    """How many of the rows that were encoded it has."""
    ordered: tuple[bytes, list[str]] = (b"", [])
    """Its order configurations, and the topics in them."""
    all_anew: bool = False
    """It is to be told all topics, also if it is being told something now."""
    known: bool = False
    """Whether the last request that told it something was answered."""
    trouble: Trouble = field(default_factory=Trouble)
    """Requests to it that failed, to be logged."""

    @property
    def name(self) -> str:
        return format_address(self.address)


class Registration:
    """Registers all topics at start and every registerNameServerPeriod, and topics that are new
    or have changed at once."""

    def __init__(
        self,
        config: LiveConfig,
        topics: TopicTable,
        address: Address,
        ha_address: Address | None = None,
        master: KnownMaster | None = None,
        follows: Callable[[], bool] = lambda: True,
    ) -> None:
        """`master` is noted what the name servers say of a slave's master; `follows` says whether
        the slave is connected to it."""
        self._config = config
        self._topics = topics
        self._withdrawn = False
        self._permission = self._routed_permission(config.now)
        self._encoded: dict[str, int] = {}
        """By topic, the number of its row among those that were encoded; the latest come last."""
        self._rows_encoded = 0
        self._rows = topics.rows(self._row)
        self._encoding = trio.Lock()
        self._address = address
        self._ha_address = ha_address or (address[0], address[1] + 1)
        self._master = master or KnownMaster()
        self._follows = follows
        addresses = parse_addresses(config.now.namesrv_addr, "namesrvAddr")
        self._servers = [_NameServer(server) for server in addresses]
        self._leaving = False
        self._scope = trio.CancelScope()
        self._changes = 0
        """How often topics changed."""
        self._news = trio.Event()
        topics.watch(self)
        config.watch(self._configured)

    async def told(self) -> None:
        """Waits until the name servers that can be reached know the topics as they are now."""
        wanted = self._changes
        with trio.move_on_after(TELL):
            while not self._leaving and any(
                server.told is not None and server.told < wanted for server in self._servers
            ):
                await self._news.wait()

    def _routed_permission(self, config: BrokerConfig) -> int:
        """What clients may do here, as routes say: less than the broker allows while it drains."""
        if config.broker_drain == DRAIN_ALL:
            return 0
        leaves = self._withdrawn or config.broker_drain == DRAIN_WRITE
        return config.broker_permission & (~PERM_WRITE if leaves else -1)

    def withdraw(self) -> None:
        """From now on no route has a queue of this broker to send to: it is about to stop."""
        self._withdrawn = True
        self._change_permission()

    def _change_permission(self) -> None:
        permission = self._routed_permission(self._config.now)
        if permission != self._permission:
            for topic in self._topics.topics:
                self._rows.change(topic)
            self._permission = permission
            self._topics.announce()

    def _configured(self, before: BrokerConfig, now: BrokerConfig) -> None:
        self._change_permission()
        if now.register_name_server_period != before.register_name_server_period:
            for server in self._servers:
                server.changed.set()

    def topics_changed(self) -> None:
        """Every name server is told."""
        self._changes += 1
        for server in self._servers:
            server.changed.set()

    def _header(self) -> dict[str, str | int | bool]:
        host, port = self._address
        return {
            "brokerName": self._config.now.broker_name,
            "brokerAddr": format_address((host, port)),
            "clusterName": self._config.now.broker_cluster_name,
            "brokerId": self._config.now.broker_id,
        }

    def _values(self, topic: TopicConfig) -> dict[str, object]:
        perm = self._permission
        limit = 0xF if perm & PERM_READ and perm & PERM_WRITE else perm
        return {**topic.to_json(), "perm": topic.perm & limit}

    def _row(self, topic: TopicConfig) -> bytes:
        if not is_routed_topic(topic.topic_name):  # a name server would refuse all of them
            return b""
        self._rows_encoded += 1
        self._encoded.pop(topic.topic_name, None)
        self._encoded[topic.topic_name] = self._rows_encoded
        return fastjson.member(topic.topic_name, self._values(topic))

    async def _body(self, since: int | None = None) -> tuple[bytes, int, list[str]]:
        """A body with all topics, or those whose rows were encoded after so many; how many rows
        there are then, and which topics the latter are."""
        # One after the other: name servers share the rows.
        async with self._encoding:
            version = self._topics.version.to_json()
            rows: fastjson.Encoded = self._rows.freeze()
            await self._rows.encode()
            names: list[str] = []
            if since is not None:
                names = await self._encoded_after(since)
                if 2 * len(names) < len(self._topics.topics):  # else all of them are quicker
                    rows = fastjson.EncodedRows(map(self._rows.encoded, names))
            wrapper = {
                "dataVersion": version,
                "mappingDataVersion": version,
                "topicConfigTable": rows,
                "topicQueueMappingDetailMap": {},
                "topicQueueMappingInfoMap": {},
            }
            body = {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}
            return b"".join(fastjson.parts(body)), self._rows_encoded, names

    async def _encoded_after(self, since: int) -> list[str]:
        """Topics whose rows were encoded after so many others, the latest first."""
        latest = islice(reversed(self._encoded.items()), self._rows_encoded - since)
        names: list[str] = []

        def look(row: tuple[str, int]) -> None:
            name, number = row
            if number > since and name in self._topics.topics:  # else it was deleted
                names.append(name)

        await in_turns(list(latest), look, LOOK)
        return names

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Registers until cancelled; started once every name server was tried, or after START."""
        async with channels_of(self._config.now) as channels, trio.open_nursery() as nursery:
            self._scope = nursery.cancel_scope
            tried = [trio.Event() for _ in self._servers]
            for server, event in zip(self._servers, tried, strict=True):
                nursery.start_soon(self._keep, channels, server, event)
            with trio.move_on_after(START):
                for event in tried:
                    await event.wait()
            task_status.started()
            await trio.sleep_forever()

    def register_again(self) -> None:
        """Registers all topics at once: a name server may believe another broker to be this one."""
        for server in self._servers:
            server.all_anew = True
            server.changed.set()

    def leave(self) -> None:
        """Registers no more. Name servers forget the broker as its connections end."""
        self._leaving = True
        self._scope.cancel()

    def _is_seeking(self) -> bool:
        """Whether a slave has no master, or cannot reach it: it may be another one by now."""
        return self._config.now.is_slave and (self._master.latest is None or not self._follows())

    def _seek_pause(self) -> float:
        return SEEK if len(self._topics.topics) < MANY_TOPICS else SEEK_WITH_MANY

    async def _keep(self, channels: Channels, server: _NameServer, tried: trio.Event) -> None:
        """One name server: again at every change, every period, and soon after a failure."""
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        due = trio.current_time()
        while not self._leaving:
            period = min(max(self._config.now.register_name_server_period, 10_000), 60_000) / 1000
            server.changed = trio.Event()
            changes = self._changes
            if server.all_anew:
                server.all_anew, server.channel, server.told = False, None, None
            is_due = server.told is None or trio.current_time() >= due or self._is_seeking()
            done = await self._one(channels, server, partial(self._tell, is_due))
            if done:
                self._registered(server)
            server.told = changes if done else None
            self._news.set()
            self._news = trio.Event()
            tried.set()
            if is_due:
                due = trio.current_time() + period
            look = trio.current_time() + self._seek_pause() if self._config.now.is_slave else due
            soon = min(due, look)
            if done:
                backoff.reset()
            else:
                soon = trio.current_time() + min(backoff.next(), period)
            with trio.move_on_at(soon):
                await server.changed.wait()

    async def unregister(self) -> None:
        """Unregisters this broker at every name server; it registers no more."""
        self._leaving = True
        async with channels_of(self._config.now) as channels, trio.open_nursery() as nursery:
            for server in self._servers:
                nursery.start_soon(self._one, channels, server, self._unregister)

    async def _one(
        self,
        channels: Channels,
        server: _NameServer,
        call: Callable[[Channel, _NameServer], Awaitable[None]],
    ) -> bool:
        try:
            await call(await channels.get(server.address), server)
        except PyrmqError as e:
            self._failed(server, f"{e}{USER if isinstance(e, NoPermissionError) else ''}")
            return False
        return True

    @property
    def left(self) -> bool:
        """Whether it registers no more."""
        return self._leaving

    @property
    def name_servers(self) -> int:
        """How many name servers are configured."""
        return len(self._servers)

    @property
    def unregistered(self) -> list[str]:
        """Name servers (`host:port`) that do not know this broker, as far as is known here."""
        return [server.name for server in self._servers if not server.known]

    def _registered(self, server: _NameServer) -> None:
        if server.known:
            return
        server.known = True
        lasted = server.trouble.over()
        after = "" if lasted is None else f" after {lasted:.0f} s"
        log.info(
            "registered with name server %s%s",
            escape(server.name),
            escape(after),
            extra=about(namesrv=server.name),
        )

    def _failed(self, server: _NameServer, why: str) -> None:
        """Says so, at first and then once a minute: clients may not find this broker."""
        if self._leaving:
            log.info(
                "not unregistered from name server %s: %s",
                escape(server.name),
                escape(why),
                extra=about(namesrv=server.name),
            )
            return
        server.known = False
        said = server.trouble.say(why)
        if said is None:
            return
        alone = not any(other.known for other in self._servers)
        log.log(
            logging.ERROR if alone else logging.WARNING,
            "not registered with name server %s%s: %s%s",
            escape(server.name),
            said,
            escape(why),
            "; clients do not find this broker" if alone else "",
            extra=about(namesrv=server.name),
        )

    async def _tell(self, is_due: bool, channel: Channel, server: _NameServer) -> None:
        """Registers all topics, or what is new since this name server was told."""
        if is_due or channel is not server.channel:
            if await self._wants_all(channel, server):
                await self._register(channel, server)
            return
        body, rows, names = await self._body(server.rows)
        if not self._config.now.enable_single_topic_register:
            if names:
                await self._send(channel, server, body)
        elif len(names) > MAX_SINGLE:
            await self._register(channel, server)
            return
        else:
            for name in names:
                await self._register_topic(channel, name)
        server.rows = rows

    async def _wants_all(self, channel: Channel, server: _NameServer) -> bool:
        """Whether a name server is to be told of all topics: at first, with forceRegister, and if
        it says that it knows of others. [needRegister]"""
        if self._config.now.force_register or server.channel is None:
            return True
        async with self._encoding:
            self._rows.freeze()
            await self._rows.encode()
            rows, version = self._rows_encoded, self._topics.version.to_json()
        try:
            answer = await channel.request(
                RequestCode.QUERY_DATA_VERSION,
                self._header(),
                fastjson.dumps(version),
                timeout=SHORT,
            )
        except ResponseError:
            return True
        if answer.ext.get("changed") != "false":
            return True
        server.channel, server.rows = channel, rows
        return False

    async def _register(self, channel: Channel, server: _NameServer) -> None:
        body, rows, _ = await self._body()
        await self._send(channel, server, body)
        server.channel, server.rows = channel, rows

    async def _send(self, channel: Channel, server: _NameServer, body: bytes) -> None:
        header = {
            **self._header(),
            "haServerAddr": format_address(self._ha_address),
            "compressed": False,
            "bodyCrc32": 0,
        }
        answer = await channel.request(
            RequestCode.REGISTER_BROKER,
            header,
            body,
            timeout=self._config.now.register_broker_timeout_mills / 1000,
        )
        self._take_master(server, answer)
        self._take_order(server, answer.body)

    async def _register_topic(self, channel: Channel, name: str) -> None:
        values = self._values(self._topics.topics[name])
        kept = ("perm", "readQueueNums", "topicSysFlag", "writeQueueNums")
        row = {"brokerName": self._config.now.broker_name, **{key: values[key] for key in kept}}
        await channel.request(
            RequestCode.REGISTER_TOPIC_IN_NAMESRV,
            {"topic": name},
            fastjson.dumps({"brokerDatas": [], "filterServerTable": {}, "queueDatas": [row]}),
            timeout=SHORT,
        )

    def _take_master(self, server: _NameServer, answer: Command) -> None:
        """A slave learns who its master is. [handleRegisterBrokerResult]"""
        master, ha = answer.ext.get("masterAddr"), answer.ext.get("haServerAddr")
        if not self._config.now.is_slave or not master or not ha:
            return
        try:
            found = Master(parse_address(master), parse_address(ha))
        except PyrmqError as e:
            log.warning(
                "the master as %s says: %s",
                escape(server.name),
                escape(e),
                extra=about(namesrv=server.name),
            )
            return
        if found != self._master.latest:
            log.info("the master is %s", escape(master), extra=about(broker=master))
        self._master.note(found)

    def _take_order(self, server: _NameServer, body: bytes) -> None:
        """Topics with an order configuration are ordered. [handleRegisterBrokerResult]"""
        try:
            if body != server.ordered[0]:
                table = fastjson.loads_object(body).get("table") if body else {}
                server.ordered = body, [str(n) for n in table] if isinstance(table, dict) else []
            self._topics.mark_ordered(server.ordered[1])
        except PyrmqError as e:
            log.warning(
                "order configuration of %s: %s",
                escape(server.name),
                escape(e),
                extra=about(namesrv=server.name),
            )

    async def _unregister(self, channel: Channel, server: _NameServer) -> None:
        await channel.request(RequestCode.UNREGISTER_BROKER, self._header(), timeout=SHORT)
