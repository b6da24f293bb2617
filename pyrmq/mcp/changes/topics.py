"""Changes of topics and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrmq.admin.api import Admin
from pyrmq.admin.consume_stats import is_offline
from pyrmq.admin.shrinking import Hidden
from pyrmq.errors import ClientError, PyrmqError, TopicNotExistError
from pyrmq.mcp.arguments import Argument, Asked
from pyrmq.mcp.shown import problems
from pyrmq.mcp.tool import CLUSTER, GROUP, TOPIC, ChangeTool, Prepared
from pyrmq.mcp.tools.groups import PLACE, place_of, shown_reset
from pyrmq.model.names import check_consumer_group, check_topic

_QUEUES = 65_535


async def _topic(admin: Admin, asked: Asked) -> Prepared:
    topic, cluster = asked["topic"], asked["cluster"]
    check_topic(topic)
    fields = {
        name: asked[name]
        for name in ("read_queue_nums", "write_queue_nums", "perm", "order")
        if asked[name] is not None
    }
    if (queues := asked["queues"]) is not None:
        fields = {"read_queue_nums": queues, "write_queue_nums": queues, **fields}
    masters = await admin.link.masters(cluster=cluster)
    hidden: Sequence[list[Hidden]] = []
    if "read_queue_nums" in fields:
        found = await admin.topics.hidden(topic, fields["read_queue_nums"], cluster=cluster)
        hidden = found.check().values
    lost = [one for part in hidden for one in part]
    there = topic in await admin.link.topics()
    verb = "Change" if there else "Create"
    what = ", ".join(f"{k}={v}" for k, v in fields.items()) or "the defaults"
    return Prepared(
        f"{verb} topic {topic} in cluster {cluster} ({what})",
        {
            "masters": [m.label for m in masters],
            "exists": there,
            "would_not_be_read_any_more": [one.text for one in lost],
        },
        lambda: admin.topics.change(topic, cluster=cluster, force=bool(lost), **fields),
    )


async def _delete_topic(admin: Admin, asked: Asked) -> Prepared:
    topic, cluster = asked["topic"], asked["cluster"]
    check_topic(topic)
    found = await admin.topics.deletion(topic, cluster)
    if not found.has:
        raise ClientError(f"no master of cluster {cluster} has topic {topic}")
    status = await admin.topics.status(topic)
    groups = await admin.topics.groups(topic)
    return Prepared(
        f"Delete topic {topic} and its messages from cluster {cluster}",
        {
            "brokers": [r.label for r in found.has],
            "messages": sum(q.end - q.first for q in status.queues),
            "groups_that_consume_it": sorted(groups),
            **problems([*status.failed, *groups.failed]),
        },
        lambda: admin.topics.delete(topic, cluster),
    )


_GROUP_FIELDS = ("consume_enable", "consume_message_orderly", "retry_max_times", "retry_queue_nums")


async def _group(admin: Admin, asked: Asked) -> Prepared:
    group, cluster = asked["group"], asked["cluster"]
    check_consumer_group(group)
    fields = {name: asked[name] for name in _GROUP_FIELDS if asked[name] is not None}
    found = await admin.groups.configs(group)
    known = [at for at in found.check().values if at is not None and at.cluster == cluster]
    what = ", ".join(f"{k}={v}" for k, v in fields.items()) or "the defaults"
    return Prepared(
        f"{'Change' if known else 'Create'} group {group} in cluster {cluster} ({what})",
        {"now": known, **problems(found.failed)},
        lambda: admin.groups.change(group, fields, cluster=cluster),
    )


async def _delete_group(admin: Admin, asked: Asked) -> Prepared:
    group, cluster, offsets = asked["group"], asked["cluster"], asked["remove_offsets"]
    found = await admin.groups.configs(group)
    known = [at for at in found.check().values if at is not None and at.cluster == cluster]
    if not known:
        raise ClientError(f"no master of cluster {cluster} has group {group}")
    return Prepared(
        f"Delete group {group} from cluster {cluster}{' with its offsets' if offsets else ''}",
        {
            "brokers": [at.broker_name for at in known],
            "running_members": await _members(admin, group),
        },
        lambda: admin.groups.delete(group, remove_offsets=offsets, cluster=cluster),
    )


async def _members(admin: Admin, group: str) -> Any:
    try:
        return [c.client_id for c in (await admin.groups.connections(group)).connections]
    except PyrmqError as e:
        return [] if is_offline(e) or isinstance(e, TopicNotExistError) else str(e)


async def _reset(admin: Admin, asked: Asked) -> Prepared:
    plan = await admin.offsets.preview(
        asked["group"], asked["topic"], time_ms=place_of(asked["to"])
    )

    async def move() -> Any:
        return await admin.offsets.move(plan)

    return Prepared(
        f"Move the offsets of group {plan.group} in topic {plan.topic} to {asked['to']}: "
        f"{plan.skipped} messages are skipped, {plan.repeated} come again",
        shown_reset(plan),
        move,
    )


CHANGES = (
    ChangeTool(
        "topic_create_or_change", "Create or change a topic",
        "Creates a topic on all masters of a cluster (default: 8 queues, perm 6), or changes only "
        "what is given. Messages in queues that are taken away are not read any more: the plan "
        "says which.",
        _topic,
        (
            TOPIC, CLUSTER,
            Argument("queues", "Queues to read and to write.", "whole", low=1, high=_QUEUES),
            Argument("read_queue_nums", "Queues to read.", "whole", high=_QUEUES),
            Argument("write_queue_nums", "Queues to write.", "whole", high=_QUEUES),
            Argument("perm", "2 write, 4 read, 6 both, 0 neither.", "whole", high=7),
            Argument("order", "Whether the topic is ordered.", "truth"),
        ),
        destructive=True,
    ),
    ChangeTool(
        "topic_delete", "Delete a topic", "Deletes a topic and its messages from a cluster.",
        _delete_topic, (TOPIC, CLUSTER), destructive=True,
    ),
    ChangeTool(
        "group_create_or_change", "Create or change a group",
        "Creates a consumer group on all masters of a cluster, or changes only what is given.",
        _group,
        (
            GROUP, CLUSTER,
            Argument("consume_enable", "Whether the group may consume.", "truth"),
            Argument("consume_message_orderly", "Whether it consumes orderly.", "truth"),
            Argument("retry_max_times", "Retries until a message is a dead letter.", "whole",
                     high=10_000),
            Argument("retry_queue_nums", "Queues of its retry topic.", "whole", high=_QUEUES),
        ),
    ),
    ChangeTool(
        "group_delete", "Delete a group",
        "Deletes a consumer group from a cluster; its retry and dead-letter topics stay.",
        _delete_group,
        (GROUP, CLUSTER, Argument("remove_offsets", "Also its offsets.", "truth", default=False)),
        destructive=True,
    ),
    ChangeTool(
        "offset_reset", "Reset the offsets of a group",
        "Moves the offsets of a group in a topic to a time, the start or the end. Messages are "
        "skipped or come again: the plan says how many.",
        _reset, (GROUP, TOPIC, PLACE), destructive=True,
    ),
)  # fmt: skip
