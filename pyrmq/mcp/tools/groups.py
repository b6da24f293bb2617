"""Tools about consumer groups."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pyrmq.admin.api import Admin
from pyrmq.admin.connections import ConsumerConnections
from pyrmq.admin.consume_stats import is_offline
from pyrmq.admin.moments import time_of
from pyrmq.admin.offset_moves import START
from pyrmq.admin.offsets import END
from pyrmq.admin.running_info import queue_problems, subscriptions_agree
from pyrmq.errors import ClientError, PyrmqError
from pyrmq.mcp.arguments import Argument, Asked
from pyrmq.mcp.shown import page, problems
from pyrmq.mcp.tool import FILTER, GROUP, LIMIT, OF_CLUSTER, OFFSET, TOPIC, ReadTool
from pyrmq.model.names import is_system_group
from pyrmq.net.clock import now_ms

NOBODY = "no member is connected: nobody consumes"
MAX_MEMBERS = 50
"""Members that are asked how they run."""


async def _list(admin: Admin, asked: Asked) -> Any:
    found = await admin.groups.names()
    names = sorted(
        name
        for name in found
        if asked["filter"].lower() in name.lower()
        and (asked["system"] or not is_system_group(name))
    )
    return {**page(names, asked["offset"], asked["limit"]), **problems(found.failed)}


async def _lags(admin: Admin, asked: Asked) -> Any:
    masters = await admin.link.masters(cluster=asked["cluster"], default_all=True)
    found = await admin.link.on_each(masters, admin.brokers.consume_stats)
    lags: dict[tuple[str, str], int] = defaultdict(int)
    oldest: dict[tuple[str, str], int] = {}
    for stats in found.values:
        for row in stats.queues:
            key = row.group, row.progress.queue.topic
            lags[key] += row.progress.diff
            if row.progress.diff and row.progress.last_timestamp > 0:
                at = row.progress.last_timestamp
                oldest[key] = min(oldest.get(key, at), at)
    rows = [
        {"group": group, "topic": topic, "lag": lag, "last_consumed_at": oldest.get((group, topic))}
        for (group, topic), lag in sorted(lags.items(), key=lambda kv: (-kv[1], kv[0]))
        if asked["filter"].lower() in group.lower()
    ]
    return {**page(rows, asked["offset"], asked["limit"]), **problems(found.failed)}


async def lag(admin: Admin, asked: Asked) -> Any:
    stats = await admin.groups.consume_stats(asked["group"], asked.get("topic"))
    return {
        "group": asked["group"],
        "lag": stats.diff,
        "deleted_before_consumed": stats.gone,
        "in_flight": stats.inflight,
        "messages_out_per_second": stats.tps,
        "queues": [
            {
                "topic": q.queue.topic,
                "broker_name": q.queue.broker_name,
                "queue": q.queue.queue_id,
                "next_offset": q.broker_offset,
                "group_offset": q.consumer_offset,
                "lag": q.diff,
                "last_consumed_at": q.last_timestamp or None,
            }
            for q in stats.queues
        ],
        **problems(stats.failed),
    }


async def _connected(admin: Admin, group: str) -> ConsumerConnections | None:
    """Who is connected. None: no member is."""
    try:
        return await admin.groups.connections(group)
    except PyrmqError as e:
        if not is_offline(e):
            raise
        return None


async def _members(admin: Admin, asked: Asked) -> Any:
    found = await _connected(admin, asked["group"])
    if found is None:
        return {"group": asked["group"], "members": [], "note": NOBODY}
    return {
        "group": asked["group"],
        "consume_type": found.consume_type,
        "message_model": found.message_model,
        "consume_from": found.consume_from,
        "members": [
            {
                "client_id": c.client_id,
                "address": c.address,
                "language": c.language,
                "version": c.version_name,
            }
            for c in found.connections
        ],
        "subscriptions": [
            {"topic": s.topic, "expression": s.expression, "type": s.expression_type}
            for s in found.subscriptions
        ],
    }


async def _running(admin: Admin, asked: Asked) -> Any:
    found = await _connected(admin, asked["group"])
    if found is None:
        return {"members": 0, "asked": 0, "problems": [{"problem": NOBODY}]}
    connected = found.connections
    infos, failed = {}, []
    for one in connected[:MAX_MEMBERS]:
        try:
            infos[one.client_id] = await admin.groups.running_info(asked["group"], one.client_id)
        except PyrmqError as e:
            failed.append(ClientError(f"{one.client_id}: {e}"))
    now = now_ms()
    return {
        "members": len(connected),
        "asked": min(len(connected), MAX_MEMBERS),
        "same_subscriptions": subscriptions_agree(infos, now),
        "problems": [
            {"client_id": p.client_id, "queue": p.queue, "problem": p.text}
            for info in infos.values()
            for p in queue_problems(info, now)
        ],
        "queues": [
            {"client_id": info.client_id, "queue": q.queue, "group_offset": q.commit_offset,
             "cached": q.cached, "locked": q.locked}
            for info in infos.values()
            for q in info.queues
        ],
        **problems(failed),
    }  # fmt: skip


async def _config(admin: Admin, asked: Asked) -> Any:
    found = (await admin.groups.configs(asked["group"])).check()
    rows = [at for at in found.values if at is not None]
    if not rows:
        raise ClientError(f"no broker has group {asked['group']}")
    return {"brokers": rows, **problems(found.failed)}


PLACE = Argument(
    "to",
    "`start`, `end`, or a time: 2026-01-31T12:00:00, 30m, 2h or 1d ago, or milliseconds since "
    "1970.",
    required=True,
    longest=64,
)


def place_of(text: str) -> int:
    """A place of PLACE as a time. ConfigError."""
    places = {"start": START, "end": END}
    return places[text] if text in places else time_of(text)


async def _preview(admin: Admin, asked: Asked) -> Any:
    found = await admin.offsets.preview(
        asked["group"], asked["topic"], time_ms=place_of(asked["to"])
    )
    return shown_reset(found)


def shown_reset(found: Any) -> dict[str, Any]:
    """What a reset of offsets does."""
    return {
        "group": found.group,
        "topic": found.topic,
        "skipped_messages": found.skipped,
        "repeated_messages": found.repeated,
        "running_members": found.members,
        "queues": [
            {
                "broker_name": q.queue.broker_name,
                "queue": q.queue.queue_id,
                "from": q.consumer_offset,
                "to": q.offset,
                "next_offset": q.broker_offset,
            }
            for q in found.queues
        ],
        **problems(found.failed),
    }


TOOLS = (
    ReadTool(
        "group_list", "Consumer groups", "Lists the names of consumer groups.",
        _list, (FILTER, Argument("system", "With groups of the system.", "truth", default=False),
                OFFSET, LIMIT),
    ),
    ReadTool(
        "group_lags", "Groups with the most lag",
        "All groups with their topics, those first that have the most messages not consumed.",
        _lags, (FILTER, OF_CLUSTER, OFFSET, LIMIT),
    ),
    ReadTool(
        "group_lag", "Lag of a group",
        "How far a group is in each queue: lag, offsets, the time of what it consumed last.",
        lag, (GROUP, Argument("topic", "Only this topic.")),
    ),
    ReadTool(
        "group_members", "Members of a group",
        "Who is connected as a member of a group, with language and version, and what the group "
        "subscribes to.",
        _members, (GROUP,),
    ),
    ReadTool(
        "group_problems", "What is wrong with a group",
        "Asks the members of a group how they run: queues that are stuck, subscriptions that "
        "differ, who has which queue.",
        _running, (GROUP,),
    ),
    ReadTool(
        "group_config", "Configuration of a group",
        "The configuration of a group on each broker, such as retryMaxTimes.", _config, (GROUP,),
    ),
    ReadTool(
        "offset_reset_preview", "What a reset of offsets would do",
        "Shows what a reset of a group's offsets in a topic would do, queue by queue: how many "
        "messages would be skipped or come again. It changes nothing.",
        _preview, (GROUP, TOPIC, PLACE),
    ),
)  # fmt: skip
