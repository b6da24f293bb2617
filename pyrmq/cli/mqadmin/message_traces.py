"""mqadmin's command about the trace of a message."""

from __future__ import annotations

from itertools import groupby

from pyrmq.admin.api import Admin
from pyrmq.admin.traces import Trace
from pyrmq.cli.mqadmin.options import Command, Option, Values
from pyrmq.cli.mqadmin.output import Column, Output
from pyrmq.cli.mqadmin.text import seconds_text
from pyrmq.model.names import TRACE_TOPIC


def _columns(group: str, time: str) -> tuple[Column, ...]:
    heads = (("#Type", 10), (group, 20), ("#ClientHost", 20), (time, 20), ("#CostTimes", 10))
    return (*(Column(head, width, gap=1) for head, width in heads), Column("#Status", 10, gap=0))


_SENT = _columns("#ProducerGroup", "#SendTime")
_CONSUMED = _columns("#ConsumerGroup", "#ConsumerTime")


def _row(columns: tuple[Column, ...], trace: Trace, out: Output) -> None:
    status = "success" if trace.success else "failed"
    when, cost = seconds_text(trace.time), f"{trace.cost_ms}ms"
    kind = "Pub" if trace.kind == "Pub" else "Sub"
    out.row(columns, kind, trace.group, trace.client_host, when, cost, status)


async def show(admin: Admin, values: Values, out: Output) -> None:
    found = await admin.messages.traces(
        values["msgId"],
        topic=values["traceTopic"],
        begin=values.number("beginTimestamp"),
        end=values.number_or("endTimestamp", 2**63 - 1),
        limit=values.number("maxNum", 1, 10_000),
    )
    for trace in found:
        if trace.kind == "Pub":
            out.head(_SENT)
            _row(_SENT, trace, out)
            out.line()
    consumed = sorted((t for t in found if t.kind != "Pub"), key=lambda t: t.group)
    for _, rows in groupby(consumed, key=lambda t: t.group):
        out.head(_CONSUMED)
        for trace in rows:
            _row(_CONSUMED, trace, out)
        out.line()
    out.missing(found.failed)


COMMANDS = {
    "queryMsgTraceById": Command(
        "queryMsgTraceById",
        (
            Option("i", "msgId", "unique id of the message", required=True),
            Option("t", "traceTopic", "topic of traces", default=TRACE_TOPIC),
            Option("b", "beginTimestamp", "written from this time on, ms", default="0"),
            Option("e", "endTimestamp", "written up to this time, ms"),
            Option("c", "maxNum", "most messages of the trace topic", default="64"),
        ),
        show,
    )
}
