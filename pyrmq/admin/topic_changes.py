"""Creating, changing and deleting topics."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pyrmq.admin.groups import attributes_of
from pyrmq.admin.link import Replica, near
from pyrmq.admin.long_lists import LIST_TIMEOUT, in_parts
from pyrmq.admin.namesrv import OrderConf, format_order, parse_order
from pyrmq.admin.outcome import Outcome, Outcomes, merged
from pyrmq.admin.shrinking import Hidden, config_before, hidden_by, refuse_hidden
from pyrmq.admin.topic_file import TopicChange, check_names, check_perm
from pyrmq.errors import (
    ClientError,
    ConfigError,
    PyrmqError,
    RequestCodeNotSupportedError,
    TopicNotExistError,
)
from pyrmq.model.codes import RequestCode
from pyrmq.model.names import AUTO_CREATE_TOPIC
from pyrmq.model.route import MASTER_ID, ClusterInfo
from pyrmq.model.topic import TopicConfig
from pyrmq.net import fastjson
from pyrmq.net.address import format_address, parse_address
from pyrmq.net.client.protocol import Ext

NEW_TOPIC = TopicConfig("", 8, 8)
"""The configuration of a topic without given values. [updateTopic]"""
NO_STATIC_TOPICS = (
    "static topics are not supported by pyrmq's brokers, nor by this command: nothing was changed. "
    "Make an ordinary topic with updateTopic (pyrmq admin topic create), which can also give it "
    "more queues; static topics of Apache RocketMQ's brokers are changed with its own mqadmin"
)

R = TypeVar("R")
Change = tuple[TopicConfig | None, TopicConfig]
"""A topic of one broker: its old configuration, if it existed, and the new one."""


@dataclass(frozen=True, slots=True)
class OrderedUpdate:
    """The result for an ordered topic. `entries`: what was added or changed in its order
    configuration; empty if no broker accepted the topic."""

    brokers: Outcomes[None]
    entries: str
    servers: Outcomes[None]
    """The name servers."""


@dataclass(frozen=True, slots=True)
class PermChange:
    """A topic of one broker: its old and its new permission."""

    old: int
    config: TopicConfig

    @property
    def changed(self) -> bool:
        return self.old != self.config.perm


@dataclass(frozen=True, slots=True)
class Deletion:
    """Where a topic is deleted."""

    masters: list[Replica]
    has: list[Replica]
    """The brokers of its route."""
    servers: list[str]


class TopicChanges(OrderConf):
    """The part of `admin.topics` that changes topics. Methods with `broker` (`host:port`) and
    `cluster` need one of the two. They raise ClientError otherwise, or if there is no such
    cluster."""

    async def update(
        self,
        config: TopicConfig,
        *,
        broker: str | None = None,
        cluster: str | None = None,
        attributes: str = "",
        force: bool = False,
    ) -> Outcomes[None]:
        """Creates a topic, or replaces its configuration, on a broker or on all masters of a
        cluster. `attributes`: changes such as `+message.type=FIFO,-queue.type`. Raises ConfigError
        for invalid attributes or permissions. If there would be fewer queues to read, and messages
        in the others are not consumed, it raises UnreadQueuesError and changes nothing, unless
        `force`. [UPDATE_AND_CREATE_TOPIC]"""
        masters = await self._link.masters(broker=broker, cluster=cluster)
        return await self._update_on(masters, config, attributes, force)

    async def hidden(
        self,
        topic: str,
        read_queue_nums: int,
        *,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Outcomes[list[Hidden]]:
        """The messages that would no longer be read if a topic had so many queues to read, because
        groups have not consumed them, by broker and group. It changes nothing."""
        now = TopicConfig(topic, read_queue_nums, 0)
        masters = await self._link.masters(broker=broker, cluster=cluster)
        names = {r.address: r.broker_name or r.address for r in masters}

        async def one(address: str) -> list[Hidden]:
            before = await config_before(self._link, address, topic)
            return await hidden_by(self._link, address, names[address], before, now)

        return await self._link.on_each(masters, one)

    async def update_ordered(
        self,
        config: TopicConfig,
        *,
        broker: str | None = None,
        cluster: str | None = None,
        attributes: str = "",
        force: bool = False,
    ) -> OrderedUpdate:
        """The same for an ordered topic: the brokers that accept it are put into its order
        configuration on all name servers, with the number of write queues. Entries of other brokers
        stay; with `cluster`, entries of unknown brokers are removed."""
        if config.write_queue_nums < 1:
            raise ConfigError("a topic that is ordered has at least one queue to write")
        info = await self._link.cluster_info()
        masters = await self._named_masters(info, broker, cluster)
        old = await self._order_of(config.topic_name)
        ordered = dataclasses.replace(config, order=True)
        outcomes = await self._update_on(masters, ordered, attributes, force)
        made = {o.name: config.write_queue_nums for o in outcomes.done}
        if not made:
            return OrderedUpdate(outcomes, "", Outcomes())
        known = old if cluster is None else {n: q for n, q in old.items() if n in info.brokers}
        servers = await self.put_order_conf(config.topic_name, format_order({**known, **made}))
        return OrderedUpdate(outcomes, format_order(made), servers)

    async def change(
        self,
        topic: str,
        /,
        *,
        broker: str | None = None,
        cluster: str | None = None,
        attributes: str = "",
        force: bool = False,
        **fields: Any,
    ) -> Outcomes[TopicConfig]:
        """Creates a topic, or changes what is named of its configuration: on a broker that has it,
        all else stays as it is there; on one that has it not, the rest is that of `NEW_TOPIC`.
        `fields`: members of TopicConfig, but for its name and attributes. `force` as of `update`.
        [GET_TOPIC_CONFIG, UPDATE_AND_CREATE_TOPIC]"""
        check_perm(fields.get("perm", 0))
        attributes_of(attributes)

        async def planned(address: str) -> list[Change]:
            try:
                before = await self._config(address, topic)
            except TopicNotExistError:
                new = dataclasses.replace(NEW_TOPIC, topic_name=topic)
                return [(None, dataclasses.replace(new, **fields))]
            return [(before, dataclasses.replace(before, **fields))]

        async def one(address: str, changes: list[Change]) -> TopicConfig:
            ((_, config),) = changes
            await self._update(address, config, attributes)
            return config

        masters = await self._link.masters(broker=broker, cluster=cluster)
        return await self._planned(masters, planned, one, force)

    async def _planned(
        self,
        masters: Sequence[Replica],
        plan: Callable[[str], Awaitable[list[Change]]],
        work: Callable[[str, list[Change]], Awaitable[R]],
        force: bool,
    ) -> Outcomes[R]:
        """Plans what to change on all masters, and changes it once all plans are known: nothing if
        one of them would hide messages, unless `force`. A master whose plan failed is left as it
        is."""
        names = {r.address: r.broker_name or r.address for r in masters}
        plans: dict[str, list[Change]] = {}
        failures: dict[str, PyrmqError] = {}

        async def prepare(address: str) -> list[Hidden]:
            plans[address] = changes = await plan(address)
            if force:
                return []
            return [
                hidden
                for before, now in changes
                for hidden in await hidden_by(self._link, address, names[address], before, now)
            ]

        async def one(address: str) -> R:
            if address in failures:
                raise failures[address]
            return await work(address, plans[address])

        prepared = await self._link.on_each(masters, prepare)
        refuse_hidden(prepared)
        failures |= {o.target: o.error for o in prepared.failed if o.error is not None}
        return await self._link.on_each(masters, one)

    async def _named_masters(
        self, info: ClusterInfo, broker: str | None, cluster: str | None
    ) -> list[Replica]:
        """The masters, each with its broker's name."""
        if broker is None or cluster is not None:
            return await self._link.masters(broker=broker, cluster=cluster)
        address = format_address(parse_address(broker, "broker address"))
        masters = [
            Replica(b.cluster, b.broker_name, MASTER_ID, address)
            for b in info.brokers.values()
            if b.broker_addrs.get(MASTER_ID) == address
        ]
        if not masters:
            known = [a for b in info.brokers.values() for a in b.broker_addrs.values()]
            raise ClientError(
                f"the name server knows no master at {address}, whose name the order "
                f"configuration needs{near(address, known)}"
            )
        return masters

    async def _order_of(self, topic: str) -> dict[str, int]:
        old = await self.order_conf(topic)
        return parse_order(old) if old else {}

    async def update_many(
        self,
        changes: Sequence[TopicChange],
        *,
        broker: str | None = None,
        cluster: str | None = None,
        force: bool = False,
    ) -> Outcomes[None]:
        """Creates topics, or replaces their configuration, many in one request, or one by one if a
        broker does not know that request. It checks all names before it changes anything:
        ConfigError. `force` as for `update`. If a broker refuses one, the topics of earlier
        requests are changed, as the error's hint says. [UPDATE_AND_CREATE_TOPIC_LIST]"""
        check_names(changes)
        by_name = {c.config.topic_name: c for c in changes}

        async def planned(address: str) -> list[Change]:
            found = []
            for done, change in enumerate(changes):
                self._link.progress("topics", done, len(changes))
                before = await config_before(self._link, address, change.config.topic_name)
                if before is None or change.attributes or _differs(before, change.config):
                    found.append((before, change.config))
            return found

        async def one(address: str, planned: list[Change]) -> None:
            wanted = [by_name[now.topic_name] for _, now in planned]
            await in_parts(wanted, "topics", partial(self._update_list, address))

        masters = await self._link.masters(broker=broker, cluster=cluster)
        return await self._planned(masters, planned, one, force)

    async def _update_list(self, address: str, wanted: Sequence[TopicChange]) -> None:
        # RocketMQ's broker forgets the whole list, and says success, if a topic in it is as it was.
        rows = [{**c.config.to_json(), "attributes": c.attributes} for c in wanted]
        body = fastjson.dumps({"topicConfigList": rows})
        patience = self._link.patience(LIST_TIMEOUT)
        try:
            await self._link.ask(
                address, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body, timeout=patience
            )
        except RequestCodeNotSupportedError:
            for change in wanted:
                await self._update(address, change.config, _text(change.attributes))

    async def set_perm(
        self, topic: str, perm: int, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[PermChange]:
        """Changes the permission of a topic on the masters that have it, or on one; everything else
        stays as each of them has it. It sends nothing if the permission is already right. Raises
        ConfigError for an invalid permission, TopicNotExistError, and ClientError if no such master
        has the topic. [GET_TOPIC_CONFIG, UPDATE_AND_CREATE_TOPIC]"""
        check_perm(perm)

        async def one(address: str) -> PermChange:
            config = await self._config(address, topic)
            old, config.perm = config.perm, perm
            if old != perm:
                await self._update(address, config, "")
            return PermChange(old, config)

        return await self._link.on_each(await self._masters_with(topic, broker, cluster), one)

    async def _masters_with(
        self, topic: str, broker: str | None, cluster: str | None
    ) -> list[Replica]:
        """The masters of a topic's route, at an address or of a cluster."""
        if (broker is None) == (cluster is None):
            raise ClientError("name a broker (host:port) or a cluster, one of both")
        masters = sorted(
            Replica(b.cluster, b.broker_name, MASTER_ID, b.broker_addrs[MASTER_ID])
            for b in (await self._link.route(topic)).brokers
            if MASTER_ID in b.broker_addrs
        )
        if broker is not None:
            address = format_address(parse_address(broker, "broker address"))
            found = [r for r in masters if r.address == address]
            what, there = f"{address} is no master", [r.address for r in masters]
        else:
            found = [r for r in masters if r.cluster == cluster]
            what, there = f"cluster {cluster} has no master", [r.cluster for r in masters]
        if not found:
            raise ClientError(
                f"{what} that has topic {topic}{near(broker or cluster or '', there)}"
            )
        return found

    async def deletion(self, topic: str, cluster: str) -> Deletion:
        """The servers that `delete` would ask. Raises ClientError if there is no such cluster."""
        masters = await self._link.masters(cluster=cluster)
        try:
            names = {q.broker_name for q in (await self._link.route(topic)).queues}
        except TopicNotExistError:
            names = set()
        return Deletion(
            masters,
            [r for r in masters if r.broker_name in names],
            [format_address(a) for a in self._link.namesrv],
        )

    async def delete(self, topic: str, cluster: str) -> Outcomes[None]:
        """Deletes a topic and its messages on all masters of a cluster and then, if all succeeded,
        on the name servers."""

        async def on_broker(address: str) -> None:
            await self._link.ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})

        brokers = await self._link.on_each(await self._link.masters(cluster=cluster), on_broker)
        if brokers.failed:
            return brokers
        servers = await self._link.ask_name_servers(
            RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic, "clusterName": cluster}
        )
        return merged([brokers, Outcomes(Outcome(o.target, None, o.error) for o in servers)])

    async def _config(self, address: str, topic: str) -> TopicConfig:
        found = await self._link.ask_json(address, RequestCode.GET_TOPIC_CONFIG, {"topic": topic})
        return TopicConfig.from_json(topic, found)

    async def _update_on(
        self, masters: Sequence[Replica], config: TopicConfig, attributes: str, force: bool
    ) -> Outcomes[None]:
        check_perm(config.perm)
        attributes_of(attributes)

        async def planned(address: str) -> list[Change]:
            if force:
                return [(None, config)]
            return [(await config_before(self._link, address, config.topic_name), config)]

        async def one(address: str, _: list[Change]) -> None:
            await self._update(address, config, attributes)

        return await self._planned(masters, planned, one, force)

    async def _update(self, address: str, config: TopicConfig, attributes: str) -> None:
        ext: Ext = {
            "topic": config.topic_name,
            "defaultTopic": AUTO_CREATE_TOPIC,
            "readQueueNums": config.read_queue_nums,
            "writeQueueNums": config.write_queue_nums,
            "perm": config.perm,
            "topicFilterType": config.topic_filter_type,
            "topicSysFlag": config.topic_sys_flag,
            "order": config.order,
            "attributes": attributes,
        }
        await self._link.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, ext)


def _differs(found: TopicConfig, wanted: TopicConfig) -> bool:
    bare = [dataclasses.replace(config, attributes={}) for config in (found, wanted)]
    return bare[0] != bare[1]


def _text(attributes: dict[str, str]) -> str:
    def parts() -> Iterator[str]:
        for name, value in attributes.items():
            yield name if name.startswith("-") else f"{name}={value}"

    return ",".join(parts())
