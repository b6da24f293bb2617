"""mqadmin's commands that look at brokers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.brokers import OfReplica
from pyrmq.admin.runtime_info import HaStatus
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Column, Output
from pyrmq.cli.mqadmin.text import millis_text, seconds_text

INTERVAL = 3
"""Seconds between two rounds where -i has a blank value."""
MAX_INTERVAL = 86_400
NO_MASTER = "NO_MASTER"
_CONSUMED = (
    Column("#Topic", 64, cut=64), Column("#Group", 64), Column("#Broker Name", 32, cut=32),
    Column("#QID", 4), Column("#Broker Offset", 20), Column("#Consumer Offset", 20),
    Column("#Diff", 20), Column("#LastTime", gap=0),
)  # fmt: skip
_SLAVES = (
    Column("#SlaveAddr", 32), Column("#SlaveAckOffset", 16, gap=1),
    Column("#Diff", 16, right=True, gap=1), Column("#TransferSpeed(KB/s)", 16, right=True, gap=1),
    Column("#Status", 16, right=True, gap=1),
    Column("#TransferFromWhere", 16, right=True, gap=0),
)  # fmt: skip


def where(values: Values, cluster: str = "clusterName") -> dict[str, str | None]:
    """--brokerAddr and the cluster, of which at most one may be given. UsageError."""
    found = {"broker": values.get("brokerAddr"), "cluster": values.get(cluster)}
    if None not in found.values():
        raise UsageError(f"give only one of --brokerAddr, --{cluster}")
    return found


def rule(of: OfReplica[Any]) -> str:
    """The line above what one replica says."""
    replica = of.replica
    if not replica.broker_name:  # named by its address
        what = replica.address
    elif replica.broker_id == 0:
        what = f"Master: {replica.address}"
    else:
        what = f"My Master: {of.master or NO_MASTER}=====Slave: {replica.address}"
    return f"{'=' * 12}{what}{'=' * 12}"


async def repeated(
    values: Values, out: Output, once: Callable[[], Awaitable[None]], blank: int | None = INTERVAL
) -> None:
    """Once, or with --interval again and again until it is interrupted."""
    seconds: int | None = None
    if values.has("interval"):
        given = bool(values.get("interval")) or blank is None
        seconds = values.number("interval", 1, MAX_INTERVAL) if given else blank
    await once()
    while seconds is not None:
        out.flush()
        await trio.sleep(seconds)
        await once()


async def broker_status(admin: Admin, values: Values, out: Output) -> None:
    place = where(values)
    for of in await admin.brokers.runtime(**place):
        if _failed(of, out):
            continue
        prefix = f"{of.replica.address:<24} " if place["cluster"] else ""
        for name, value in sorted((of.outcome.value or {}).items()):
            out.line(f"{prefix}{name:<32}: {value}")


async def broker_config(admin: Admin, values: Values, out: Output) -> None:
    for of in await admin.brokers.config(**where(values)):
        out.line(rule(of))
        if not _failed(of, out):
            for name, value in (of.outcome.value or {}).items():
                out.line(f"{name:<50}=  {value}")
        out.line()


async def consume_stats(admin: Admin, values: Values, out: Output) -> None:
    level = values.number("level")
    stats = await admin.brokers.consume_stats(
        values["brokerAddr"],
        ordered=values.truth("order"),
        timeout=values.number("timeoutMillis", 1, 3_600_000) / 1000,
    )
    out.head(_CONSUMED)
    for row in stats.queues:
        p = row.progress
        if p.diff < level or p.last_timestamp <= 0:
            continue
        out.row(
            _CONSUMED, p.queue.topic, row.group, p.queue.broker_name, p.queue.queue_id,
            p.broker_offset, p.consumer_offset, p.diff, seconds_text(p.last_timestamp),
        )  # fmt: skip
    out.line()
    out.line(f"Diff Total: {stats.total_diff}")


async def ha_status(admin: Admin, values: Values, out: Output) -> None:
    async def once() -> None:
        at = where(values)
        for outcome in await admin.brokers.ha(broker=at["broker"], cluster=at["cluster"]):
            if outcome.value is None:
                assert outcome.error is not None
                out.failed(outcome.error, outcome.target)
                continue
            out.succeeded()
            _ha(outcome.value, outcome.target, out)

    await repeated(values, out, once)


def _ha(status: HaStatus, address: str, out: Output) -> None:
    out.line()
    if status.master:
        _labels(
            out,
            {
                "#MasterAddr": address,
                "#MasterCommitLogMaxOffset": status.max_offset,
                "#SlaveNum": len(status.slaves),
                "#InSyncSlaveNum": status.in_sync_slaves,
            },
        )
        out.head(_SLAVES)
        for s in status.slaves:
            out.row(
                _SLAVES, s.address, s.ack_offset, s.diff, f"{s.bytes_per_second / 1024:.2f}",
                "OK" if s.in_sync else "Fall Behind", s.transfer_from,
            )  # fmt: skip
        return
    _labels(
        out,
        {
            "#MasterAddr": status.master_address,
            "#CommitLogMaxOffset": status.max_offset,
            "#TransferSpeed(KB/s)": f"{status.bytes_per_second / 1024:.2f}",
            "#LastReadTime": millis_text(status.last_read),
            "#LastWriteTime": millis_text(status.last_write),
            "#MasterFlushOffset": status.master_flush_offset,
        },
    )


async def epochs(admin: Admin, values: Values, out: Output) -> None:
    name, cluster = values.get("brokerName"), values.get("clusterName")

    async def once() -> None:
        for outcome in await admin.clusters.epochs(broker_name=name, cluster=cluster):
            found = outcome.value
            if found is None:
                assert outcome.error is not None
                out.failed(outcome.error, outcome.target)
                continue
            out.succeeded()
            out.line()
            labels = {
                "#clusterName": found.cluster,
                "#brokerName": found.broker_name,
                "#brokerAddr": outcome.target,
                "#brokerId": found.broker_id,
            }
            _labels(out, labels)
            for e in found.epochs:
                out.line(
                    f"#Epoch: EpochEntry{{epoch={e.epoch}, startOffset={e.start}, "
                    f"endOffset={e.end}}}"
                )

    await repeated(values, out, once)


async def cold_data(admin: Admin, values: Values, out: Output) -> None:
    for of in await admin.brokers.cold_data(**where(values)):
        out.line(f" {rule(of)}")
        if _failed(of, out):
            continue
        if not of.outcome.value:
            out.line(f"Broker[{of.replica.address}] has no cold ctr table !")
            continue
        out.lines(json.dumps(_with_times(of.outcome.value), indent=2, ensure_ascii=False))


def _with_times(info: Mapping[Any, Any]) -> dict[str, Any]:
    """The same with times as text."""
    found = {str(k): v for k, v in info.items()}
    table = found.get("runtimeTable")
    if isinstance(table, dict):
        found["runtimeTable"] = {
            str(group): dict(_with_time(*kv) for kv in row.items())
            for group, row in table.items()
            if isinstance(row, dict)
        }
    return found


def _with_time(name: Any, value: Any) -> tuple[str, Any]:
    text = str(name)
    if text in ("lastColdReadTimeMills", "createTimeMills") and isinstance(value, int):
        return text.replace("Mills", "Format"), seconds_text(value)
    return text, value


def _labels(out: Output, labels: Mapping[str, object]) -> None:
    for name, value in labels.items():
        out.tabbed(name, str(value))


def _failed(of: OfReplica[Any], out: Output) -> bool:
    if of.outcome.error is not None:
        out.failed(of.outcome.error, of.replica.address)
        return True
    out.succeeded()
    return False


BROKER = Option("b", "brokerAddr", "address of a broker, host:port")
CLUSTER = Option("c", "clusterName", "all brokers of this cluster")
WHERE = (BROKER, CLUSTER)
ONE = (("brokerAddr", "clusterName"),)
_INTERVAL = Option("i", "interval", "repeat it, so many seconds apart")

COMMANDS = {
    command.name: command
    for command in (
        Command("brokerStatus", WHERE, broker_status, exactly_one=ONE),
        Command("getBrokerConfig", WHERE, broker_config, exactly_one=ONE),
        Command(
            "brokerConsumeStats",
            (
                Option("b", "brokerAddr", "address of a broker, host:port", required=True),
                Option("t", "timeoutMillis", "how long it may take, ms", default="50000"),
                Option("l", "level", "only queues with so many undone messages", default="0"),
                Option("o", "order", "true or false: ordered topics only", default="false"),
            ),
            consume_stats,
        ),
        Command("haStatus", (*WHERE, _INTERVAL), ha_status, exactly_one=ONE),
        Command(
            "getBrokerEpoch",
            (
                Option("b", "brokerName", "name of a broker"),
                CLUSTER,
                _INTERVAL,
            ),
            epochs,
            exactly_one=(("brokerName", "clusterName"),),
        ),
        Command("getColdDataFlowCtrInfo", WHERE, cold_data, exactly_one=ONE),
    )
}
