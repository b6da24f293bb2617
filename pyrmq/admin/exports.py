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
from pyrmq.admin.broker_tables import Table, user_groups, user_topics
from pyrmq.admin.brokers import Brokers
from pyrmq.admin.connections import GroupConnections
from pyrmq.admin.link import AdminLink, Part, Replica
from pyrmq.admin.runtime_info import Runtime, Traffic, first_number
from pyrmq.errors import ClientError, PyrmqError, ResponseError
from pyrmq.model.codes import RequestCode
from pyrmq.model.names import HALF_TOPIC, SCHEDULE_TOPIC
from pyrmq.model.topic import as_int

PUT_NUMS = "TOPIC_PUT_NUMS"
BROKER_KEYS = (
    "brokerClusterName", "brokerId", "brokerName", "brokerRole", "fileReservedTime",
    "filterServerNums", "flushDiskType", "maxMessageSize", "messageDelayLevel", "msgTraceTopicName",
    "slaveReadEnable", "traceOn", "traceTopicEnable", "useTLS", "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
)  # fmt: skip
"""The exported keys of a broker's configuration."""
_TPS = ("normalInTps", "normalOutTps", "transInTps", "scheduleInTps")
_DAY = ("normalOneDayInNum", "normalOneDayOutNum", "transOneDayInNum", "scheduleOneDayInNum")
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
                table = await user_topics(self._link, master.address, special=special)
                tables.append(("topicConfigTable", table, ("readQueueNums", "writeQueueNums")))
            if groups:
                table = await user_groups(self._link, master.address)
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
        groups = (await user_groups(self._link, address))["subscriptionGroupTable"]
        topics = (await user_topics(self._link, address, special=False))["topicConfigTable"]
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


async def save(data: Mapping[str, Any], folder: str, name: str) -> Path:
    """Writes an export to a folder, which is created if necessary. The file is replaced in one
    step: it has either the old content or all of the new. Raises OSError."""
    text = json.dumps(_plain(data), indent="\t", ensure_ascii=False) + "\n"
    return await save_text(text, folder, name)


async def save_text(text: str, folder: str, name: str) -> Path:
    """The same for a text."""
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
