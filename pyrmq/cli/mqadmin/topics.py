"""mqadmin's commands that show topics: where they are, how busy, their queues."""

from __future__ import annotations

import json
from typing import Any

from pyrmq.admin.api import Admin
from pyrmq.admin.queue_files import QueueEntry, messages_of
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Column, Output
from pyrmq.cli.mqadmin.text import message_text, millis_text
from pyrmq.errors import ClientError, ConfigError
from pyrmq.model.route import QueueData

_LIST = (Column("#Cluster Name", 20, cut=20), Column("#Topic", 48, cut=64, cells=64),
         Column("#Consumer Group", 48, cut=64, cells=64, gap=0))  # fmt: skip


_ROUTE = (Column("#ClusterName", 45, gap=1), Column("#BrokerName", 32, gap=1),
          Column("#BrokerAddrs", 50, gap=1), Column("#ReadQueue", 10, gap=1),
          Column("#WriteQueue", 11, gap=1), Column("#Perm", 5, gap=0))  # fmt: skip
_STATUS = (Column("#Broker Name", 32, cut=32), Column("#QID", 4), Column("#Min Offset", 20),
           Column("#Max Offset", 20, gap=4), Column("#Last Updated", gap=0))  # fmt: skip


async def topic_list(admin: Admin, values: Values, out: Output) -> None:
    if not values.has("clusterModel"):
        for topic in await admin.topics.list():
            out.line(topic)
        return
    out.head(_LIST)
    async for row in admin.topics.with_groups():
        for group in row.groups or [""]:
            out.row(_LIST, row.cluster, row.topic, group)
        if row.groups or not row.failed:
            out.succeeded()
        for error in row.failed:
            out.failed(error, f"topic {row.topic}")


async def topic_route(admin: Admin, values: Values, out: Output) -> None:
    route = await admin.topics.route(values["topic"])
    if not values.has("list"):
        out.lines(json.dumps(_without_nulls(route.to_json()), indent=2, ensure_ascii=False))
        return
    out.head(_ROUTE)
    queues = {q.broker_name: q for q in route.queues}
    brokers = sorted(route.brokers, key=lambda b: b.broker_name)
    for broker in brokers:
        addresses = ", ".join(f"{n}={a}" for n, a in sorted(broker.broker_addrs.items()))
        q = queues.get(broker.broker_name, QueueData(broker.broker_name, 0, 0, 0))
        out.row(
            _ROUTE, broker.cluster, broker.broker_name, f"{{{addresses}}}",
            q.read_queue_nums, q.write_queue_nums, q.perm,
        )  # fmt: skip
    out.line("-" * 158)
    reads = sum(q.read_queue_nums for q in queues.values())
    writes = sum(q.write_queue_nums for q in queues.values())
    out.row(_ROUTE, "Total:", len(brokers), "", reads, writes, "")


