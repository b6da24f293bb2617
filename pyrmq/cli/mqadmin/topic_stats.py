"""mqadmin's commands that say how busy topics are, and how queues would be shared."""

from __future__ import annotations

import json

from pyrmq.admin.api import Admin
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Column, Output
from pyrmq.errors import ConfigError

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


COMMANDS = {
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
