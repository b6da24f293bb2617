"""mqadmin's commands about topics."""

from __future__ import annotations

from pyrmq.admin.api import Admin
from pyrmq.cli.mqadmin.options import Command, Option, Values
from pyrmq.cli.mqadmin.output import Column, Output

_LIST = (Column("#Cluster Name", 20, cut=20), Column("#Topic", 48, cut=64, cells=64),
         Column("#Consumer Group", 48, cut=64, cells=64, gap=0))  # fmt: skip


async def topic_list(admin: Admin, values: Values, out: Output) -> None:
    if not values.has("clusterModel"):
        for topic in await admin.topics.list():
            out.line(topic)
        return
    out.head(_LIST)
    async for row in admin.topics.with_groups():
        for group in row.groups or [""]:
            out.row(_LIST, row.cluster, row.topic, group)


COMMANDS = {
    command.name: command
    for command in (
        Command(
            "topicList",
            (Option("c", "clusterModel", "clusterModel", flag=True),),
            topic_list,
        ),
    )
}
