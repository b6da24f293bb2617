"""mqadmin's commands about how far consumer groups are, and how their members run."""

from __future__ import annotations

import re
import time
from pathlib import Path

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.connections import ConsumerConnections
from pyrmq.admin.consume_stats import GroupSummary
from pyrmq.admin.running_info import RunningInfo, queue_problems, subscriptions_agree
from pyrmq.cli.mqadmin.groups import running_text
from pyrmq.cli.mqadmin.offsets import note_cluster
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Column, Output
from pyrmq.cli.mqadmin.text import queue_text, seconds_text
from pyrmq.errors import ConnectError, PyrmqError
from pyrmq.escape import escape
from pyrmq.model.codes import version_name

_QUEUE = (
    Column("#Topic", 64, cut=64), Column("#Broker Name", 32, cut=32), Column("#QID", 4),
    Column("#Broker Offset", 20), Column("#Consumer Offset", 20),
)  # fmt: skip
_CLIENT = (Column("#Client IP", 20, gap=1),)
_DIFF = (Column("#Diff", 20, gap=1), Column("#Inflight", 20, gap=1), Column("#LastTime", gap=0))
_GROUPS = (
    Column("#Group", 64, cut=64), Column("#Count", 6), Column("#Version", 24, gap=1),
    Column("#Type", 5), Column("#Model", 14), Column("#TPS", 7), Column("#Diff Total", gap=0),
)  # fmt: skip
_RUNNING = (
    Column("#Index", 10, gap=1), Column("#ClientId", 40, gap=1), Column("#Version", 20, gap=1),
    Column("#ConsumerRunningInfoFile", gap=0),
)  # fmt: skip


async def consumer_progress(admin: Admin, values: Values, out: Output) -> None:
    group = values.get("groupName")
    note_cluster(values, values.get("topicName"), out)
    if not group:
        if values.has("topicName"):
            raise UsageError("--topicName needs --groupName")
        out.head(_GROUPS)
        async for summary in admin.groups.summaries():
            _summary(summary, out)
        return
    cluster = values.get("cluster")
    stats = await admin.groups.consume_stats(group, values.get("topicName"), cluster=cluster)
    owners = None
    if values.truth("showClientIP"):
        owners = await admin.groups.queue_owners(group)
    columns = (*_QUEUE, *(_CLIENT if owners is not None else ()), *_DIFF)
    # The original's heading has no blank before its last column.
    out.head((*columns[:-2], Column("#Inflight", 20, gap=0), columns[-1]))
    for q in stats.queues:
        cells: list[object] = [
            q.queue.topic, q.queue.broker_name, q.queue.queue_id, q.broker_offset,
            q.consumer_offset,
        ]  # fmt: skip
        if owners is not None:
            owner = owners.get(q.queue)
            cells.append(owner.partition("@")[0] if owner else "N/A")
        last = seconds_text(q.last_timestamp) if q.last_timestamp > 0 else "N/A"
        out.row(columns, *cells, q.diff, q.inflight, last)
    out.line()
    out.line(f"Consume TPS: {stats.tps:.2f}")
    out.line(f"Consume Diff Total: {stats.diff}")
    out.line(f"Consume Inflight Total: {stats.inflight}")
    out.succeeded()
    for failed in stats.failed:
        assert failed.error is not None
        out.failed(failed.error, failed.target)


def _summary(summary: GroupSummary, out: Output) -> None:
    online, stats = summary.online, summary.stats
    version = version_name(online.lowest_version) if online else "OFFLINE"
    kind = model = ""
    if online:
        kind = "PUSH" if online.is_push else "PULL"
        model = online.message_model if online.is_push else ""
    out.row(
        _GROUPS, summary.group, len(online.connections) if online else 0, version, kind, model,
        int(stats.tps) if stats else 0, stats.diff if stats else 0,
    )  # fmt: skip
    if stats or online:
        out.succeeded()
    for error in summary.failed:
        out.failed(error, summary.group)


