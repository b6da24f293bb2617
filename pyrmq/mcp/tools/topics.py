"""Tools about topics."""

from __future__ import annotations

from typing import Any

from pyrmq.admin.api import Admin
from pyrmq.mcp.arguments import Argument, Asked
from pyrmq.mcp.shown import page, problems
from pyrmq.mcp.tool import FILTER, LIMIT, OFFSET, TOPIC, ReadTool
from pyrmq.model.names import DLQ_PREFIX, RETRY_PREFIX


async def _list(admin: Admin, asked: Asked) -> Any:
    names = await admin.topics.list()
    if not asked["system"]:
        hidden = await admin.topics.system()
        prefixes = (RETRY_PREFIX, DLQ_PREFIX)
        names = [n for n in names if n not in hidden and not n.startswith(prefixes)]
    found = [name for name in names if asked["filter"].lower() in name.lower()]
    return page(found, asked["offset"], asked["limit"])


async def status(admin: Admin, asked: Asked) -> Any:
    found = await admin.topics.status(asked["topic"])
    rows = [
        {
            "broker_name": state.queue.broker_name,
            "queue": state.queue.queue_id,
            "first_offset": state.first,
            "next_offset": state.end,
            "messages": state.end - state.first,
            "last_message_at": state.updated or None,
        }
        for state in found.queues
    ]
    return {
        "topic": asked["topic"],
        "messages": sum(s.end - s.first for s in found.queues),
        "messages_in_per_second": found.put_tps,
        "queues": rows,
        **problems(found.failed),
    }


async def _route(admin: Admin, asked: Asked) -> Any:
    found = await admin.topics.route(asked["topic"])
    return {
        "topic": asked["topic"],
        "brokers": [
            {"cluster": b.cluster, "broker_name": b.broker_name, "addresses": b.broker_addrs}
            for b in found.brokers
        ],
        "queues": found.queues,
        "order_configuration": found.order_conf or None,
    }


async def _groups(admin: Admin, asked: Asked) -> Any:
    found = await admin.topics.groups(asked["topic"])
    return {**page(sorted(found), asked["offset"], asked["limit"]), **problems(found.failed)}


async def _flows(admin: Admin, asked: Asked) -> Any:
    return [flow async for flow in admin.topics.flows(asked["topic"])]


async def _producers(admin: Admin, asked: Asked) -> Any:
    return await admin.producers.connections(asked["group"], asked["topic"])


TOOLS = (
    ReadTool(
        "topic_list", "Topics",
        "Lists the names of topics. Topics of the system, of retries and of dead letters are left "
        "out unless `system` is true.",
        _list, (FILTER, Argument("system", "With system topics.", "truth", default=False), OFFSET,
                LIMIT),
    ),
    ReadTool(
        "topic_status", "Queues of a topic",
        "The queues of a topic: first and next offset, messages, time of the last message.",
        status, (TOPIC,),
    ),
    ReadTool(
        "topic_route", "Route of a topic",
        "Which brokers have a topic, at which addresses, with how many queues and which permission "
        "(perm: 2 write, 4 read, 6 both).",
        _route, (TOPIC,),
    ),
    ReadTool(
        "topic_groups", "Groups of a topic", "Lists the consumer groups of a topic.",
        _groups, (TOPIC, OFFSET, LIMIT),
    ),
    ReadTool(
        "topic_flow", "Traffic of a topic",
        "How many messages a topic takes per second and today, and how many each of its groups "
        "consumes and has not consumed (accumulation).",
        _flows, (TOPIC,),
    ),
    ReadTool(
        "producer_connections", "Producers of a topic",
        "The connected producers of a producer group that send to a topic.",
        _producers, (Argument("group", "The producer group.", required=True), TOPIC),
    ),
)  # fmt: skip
