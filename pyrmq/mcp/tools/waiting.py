"""Tools about messages that wait: dead letters, transactions, timers."""

from __future__ import annotations

from typing import Any

from pyrmq.admin.api import Admin
from pyrmq.admin.dead_letters import Selection
from pyrmq.mcp.arguments import Argument, Asked
from pyrmq.mcp.shown import problems
from pyrmq.mcp.tool import CLUSTER, GROUP, LIMIT, OF_CLUSTER, ReadTool
from pyrmq.mcp.tools.messages import shown_message

MAX_SAMPLE = 16
"""Dead letters of each queue that are read for their topics."""


async def _dead_groups(admin: Admin, asked: Asked) -> Any:
    return [one async for one in admin.dead_letters.groups(asked["group"], sample=MAX_SAMPLE)]


async def _dead_letters(admin: Admin, asked: Asked) -> Any:
    chosen = Selection(asked["begin"], asked["end"], asked["key"], asked["topic"])
    found = await admin.dead_letters.find(asked["group"], chosen, limit=asked["limit"])
    rows = [
        {
            "letter_id": letter.id,
            "from_topic": letter.topic,
            "original_id": letter.origin_id,
            **shown_message(letter.message, asked["body_bytes"]),
        }
        for letter in found
    ]
    return {"dead_letters": rows, **problems(found.failed)}


async def _pending(admin: Admin, asked: Asked) -> Any:
    found = await admin.transactions.pending(limit=asked["limit"], cluster=asked["cluster"])
    rows = [
        {"address": o.target, "broker_name": o.name, "pending": o.value.table.count,
         "oldest": o.value.table.oldest, "transactions": o.value.table.rows()}
        for o in found.done
        if o.value is not None
    ]  # fmt: skip
    return {"brokers": rows, **problems(found.failed)}


async def _timers(admin: Admin, asked: Asked) -> Any:
    found = await admin.timers.figures(cluster=asked["cluster"])
    return [
        {
            "broker": one.replica.label,
            "figures": one.outcome.value,
            **problems([one.outcome] if one.outcome.error else []),
        }
        for one in found
    ]


_LETTERS = Argument("limit", "Most dead letters.", "whole", default=10, low=1, high=64)
_BODY = Argument("body_bytes", "Most bytes of a body.", "whole", default=512, high=16_384)

TOOLS = (
    ReadTool(
        "dead_letter_groups", "Groups with dead letters",
        "Groups that have dead letters: how many, since when, and from which topics.",
        _dead_groups, (Argument("group", "Only this group."),),
    ),
    ReadTool(
        "dead_letter_list", "Dead letters of a group", "The newest dead letters of a group.",
        _dead_letters,
        (
            GROUP, Argument("topic", "They came from this topic."),
            Argument("key", "They have this key."),
            Argument("begin", "They died from this time on.", "time", longest=64),
            Argument("end", "They died before this time.", "time", longest=64), _LETTERS, _BODY,
        ),
    ),
    ReadTool(
        "transaction_pending", "Pending transactions",
        "Transactions that are neither committed nor rolled back, the oldest of each broker.",
        _pending, (OF_CLUSTER, LIMIT),
    ),
    ReadTool(
        "timer_status", "Timer messages",
        "How many timer messages wait, for which topics, and until when.", _timers, (CLUSTER,),
    ),
)  # fmt: skip