def _without_nulls(value: Any) -> Any:
    """As strict JSON: keys are texts, absent members are left out."""
    if isinstance(value, dict):
        return {str(k): _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value


async def topic_status(admin: Admin, values: Values, out: Output) -> None:
    status = await admin.topics.status(values.get("cluster") or values["topic"])
    out.head(_STATUS)
    for state in status.queues:
        updated = millis_text(state.updated) if state.updated > 0 else ""
        queue = state.queue
        out.row(_STATUS, queue.broker_name, queue.queue_id, state.first, state.end, updated)
    out.line()
    out.line(f"Topic Put TPS: {status.put_tps}")
    out.missing(status.failed)


async def topic_clusters(admin: Admin, values: Values, out: Output) -> None:
    for cluster in await admin.topics.clusters(values["topic"]):
        out.line(cluster)


_TOPIC = Option("t", "topic", "topic name", required=True)
_TOPIC_COMMANDS = {
    command.name: command
    for command in (
        Command(
            "topicRoute",
            (_TOPIC, Option("l", "list", "a table in the place of JSON", flag=True)),
            topic_route,
        ),
        Command(
            "topicStatus",
            (_TOPIC, Option("c", "cluster", "a topic whose route is looked at instead")),
            topic_status,
        ),
        Command("topicClusterList", (_TOPIC,), topic_clusters),
        Command(
            "topicList",
            (Option("c", "clusterModel", "clusterModel", flag=True),),
            topic_list,
        ),
    )
}


_STATS = (
    Column("#Topic", 64, cut=64), Column("#Consumer Group", 64, cut=64, gap=1),
    Column("#Accumulation", 12, right=True, gap=1), Column("#InTPS", 11, right=True, gap=1),
    Column("#OutTPS", 11, right=True, gap=1), Column("#InMsg24Hour", 14, right=True, gap=1),
    Column("#OutMsg24Hour", 14, right=True, gap=0),
)  # fmt: skip
NO_CONSUMER = "NO_CONSUMER"


async def stats_all(admin: Admin, values: Values, out: Output) -> None:
    active = values.has("activeTopic")
    out.head(_STATS)
    async for row in admin.topics.flows(values.get("topic") or None):
        for error in row.failed:
            out.failed(error, f"topic {row.topic}")
        if row.answered:
            out.succeeded()
        if active and not row.active:
            continue
        got = (f"{row.got.tps:.2f}", row.got.day) if row.group is not None else ("", NO_CONSUMER)
        out.row(
            _STATS, row.topic, row.group or "", row.accumulation, f"{row.put.tps:.2f}", got[0],
            row.put.day, got[1],
        )  # fmt: skip
        out.flush()


async def allocate_mq(admin: Admin, values: Values, out: Output) -> None:
    try:
        shares = await admin.topics.allocation(values["topic"], values.items("ipList"))
    except ConfigError as e:
        raise UsageError(f"--ipList: {e}") from None
    result = {ip: [q.to_json() for q in queues] for ip, queues in shares.items()}
    out.line(json.dumps({"result": result}, separators=(",", ":"), ensure_ascii=False))


_STAT_COMMANDS = {
    command.name: command
    for command in (
        Command(
            "statsAll",
            (
                Option("a", "activeTopic", "only topics with messages today", flag=True),
                Option("t", "topic", "this topic only"),
            ),
            stats_all,
        ),
        Command(
            "allocateMQ",
            (
                Option("t", "topic", "topic name", required=True),
                Option("i", "ipList", "consumers, separated by commas", required=True),
            ),
            allocate_mq,
        ),
    )
}


RULE = "=" * 38


async def query_cq(admin: Admin, values: Values, out: Output) -> None:
    found = await admin.messages.queue_entries(
        values["topic"],
        values.number("queue", 0, 65_535),
        values.number("index"),
        values.number("count", 0, 65_536),
        broker=values.get("broker"),
        group=values.get("consumer"),
    )
    if found.subscription is not None:
        out.line("Subscription data: ")
        out.lines(json.dumps(found.subscription, indent=2, ensure_ascii=False))
        out.line(RULE)
    if found.filter:
        out.line("Filter data: ")
        out.line(found.filter)
        out.line(RULE)
    out.line("Queue data: ")
    out.line(f"max: {found.high}, min: {found.low}")
    out.line(RULE)
    for entry in found.entries:
        out.line(f"idx: {entry.index}")
        out.line(_entry(entry))
        out.line(RULE)


def _entry(entry: QueueEntry) -> str:
    extension, bits, message = (
        "null" if text is None else text for text in (entry.extension, entry.bit_map, entry.message)
    )
    return (
        f"ConsumeQueueData{{physicOffset={entry.phys}, physicSize={entry.size}, "
        f"tagsCode={entry.tags_code}, extendDataJson='{extension}', bitMap='{bits}', "
        f"eval={str(entry.evaluated).lower()}, msg='{message}'}}"
    )


async def dump_compaction_log(admin: Admin, values: Values, out: Output) -> None:
    if not values.has("file"):
        raise UsageError("miss dump log file name")
    try:
        for message in messages_of(values["file"]):
            out.line(message_text(message, None))
    except OSError as e:
        raise ClientError(f"{values['file']} cannot be read: {e.strerror}") from None


_QUEUE_COMMANDS = {
    command.name: command
    for command in (
        Command(
            "queryCq",
            (
                Option("t", "topic", "topic name", required=True),
                Option("q", "queue", "queue id", required=True),
                Option("i", "index", "offset of the first entry", required=True),
                Option("c", "count", "how many entries", default="10"),
                Option("b", "broker", "address of the broker, host:port"),
                Option("g", "consumer", "group whose subscription is shown"),
            ),
            query_cq,
        ),
        Command(
            "dumpCompactionLog",
            (Option("f", "file", "file of a compaction log"),),
            dump_compaction_log,
            local=True,
        ),
    )
}
COMMANDS = {**_TOPIC_COMMANDS, **_STAT_COMMANDS, **_QUEUE_COMMANDS}
