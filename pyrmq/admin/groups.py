"""Consumer groups: configuration, connected members and progress."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pyrmq.admin import values
from pyrmq.admin.consume_stats import GroupProgress
from pyrmq.admin.group_lags import GroupLag, lags_of
from pyrmq.admin.long_lists import LIST_TIMEOUT, in_parts
from pyrmq.admin.outcome import Outcome, Outcomes, Partial
from pyrmq.errors import ConfigError, RequestCodeNotSupportedError
from pyrmq.model.codes import RequestCode
from pyrmq.model.names import DLQ_PREFIX, check_consumer_group, check_group, retry_topic
from pyrmq.net import fastjson
from pyrmq.net.client.protocol import Ext

_NAMES = {
    "group_name": "groupName",
    "consume_enable": "consumeEnable",
    "consume_from_min_enable": "consumeFromMinEnable",
    "consume_broadcast_enable": "consumeBroadcastEnable",
    "consume_message_orderly": "consumeMessageOrderly",
    "retry_queue_nums": "retryQueueNums",
    "retry_max_times": "retryMaxTimes",
    "group_retry_policy": "groupRetryPolicy",
    "broker_id": "brokerId",
    "which_broker_when_consume_slowly": "whichBrokerWhenConsumeSlowly",
    "notify_consumer_ids_changed_enable": "notifyConsumerIdsChangedEnable",
    "group_sys_flag": "groupSysFlag",
    "consume_timeout_minute": "consumeTimeoutMinute",
    "subscription_data_set": "subscriptionDataSet",
    "attributes": "attributes",
}
"""Each member's name in JSON, in the order in which it is printed."""
_TYPES: dict[str, type | tuple[type, ...]] = {
    "group_retry_policy": dict,
    "subscription_data_set": (list, type(None)),
    "attributes": dict,
}


@dataclass(slots=True)
class GroupConfig:
    """One group. A broker takes it whole: what is not said becomes the default."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: dict[str, Any] = field(default_factory=lambda: {"type": "CUSTOMIZED"})
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[Any] | None = None
    attributes: dict[str, str] = field(default_factory=dict)
    """To a broker `+name` sets an attribute, and `-name` removes it."""

    def members(self) -> dict[str, Any]:
        """All members under their names in JSON."""
        return {name: getattr(self, own) for own, name in _NAMES.items()}

    def to_json(self) -> dict[str, Any]:
        return {k: v for k, v in self.members().items() if v is not None}

    @classmethod
    def from_json(cls, value: Mapping[Any, Any]) -> GroupConfig:
        """ConfigError for a member of the wrong type, or a name that is none. Members
        that are not known are left out."""
        name = value.get("groupName")
        if not isinstance(name, str):
            raise ConfigError("a group has a groupName")
        check_group(name)
        found = cls(name)
        for own, key in _NAMES.items():
            given = value.get(key)
            if given is None:
                continue
            wanted = _TYPES.get(own) or type(getattr(found, own))
            if not isinstance(given, wanted) or isinstance(given, bool) != (wanted is bool):
                raise ConfigError(f"{key} of group {name} is of another type")
            setattr(found, own, given)
        return found


def attributes_of(text: str) -> dict[str, str]:
    """`+a=b,-c` as brokers take it. ConfigError."""
    found: dict[str, str] = {}
    for part in (p.strip() for p in text.split(",")):
        name, sign, value = part.partition("=")
        name = name.strip()
        if not part:
            continue
        adds = name.startswith("+") and bool(sign) and bool(value.strip())
        removes = name.startswith("-") and not sign
        if not (adds or removes) or len(name) < 2:
            raise ConfigError(f"attributes are +name=value or -name, not {part!r}")
        if name in found:
            raise ConfigError(f"attribute {name[1:]} is given twice")
        found[name] = value.strip()
    return found


ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
MODES = ("PULL", "POP")
MAX_VALUES = 8 << 20
"""Most values in a broker's list of groups; a group has about 20."""


@dataclass(frozen=True, slots=True)
class GroupAt:
    """A group's configuration on one broker."""

    cluster: str
    broker_name: str
    address: str
    config: GroupConfig


