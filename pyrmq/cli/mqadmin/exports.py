"""mqadmin's commands that export what a cluster is, and those about RocksDB stores."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pyrmq.admin.api import Admin
from pyrmq.admin.exports import save
from pyrmq.admin.rocksdb import CONFIG_TYPES
from pyrmq.cli.mqadmin.brokers import ONE, WHERE, where
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Output
from pyrmq.errors import ConfigError, NotSupportedError


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

_EXPORT_COMMANDS = {
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


THIRTY_DAYS = 30 * 86_400_000
NO_READER = (
    "files of RocksDB are not read by pyrmq: ask the broker that has them (rocksDBConfigToJson -b "
    "or -c), or use RocketMQ's own mqadmin on its machine"
)


async def export_pop(admin: Admin, values: Values, out: Output) -> None:
    place = where(values)
    if values.has("dryRun") and values.truth("dryRun"):
        for replica in await admin.link.replicas(broker=place["broker"], cluster=place["cluster"]):
            out.line(
                f"Export broker records, brokerName={replica.broker_name}, "
                f"brokerAddr={replica.address}, dryRun=true"
            )
        return
    for outcome in await admin.rocksdb.export_pop_records(**place):
        what = f"brokerName={outcome.name}, brokerAddr={outcome.target}, dryRun=false"
        if outcome.error is not None:
            out.failed(outcome.error, f"Export broker records error, {what}")
        else:
            out.succeeded()
            out.line(f"Export broker records, {what}")


async def rocksdb_configs(admin: Admin, values: Values, out: Output) -> None:
    if values.has("configPath") or values.has("exportFile"):
        raise NotSupportedError(NO_READER)
    if values.has("jsonEnable") and not values.truth("jsonEnable"):
        raise UsageError("--jsonEnable false is for --configPath, which is not supported")
    types = values.items("configType", ";") or list(CONFIG_TYPES)
    out.line("Use [rpc mode] call all brokers in cluster to export to json file")
    try:
        outcomes = await admin.rocksdb.export_configs(
            types, broker=values.get("brokerAddr"), cluster=values.get("cluster")
        )
    except ConfigError as e:
        raise UsageError(f"--configType: {e}") from None
    out.outcomes(outcomes, "{} export done.")


async def check(admin: Admin, values: Values, out: Output) -> None:
    since = values.number_or("checkFrom", time.time_ns() // 1_000_000 - THIRTY_DAYS)
    outcomes = await admin.rocksdb.check_queues(
        cluster=values["cluster"], topic=values.get("topic") or "", since=since
    )
    for outcome in outcomes:
        name = outcome.name or outcome.target
        if outcome.error is not None:
            out.failed(outcome.error, name)
        elif outcome.value is not None and outcome.value.failed:
            out.failed(f"{name} check error, please check log... errInfo: {outcome.value.result}")
        else:
            out.succeeded()
            out.line(f"{name} check doing, please wait and get the result from log...")


async def read_files(admin: Admin, values: Values, out: Output) -> None:
    raise NotSupportedError(NO_READER)


_ROCKSDB_COMMANDS = {
    command.name: command
    for command in (
        Command(
            "exportPopRecord",
            (*WHERE, Option("d", "dryRun", "true: only say which brokers", default="false")),
            export_pop,
            exactly_one=ONE,
        ),
        Command(
            "rocksDBConfigToJson",
            (
                Option("t", "configType", "topics;subscriptionGroups;consumerOffsets, or some"),
                Option("p", "configPath", "not supported: a folder of RocksDB"),
                Option("e", "exportFile", "not supported: goes with --configPath"),
                Option("j", "jsonEnable", "goes with --configPath", default="true"),
                Option("c", "cluster", "the masters of this cluster; all without it"),
                Option("b", "brokerAddr", "address of a broker, host:port"),
            ),
            rocksdb_configs,
        ),
        Command(
            "checkRocksdbCqWriteProgress",
            (
                Option("c", "cluster", "the masters of this cluster", required=True),
                Option("t", "topic", "topic name"),
                Option("cf", "checkFrom", "stored from this time on, ms; 30 days ago without it"),
            ),
            check,
        ),
        Command(
            "exportMetadataInRocksDB",
            (
                Option("p", "path", "folder of RocksDB", required=True),
                Option("t", "configType", "topics or subscriptionGroups", required=True),
                Option("j", "jsonEnable", "true or false", default="false"),
            ),
            read_files,
            local=True,
        ),
    )
}
COMMANDS = {**_EXPORT_COMMANDS, **_ROCKSDB_COMMANDS}
