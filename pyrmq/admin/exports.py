"""Exports of a cluster: configuration of its brokers, topics, groups and figures."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import trio

from pyrmq.admin import values
from pyrmq.admin.brokers import Brokers
from pyrmq.admin.connections import GroupConnections
from pyrmq.admin.link import AdminLink, Part, Replica
from pyrmq.admin.runtime_info import Runtime, Traffic, first_number
from pyrmq.errors import ClientError, ProtocolError, PyrmqError, ResponseError
from pyrmq.model.codes import RequestCode
from pyrmq.model.names import (
    DLQ_PREFIX,
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_GROUP_PREFIX,
    is_system_topic,
)
from pyrmq.model.topic import as_int
from pyrmq.net import fastjson

TABLE_TIMEOUT = 10.0
MAX_VALUES = 4 << 20
"""Most values of a table that is accepted from a broker."""
PUT_NUMS = "TOPIC_PUT_NUMS"
BROKER_KEYS = (
    "brokerClusterName", "brokerId", "brokerName", "brokerRole", "fileReservedTime",
    "filterServerNums", "flushDiskType", "maxMessageSize", "messageDelayLevel", "msgTraceTopicName",
    "slaveReadEnable", "traceOn", "traceTopicEnable", "useTLS", "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
)  # fmt: skip
"""The exported keys of a broker's configuration."""
PREDEFINED_GROUPS = frozenset(
    {
        "DEFAULT_CONSUMER", "DEFAULT_PRODUCER", "TOOLS_CONSUMER", "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER", "__MONITOR_CONSUMER", "CLIENT_INNER_PRODUCER", "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
    }
)  # fmt: skip
"""Groups that RocketMQ's brokers and tools create. [MixAll]"""
_TPS = ("normalInTps", "normalOutTps", "transInTps", "scheduleInTps")
_DAY = ("normalOneDayInNum", "normalOneDayOutNum", "transOneDayInNum", "scheduleOneDayInNum")
Table = dict[str, Any]
Told = Callable[[str], None]


def silent(_: str) -> None:
    """Ignores progress lines."""