async def consumer(admin: Admin, values: Values, out: Output) -> None:
    """As consumerStatus, for all members. [the older ConsumerSubCommand]"""
    await _status_of_all(admin, values["consumerGroup"], values.has("jstack"), None, out)


async def consumer_status(admin: Admin, values: Values, out: Output) -> None:
    group, broker = values["consumerGroup"], values.get("brokerAddr")
    stacks, client = values.has("jstack"), values.get("clientId")
    if client:
        info = await admin.groups.running_info(group, client, stacks=stacks, broker=broker)
        for line in running_text(info):
            out.line(line)
        return
    await _status_of_all(admin, group, stacks, broker, out)


async def _status_of_all(
    admin: Admin, group: str, stacks: bool, broker: str | None, out: Output
) -> None:
    online = await admin.groups.connections(group, broker=broker)
    infos = await _write_each(admin, online, stacks, broker, out)
    if not infos:
        return
    now = time.time_ns() // 1_000_000
    out.line()
    if not subscriptions_agree(infos, now):
        out.line("WARN: Different subscription in the same group of consumer!!!")
        return
    out.line("Same subscription in the same group of consumer")
    out.line()
    out.line("Rebalance OK")
    for client_id in sorted(infos):
        for problem in queue_problems(infos[client_id], now):
            out.line(f"{problem.client_id} {queue_text(problem.queue)} {problem.text}")


async def _write_each(
    admin: Admin, online: ConsumerConnections, stacks: bool, broker: str | None, out: Output
) -> dict[str, RunningInfo]:
    """Writes what each member says about itself into a file of its own."""
    folder = Path(str(time.time_ns() // 1_000_000))
    infos: dict[str, RunningInfo] = {}
    out.head(_RUNNING)
    for member in online.connections:
        try:
            info = await admin.groups.running_info(
                online.group, member.client_id, stacks=stacks, broker=broker
            )
            path = folder / file_name(member.client_id, len(infos) + 1)
            lines = [escape(line) for line in running_text(info)]
            await trio.to_thread.run_sync(_write, path, "\n".join(lines) + "\n")
        except (PyrmqError, OSError) as e:
            error = e if isinstance(e, PyrmqError) else ConnectError(f"{e.filename}: {e.strerror}")
            out.failed(error, member.client_id)
            continue
        infos[member.client_id] = info
        out.succeeded()
        out.row(_RUNNING, len(infos), member.client_id, member.version_name, path)
    return infos


def file_name(client_id: str, number: int) -> str:
    """A client's id as the name of a file: others than letters, digits and `._@#-` become `_`, and
    `number` tells ids apart that were changed."""
    safe = re.sub(r"[^A-Za-z0-9._@#-]", "_", client_id)[:200].lstrip(".")
    return safe if safe == client_id else f"{safe or 'client'}_{number}"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


_CLUSTER = Option("c", "cluster", "topic whose route is used for a %LMQ% topic")

COMMANDS = {
    command.name: command
    for command in (
        Command(
            "consumerProgress",
            (
                Option("g", "groupName", "consumer group name"),
                Option("t", "topicName", "topic name"),
                Option("s", "showClientIP", "true: with the client of each queue", default="false"),
                _CLUSTER,
            ),
            consumer_progress,
        ),
        Command(
            "consumerStatus",
            (
                Option("g", "consumerGroup", "consumer group name", required=True),
                Option("i", "clientId", "only this client, shown here"),
                Option("b", "brokerAddr", "address of the broker that is asked, host:port"),
                Option("s", "jstack", "with the stacks of its threads", flag=True),
            ),
            consumer_status,
        ),
        Command(
            "consumer",
            (
                Option("g", "consumerGroup", "consumer group name", required=True),
                Option("s", "jstack", "with the stacks of its threads", flag=True),
            ),
            consumer,
        ),
    )
}
