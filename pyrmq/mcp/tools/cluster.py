"""Tools about clusters, brokers and name servers."""

from __future__ import annotations

from typing import Any

from pyrmq.admin.api import Admin
from pyrmq.admin.clusters import ReplicaState
from pyrmq.admin.health import disk_percent, refusal
from pyrmq.admin.runtime_info import Traffic, first_number
from pyrmq.admin.usage import BY, MAX_SECONDS, SORTS
from pyrmq.errors import BrokerMissingError, QueryNotFoundError
from pyrmq.mcp.arguments import Argument, Asked
from pyrmq.mcp.shown import problems
from pyrmq.mcp.tool import BROKER, FILTER, OF_CLUSTER, ReadTool


async def _health(admin: Admin, asked: Asked) -> Any:
    found = await admin.clusters.health(asked["cluster"])
    return {"state": found.state, "problems": found.problems, "servers": found.servers}


async def _list(admin: Admin, asked: Asked) -> Any:
    return [_broker(state) for state in await admin.clusters.list(asked["cluster"])]


def _broker(state: ReplicaState) -> dict[str, Any]:
    replica, runtime = state.replica, state.runtime
    found: dict[str, Any] = {
        "cluster": replica.cluster,
        "broker_name": replica.broker_name,
        "role": "master" if replica.broker_id == 0 else f"slave {replica.broker_id}",
        "address": replica.was or replica.address,
    }
    if state.error is not None:
        missing = isinstance(state.error, BrokerMissingError)
        return {**found, "missing": missing, "error": str(state.error)}
    traffic = Traffic.of(runtime)
    return {
        **found,
        "version": runtime.get("brokerVersionDesc"),
        "messages_in_per_second": first_number(runtime, "putTps"),
        "messages_out_per_second": first_number(runtime, "getTransferredTps"),
        "messages_in_today": traffic.in_today,
        "messages_out_today": traffic.out_today,
        "disk_used_percent": disk_percent(runtime),
        "refuses_messages": refusal(runtime) or None,
    }


async def _status(admin: Admin, asked: Asked) -> Any:
    found = await admin.brokers.runtime_of(asked["broker"])
    return _filtered(found, asked["filter"])


async def _config(admin: Admin, asked: Asked) -> Any:
    found = await admin.brokers.config_of(asked["broker"])
    return _filtered(dict(sorted(found.items())), asked["filter"])


def _filtered(values: dict[str, str], text: str) -> dict[str, str]:
    return {k: v for k, v in values.items() if text.lower() in k.lower()}


async def _ha(admin: Admin, asked: Asked) -> Any:
    found = await admin.brokers.ha(cluster=asked["cluster"])
    masters = {o.name or o.target: o.value for o in found.done}
    return {"masters": masters, **problems(found.failed)}


async def _top(admin: Admin, asked: Asked) -> Any:
    return await admin.usage.top(
        asked["by"], seconds=asked["seconds"], sort=asked["sort"], limit=asked["limit"],
        cluster=asked["cluster"],
    )  # fmt: skip


async def _history(admin: Admin, asked: Asked) -> Any:
    found = await admin.usage.history(seconds=asked["seconds"], broker=asked["broker"])
    return [
        {
            "address": one.replica.address,
            "points": one.outcome.value or [],
            **problems([one.outcome] if one.outcome.error else []),
        }
        for one in found
    ]


async def _disk(admin: Admin, asked: Asked) -> Any:
    found = await admin.usage.disk(
        broker=asked["broker"], topic=asked["topic"], limit=asked["limit"]
    )
    return [one.outcome.value or one.outcome.problem for one in found]


async def _namesrv(admin: Admin, asked: Asked) -> Any:
    found = await admin.namesrv.config()
    return {"name_servers": {o.target: o.value for o in found.done}, **problems(found.failed)}


async def _kv(admin: Admin, asked: Asked) -> Any:
    try:
        return await admin.namesrv.all(asked["namespace"])
    except QueryNotFoundError:
        return {}


_SECONDS = Argument("seconds", "Of the last so many seconds.", "whole", default=60, low=10,
                    high=MAX_SECONDS)  # fmt: skip
_LIMIT = Argument("limit", "Most rows.", "whole", default=20, low=1, high=100)

TOOLS = (
    ReadTool(
        "cluster_health", "Health of the cluster",
        "Says whether the cluster is ok, degraded or down, and why: name servers, masters, slaves, "
        "missing brokers, full disks, refused messages. Call this first.",
        _health, (OF_CLUSTER,),
    ),
    ReadTool(
        "broker_list", "Brokers and their load",
        "Lists masters and slaves with address, version, messages per second and today, and disk. "
        "Other tools take the address as `broker`.",
        _list, (OF_CLUSTER,),
    ),
    ReadTool(
        "broker_status", "Figures of a broker",
        "All figures of one broker by name, such as putTps, bootTimestamp, commitLogMaxOffset.",
        _status, (BROKER, FILTER),
    ),
    ReadTool(
        "broker_config", "Configuration of a broker",
        "The configuration of one broker by key. Secrets are hidden.",
        _config, (BROKER, FILTER),
    ),
    ReadTool(
        "replication_status", "Replication",
        "How far the slaves of each master of a cluster are behind.",
        _ha, (Argument("cluster", "The cluster: see broker_list.", required=True),),
    ),
    ReadTool(
        "broker_top_users", "Who uses the brokers most",
        "Clients, groups or topics that used the brokers most in the last seconds. Only pyrmq's "
        "brokers answer.",
        _top,
        (
            Argument("by", "What is counted.", default="client", choices=tuple(BY)),
            Argument("sort", "What comes first.", default="bytes", choices=tuple(SORTS)),
            _SECONDS, _LIMIT, OF_CLUSTER,
        ),
    ),
    ReadTool(
        "broker_history", "The last hour of a broker",
        "Messages, connections and disk of a broker, a point for each ten seconds. Only pyrmq's "
        "brokers answer.",
        _history,
        (BROKER, Argument("seconds", "Of the last so many seconds.", "whole", default=600, low=10,
                          high=MAX_SECONDS)),
    ),
    ReadTool(
        "broker_disk", "Disk of a broker",
        "What topics take of a broker's log, and what retention frees next. Only pyrmq's brokers "
        "answer.",
        _disk, (BROKER, Argument("topic", "Only this topic, with its queues."), _LIMIT),
    ),
    ReadTool(
        "name_server_config", "Configuration of the name servers",
        "The configuration of each name server by key. Secrets are hidden.", _namesrv,
    ),
    ReadTool(
        "name_server_kv", "KV configuration of the name servers",
        "The values of a namespace of the name servers' KV configuration.",
        _kv,
        (Argument("namespace", "Such as ORDER_TOPIC_CONFIG.", default="ORDER_TOPIC_CONFIG"),),
    ),
)  # fmt: skip
