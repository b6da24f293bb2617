"""mqadmin's commands about topics."""

from __future__ import annotations

import json
from typing import Any

from pyrmq.admin.api import Admin
from pyrmq.cli.mqadmin.options import Command, Option, Values
from pyrmq.cli.mqadmin.output import Column, Output
from pyrmq.cli.mqadmin.text import millis_text
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
COMMANDS = {
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