class Exports(Part):
    """`admin.exports`: each export is one object, in the form of RocketMQ's tools. If one server
    fails, its error is raised: an export is complete, or there is none. `told` gets a line for each
    step."""

    def __init__(self, link: AdminLink) -> None:
        super().__init__(link)
        self._brokers = Brokers(link)
        self._groups = GroupConnections(link)

    async def configs(self, cluster: str, *, told: Told = silent) -> Table:
        """The configuration of a cluster's masters. Raises ClientError for a broker without a
        master."""
        replicas = await self._link.replicas(cluster=cluster)
        for r in replicas:
            if r.broker_id == 0 and r.address in self._link.missed:
                raise self._link.missed[r.address]
        replicas = [r for r in replicas if r.address not in self._link.missed]
        masters = [r for r in replicas if r.broker_id == 0]
        for name in sorted({r.broker_name for r in replicas} - {m.broker_name for m in masters}):
            raise ClientError(f"broker {name} has no master now: its configuration is not known")
        brokers = {}
        for master in masters:
            told(f"{master.broker_name}: {master.address}")
            config = await self._brokers.config_of(master.address)
            brokers[master.broker_name] = {k: config[k] for k in BROKER_KEYS if k in config}
        return {
            "brokerConfigs": brokers,
            "clusterScale": {
                "namesrvSize": len(self._link.namesrv),
                "masterBrokerSize": len(masters),
                "slaveBrokerSize": len(replicas) - len(masters),
            },
        }

    async def metadata(
        self,
        *,
        broker: str | None = None,
        cluster: str | None = None,
        topics: bool = True,
        groups: bool = True,
        special: bool = False,
        told: Told = silent,
    ) -> Table:
        """User topics and groups of a broker, or of all masters of a cluster: queues of the same
        name are added up, everything else is that of the last broker. `special`: also retry and
        dead-letter topics. An export of one kind from one broker includes its dataVersion."""
        found: Table = {}
        masters = await self._link.masters(broker=broker, cluster=cluster)
        for done, master in enumerate(masters):
            told(f"{master.broker_name} {master.address}".strip())
            self._link.progress("brokers", done, len(masters))
            tables: list[tuple[str, Table, tuple[str, ...]]] = []
            if topics:
                table = await self._topics(master.address, special=special)
                tables.append(("topicConfigTable", table, ("readQueueNums", "writeQueueNums")))
            if groups:
                table = await self._user_groups(master.address)
                tables.append(("subscriptionGroupTable", table, ("retryQueueNums",)))
            for name, table, added in tables:
                known = found.setdefault(name, {})
                for one, row in table[name].items():
                    before = known.get(one, {})
                    sums = {k: as_int(row.get(k), 0) + as_int(before[k], 0)
                            for k in added if k in before}  # fmt: skip
                    known[one] = row | sums
                if broker is not None and len(tables) == 1:
                    found["dataVersion"] = table.get("dataVersion")
        if "dataVersion" not in found:
            found["exportTime"] = time.time_ns() // 1_000_000
        return found

    async def metrics(self, cluster: str, *, told: Told = silent) -> Table:
        """Figures of a cluster's masters: disks, rates, messages of a day, clients of its groups.
        Figures that a broker does not measure are absent, or 0."""
        report: Table = {}
        totals = dict.fromkeys(_TPS, 0.0)
        days = dict.fromkeys(_DAY, 0)
        for master in await self._link.masters(cluster=cluster):
            told(f"{master.broker_name}: {master.address}")
            report[master.broker_name] = one = await self._metrics_of(master, told)
            quota = one["runtimeQuota"]
            totals = {k: totals[k] + quota["tps"][k] for k in _TPS}
            days = {k: days[k] + quota["oneDayNum"][k] for k in _DAY}
        return {
            "evaluateReport": report,
            "totalData": {
                "totalTps": {f"total{k[0].upper()}{k[1:]}": v for k, v in totals.items()},
                "totalOneDayNum": days,
            },
        }

    async def _metrics_of(self, master: Replica, told: Told) -> Table:
        address = master.address
        runtime = await self._brokers.runtime_of(address)
        config = await self._brokers.config_of(address)
        groups = (await self._user_groups(address))["subscriptionGroupTable"]
        topics = (await self._topics(address, special=False))["topicConfigTable"]
        half_tps, half_day = await self._put(address, HALF_TOPIC)
        delayed_tps, delayed_day = await self._put(address, SCHEDULE_TOPIC)
        traffic = Traffic.of(runtime)
        clients: set[str] = set()
        for at, group in enumerate(sorted(groups), 1):
            if at % 100 == 0:
                told(f"{master.broker_name}: {at} of {len(groups)} groups")
            with suppress(PyrmqError):  # most groups are not online
                online = await self._groups.connections(group)
                clients |= {f"{c.language}%{c.version_name}" for c in online.connections}
        quota = {
            "diskRatio": _some(runtime, "commitLogDiskRatio", "consumeQueueDiskRatio"),
            "tps": {
                "normalInTps": first_number(runtime, "putTps"),
                "normalOutTps": first_number(runtime, "getTransferredTps"),
                "transInTps": half_tps,
                "scheduleInTps": delayed_tps,
            },
            "oneDayNum": {
                "normalOneDayInNum": traffic.in_yesterday,
                "normalOneDayOutNum": traffic.out_yesterday,
                "transOneDayInNum": half_day,
                "scheduleOneDayInNum": delayed_day,
            },
            "messageAverageSize": runtime.get("putMessageAverageSize"),
            "topicSize": len(topics),
            "groupSize": len(groups),
        }
        return {
            "runtimeEnv": {
                "cpuNum": config.get("clientCallbackExecutorThreads"),
                "totalMemKBytes": runtime.get("totalMemKBytes"),
            },
            "runtimeQuota": quota,
            "runtimeVersion": {
                "rocketmqVersion": runtime.get("brokerVersionDesc"),
                "clientInfo": sorted(clients),
            },
        }

    async def _put(self, address: str, topic: str) -> tuple[float, int]:
        """What came into a topic: messages a second of the last minute, and of a day, as far as
        the broker knows one. [StatsAllSubCommand.compute24HourSum]"""
        try:
            stats = await self._link.ask_json(
                address,
                RequestCode.VIEW_BROKER_STATS_DATA,
                {"statsName": PUT_NUMS, "statsKey": topic},
            )
        except ResponseError:  # nothing came yet
            return 0.0, 0
        windows = [values.table(stats, f"stats{w}") for w in ("Day", "Hour", "Minute")]
        sums = [values.number(w, "sum") for w in windows]
        return values.real(windows[-1], "tps"), next((s for s in sums if s), 0)

    async def _topics(self, address: str, *, special: bool) -> Table:
        """A broker's table of topics, those of its users. [getUserTopicConfig]"""
        found = await self._table(address, RequestCode.GET_ALL_TOPIC_CONFIG, "topicConfigTable")
        system = await self._link.ask_json(
            address,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
            timeout=self._link.patience(TABLE_TIMEOUT),
        )
        named = system.get("topicList")
        hidden = {str(t) for t in named} if isinstance(named, list) else set()
        table = found["topicConfigTable"]
        found["topicConfigTable"] = {
            name: row
            for name, row in table.items()
            if name not in hidden
            and not is_system_topic(name)
            and (special or not name.startswith((RETRY_PREFIX, DLQ_PREFIX)))
            and 0 <= as_int(row.get("perm"), 6) < 8
        }
        return found

    async def _user_groups(self, address: str) -> Table:
        """A broker's table of groups, those of its users. [getUserSubscriptionGroup]"""
        name = "subscriptionGroupTable"
        found = await self._table(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, name)
        found[name] = {
            group: row
            for group, row in found[name].items()
            if not group.startswith(SYSTEM_GROUP_PREFIX) and group not in PREDEFINED_GROUPS
        }
        return found

    async def _table(self, address: str, code: int, name: str) -> Table:
        """A broker's table and its dataVersion. ProtocolError for a row that is no object."""
        answer = await self._link.ask(address, code, timeout=self._link.patience(TABLE_TIMEOUT))
        body = fastjson.loads_object(answer.body, MAX_VALUES) if answer.body else {}
        rows = values.table(body, name)
        if not all(isinstance(row, dict) for row in rows.values()):
            raise ProtocolError(f"{name} has a row that is no object")
        table = {str(k): {str(n): v for n, v in row.items()} for k, row in rows.items()}
        return {name: table, "dataVersion": body.get("dataVersion")}


async def save(data: Mapping[str, Any], folder: str, name: str) -> Path:
    """Writes an export to a folder, which is created if necessary. The file is replaced in one
    step: it has either the old content or all of the new. Raises OSError."""
    text = json.dumps(_plain(data), indent="\t", ensure_ascii=False) + "\n"
    return await trio.to_thread.run_sync(_write, Path(folder), name, text)


def _write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    handle, made = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        os.chmod(made, 0o644)
        os.replace(made, folder / name)
    except BaseException:
        with suppress(OSError):
            os.unlink(made)
        raise
    return folder / name


def _plain(value: Any) -> Any:
    """As strict JSON, without null members, sorted by name."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in sorted(value.items(), key=_name) if v is not None}
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _name(item: tuple[Any, Any]) -> str:
    return str(item[0])


def _some(runtime: Runtime, *names: str) -> dict[str, str]:
    return {name: runtime[name] for name in names if name in runtime}