class Groups(GroupProgress):
    """`admin.groups`."""

    async def configs(self, group: str) -> Outcomes[GroupAt | None]:
        """A group's configuration on one broker of each name; None if a broker does not have the
        group. [GET_ALL_SUBSCRIPTIONGROUP_CONFIG]"""
        brokers = await self._link.one_of_each()
        at = {r.address: r for r in brokers}

        async def one(address: str) -> GroupAt | None:
            config = await self._config(address, group)
            if config is None:
                return None
            return GroupAt(at[address].cluster, at[address].broker_name, address, config)

        return await self._link.on_each(brokers, one)

    async def names(self) -> Partial[str]:
        """The groups that have a configuration on brokers, by name, including those that have
        consumed nothing, and system groups. Raises the error of a broker if none answered."""
        asked = (await self.enabled()).check()
        return Partial(sorted({name for names in asked.values for name in names}), asked.failed)

    async def enabled(self) -> Outcomes[dict[str, bool]]:
        """The groups that have a configuration, and whether they may consume (consumeEnable), from
        one broker of each name."""
        return await self._link.on_each(await self._link.one_of_each(), self.enabled_at)

    async def enabled_at(self, broker: str) -> dict[str, bool]:
        """The same of one broker (`host:port`). [GET_ALL_SUBSCRIPTIONGROUP_CONFIG]"""
        table = await self._table(broker, onlyFields="consumeEnable")
        return {
            str(name): not isinstance(row, dict) or row.get("consumeEnable") is not False
            for name, row in table.items()
        }

    async def lags(self) -> Outcomes[dict[str, GroupLag]]:
        """How far all groups are that have consumed something, from one broker of each name. A
        broker refuses if it has too many queues to tell of. [GET_BROKER_CONSUME_STATS]"""
        brokers = await self._link.one_of_each()
        return await self._link.on_each(brokers, lambda address: lags_of(self._link, address))

    async def _table(self, address: str, **only: str) -> Mapping[Any, Any]:
        """The groups of a broker. `only`: what pyrmq's brokers leave the rest out for, so that any
        number of groups fits into a frame; RocketMQ's tell everything."""
        # Not GET_SUBSCRIPTIONGROUP_CONFIG: RocketMQ's brokers make the group that is asked for.
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        answer = await self._link.ask(address, code, dict(only))
        found = fastjson.loads_object(answer.body, MAX_VALUES) if answer.body else {}
        return values.table(found, "subscriptionGroupTable")

    async def _config(self, address: str, group: str) -> GroupConfig | None:
        row = values.table(await self._table(address, onlyGroup=group), group)
        return GroupConfig.from_json({"groupName": group, **row}) if row else None

    async def change(
        self,
        group: str,
        members: Mapping[str, Any],
        *,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Outcomes[None]:
        """Changes only the given values of a group's configuration (names of GroupConfig), on a
        broker or on the masters of a cluster. Creates a missing group, with the defaults for the
        other values."""
        check_consumer_group(group)

        async def one(address: str) -> None:
            known = await self._config(address, group) or GroupConfig(group)
            # A broker keeps the attributes that are not named.
            await self._update(address, replace(known, **{"attributes": {}, **members}))

        return await self._on_masters(one, broker, cluster)

    async def update(
        self, config: GroupConfig, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[None]:
        """Creates a group, or replaces its configuration, on a broker or on the masters of a
        cluster. [UPDATE_AND_CREATE_SUBSCRIPTIONGROUP]"""
        check_consumer_group(config.group_name)
        return await self._on_masters(
            lambda address: self._update(address, config), broker, cluster
        )

    async def _update(self, address: str, config: GroupConfig) -> None:
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await self._link.ask(address, code, body=fastjson.dumps(config.to_json()))

    async def update_many(
        self,
        configs: Sequence[GroupConfig],
        *,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Outcomes[None]:
        """The same for many groups in one request, or one by one if a broker does not know that
        request. It checks all names before it changes anything. If a broker refuses one, the groups
        of earlier requests are changed, as the error's hint says.
        [UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST]"""
        for config in configs:
            check_consumer_group(config.group_name)

        async def one(address: str) -> None:
            await in_parts(configs, "groups", partial(self._update_list, address))

        return await self._on_masters(one, broker, cluster)

    async def _update_list(self, address: str, configs: Sequence[GroupConfig]) -> None:
        body = fastjson.dumps({"groupConfigList": [c.to_json() for c in configs]})
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
        patience = self._link.patience(LIST_TIMEOUT)
        try:
            await self._link.ask(address, code, body=body, timeout=patience)
        except RequestCodeNotSupportedError:
            for config in configs:
                await self._update(address, config)

    async def delete(
        self,
        group: str,
        *,
        remove_offsets: bool = False,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Outcomes[None]:
        """Deletes a group on a broker or on the masters of a cluster, without its retry and
        dead-letter topics (`delete_topics`). [DELETE_SUBSCRIPTIONGROUP]"""
        check_group(group)
        ext: Ext = {"groupName": group, "cleanOffset": remove_offsets}

        async def one(address: str) -> None:
            await self._link.ask(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, ext)

        return await self._on_masters(one, broker, cluster)

    async def delete_topics(self, group: str, cluster: str) -> list[Outcome[None]]:
        """Deletes the retry and the dead-letter topic of a group in a cluster: on all replicas, on
        the name servers, and their order configuration. Returns the failures."""
        check_group(group)
        replicas = await self._link.replicas(cluster=cluster)
        failed: list[Outcome[None]] = []
        for topic in (retry_topic(group), DLQ_PREFIX + group):

            async def one(address: str, topic: str = topic) -> None:
                code = RequestCode.DELETE_TOPIC_IN_BROKER
                await self._link.ask(address, code, {"topic": topic})

            failed += (await self._link.on_each(replicas, one)).failed
            for code, ext in (
                (RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic}),
                (
                    RequestCode.DELETE_KV_CONFIG,
                    {"namespace": ORDER_TOPIC_CONFIG, "key": topic},
                ),
            ):
                for outcome in (await self._link.ask_name_servers(code, ext)).failed:
                    failed.append(Outcome(outcome.target, error=outcome.error))
        return failed

    async def set_consume_mode(
        self,
        group: str,
        topic: str,
        mode: str,
        pop_share_queues: int = 0,
        *,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Outcomes[None]:
        """Sets whether a group pulls a topic or pops it. `pop_share_queues`: how many members may
        pop the same queue. [RequestCode.SET_MESSAGE_REQUEST_MODE]"""
        check_group(group)
        body = fastjson.dumps(
            {
                "consumerGroup": group,
                "mode": mode,
                "popShareQueueNum": pop_share_queues,
                "topic": topic,
            }
        )

        async def one(address: str) -> None:
            await self._link.ask(address, RequestCode.SET_MESSAGE_REQUEST_MODE, body=body)

        return await self._on_masters(one, broker, cluster)

    async def _on_masters(
        self,
        work: Callable[[str], Awaitable[None]],
        broker: str | None,
        cluster: str | None,
    ) -> Outcomes[None]:
        masters = await self._link.masters(broker=broker, cluster=cluster)
        return await self._link.on_each(masters, work)
