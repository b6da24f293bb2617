"""mqadmin's commands that export what a cluster is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyrmq.admin.api import Admin
from pyrmq.admin.exports import save
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Output


async def configs(admin: Admin, values: Values, out: Output) -> None:
    data = await admin.exports.configs(values["clusterName"], told=out.note)
    await _save(data, "configs.json", values, out)


async def metrics(admin: Admin, values: Values, out: Output) -> None:
    data = await admin.exports.metrics(values["clusterName"], told=out.note)
    await _save(data, "metrics.json", values, out)


async def metadata(admin: Admin, values: Values, out: Output) -> None:
    topics, groups = values.has("topic"), values.has("subscriptionGroup")
    if topics and groups:
        raise UsageError("give only one of --topic, --subscriptionGroup; neither exports both")
    data = await admin.exports.metadata(
        broker=values.get("brokerAddr"),
        cluster=values.get("clusterName"),
        topics=not groups,
        groups=not topics,
        special=values.has("specialTopic"),
        told=out.note,
    )
    name = "topic" if topics else "subscriptionGroup" if groups else "metadata"
    await _save(data, f"{name}.json", values, out)


async def _save(data: Mapping[str, Any], name: str, values: Values, out: Output) -> None:
    out.line(f"export {await save(data, values['filePath'], name)} success")


_CLUSTER = Option("c", "clusterName", "the cluster that is exported", required=True)
_FILE = Option("f", "filePath", "folder of the file", default="/tmp/rocketmq/export")

COMMANDS = {
    command.name: command
    for command in (
        Command("exportConfigs", (_CLUSTER, _FILE), configs),
        Command("exportMetrics", (_CLUSTER, _FILE), metrics),
        Command(
            "exportMetadata",
            (
                Option("c", "clusterName", "the cluster that is exported"),
                Option("b", "brokerAddr", "address of the broker that is exported, host:port"),
                _FILE,
                Option("t", "topic", "topics only", flag=True),
                Option("g", "subscriptionGroup", "groups only", flag=True),
                Option("s", "specialTopic", "retry and dead-letter topics as well", flag=True),
            ),
            metadata,
            exactly_one=(("brokerAddr", "clusterName"),),
        ),
    )
}
