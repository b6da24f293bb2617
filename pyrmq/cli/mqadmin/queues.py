"""mqadmin's commands that show what stands in files: entries of queues, compaction logs."""

from __future__ import annotations

import json

from pyrmq.admin.api import Admin
from pyrmq.admin.compaction_dump import messages_of
from pyrmq.admin.queue_index import QueueEntry
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Output
from pyrmq.cli.mqadmin.text import message_text
from pyrmq.errors import ClientError

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


COMMANDS = {
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
