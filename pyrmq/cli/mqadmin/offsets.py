"""mqadmin's commands about the offsets of consumer groups."""

from __future__ import annotations

from pyrmq.admin.api import Admin
from pyrmq.admin.consume_stats import stands_for_route
from pyrmq.admin.offsets import END, BrokerReset
from pyrmq.admin.outcome import Outcomes
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Column, Output
from pyrmq.cli.mqadmin.text import time_value

_RESET = (Column("#brokerName", 40, cut=32), Column("#queueId", 40), Column("#offset", 40, gap=0))
_STATUS = (
    Column("#clientId", 50, cut=50), Column("#brokerName", 15), Column("#queueId", 15),
    Column("#offset", 20, gap=0),
)  # fmt: skip


def _by_client(last: str) -> tuple[Column, ...]:
    return (
        Column("#brokerName", 20, cut=32), Column("#queueId", 20), Column("#brokerOffset", 20),
        Column("#consumerOffset", 20), Column("#timestampOffset", 20), Column(last, 20, gap=0),
    )  # fmt: skip


async def reset_offset_by_time(admin: Admin, values: Values, out: Output) -> None:
    group, topic, said = values["group"], values["topic"], values["timestamp"]
    force = values.truth("force")
    time_ms = time_value("timestamp", said)
    note_cluster(values, topic, out)
    moment = f"timestamp(string)[{said}], timestamp(long)[{time_ms}]"
    if values.has("queue") or values.has("offset"):
        await _reset_queue(admin, values, out, group, topic, time_ms, moment)
        return
    if values.has("broker"):
        raise UsageError("--broker is for one queue: give --queue as well")
    outcomes = await admin.offsets.reset(
        group, topic, time_ms, force=force, cluster=values.get("cluster")
    )
    shown = f"topic[{topic}], force[{_text(force)}], {moment}"
    if any(not r.by_client for r in outcomes.values):
        out.line(f"start reset consumer offset by specified, group[{group}], {shown}")
    if any(r.by_client for r in outcomes.values):
        out.line(f"reset consumer offset by specified consumerGroup[{group}], {shown}")
    _show(outcomes, out, "#resetOffset")


async def _reset_queue(
    admin: Admin, values: Values, out: Output, group: str, topic: str, time_ms: int, moment: str
) -> None:
    broker, queue = values.get("broker"), values.number_or("queue", -1)
    if not broker or queue < 0:
        raise UsageError("one queue is --broker and --queue; --offset goes with both")
    out.line(
        f"start reset consumer offset by specified, group[{group}], topic[{topic}], "
        f"queueId[{queue}], broker[{broker}], {moment}"
    )
    offset = values.number_or("offset", -1)
    if offset < 0:
        offset = await admin.offsets.target_of_queue(broker, topic, queue, time_ms=time_ms)
    await admin.offsets.reset_queue(broker, group, topic, queue, offset)
    out.line(f"reset consumer offset to {offset}")


async def skip_accumulated_message(admin: Admin, values: Values, out: Output) -> None:
    note_cluster(values, values["topic"], out)
    outcomes = await admin.offsets.reset(
        values["group"],
        values["topic"],
        END,
        force=values.truth("force"),
        cluster=values.get("cluster"),
    )
    _show(outcomes, out, "#rollbackOffset")


async def reset_offset_by_time_old(admin: Admin, values: Values, out: Output) -> None:
    """By the client: each queue is searched and set, whatever the broker could do itself."""
    if values["timestamp"].lower() == "now":
        raise UsageError("--timestamp takes a time here, not now: see resetOffsetByTime")
    time_ms = time_value("timestamp", values["timestamp"])
    note_cluster(values, values["topic"], out)
    outcomes = await admin.offsets.reset_by_client(
        values["group"], values["topic"], time_ms,
        force=values.truth("force"), cluster=values.get("cluster"),
    )  # fmt: skip
    out.line(
        f"reset consumer offset by specified consumerGroup[{values['group']}], "
        f"topic[{values['topic']}], force[{_text(values.truth('force'))}], "
        f"timestamp(string)[{values['timestamp']}], timestamp(long)[{time_ms}]"
    )
    _show(outcomes, out, "#resetOffset")


def _show(outcomes: Outcomes[BrokerReset], out: Output, last: str) -> None:
    for outcome in outcomes.failed:
        assert outcome.error is not None
        out.failed(outcome.error, outcome.target)
    done = outcomes.values
    for _ in done:
        out.succeeded()
    moved = [q for r in done if not r.by_client for q in r.queues]
    if any(not r.by_client for r in done):
        out.head(_RESET)
        for q in moved:
            out.row(_RESET, q.queue.broker_name, q.queue.queue_id, q.offset)
    if any(r.by_client for r in done):
        columns = _by_client(last)
        out.head(columns)
        for q in [q for r in done if r.by_client for q in r.queues]:
            out.row(
                columns, q.queue.broker_name, q.queue.queue_id, q.broker_offset,
                q.consumer_offset, q.found, q.offset,
            )  # fmt: skip


async def clone_group_offset(admin: Admin, values: Values, out: Output) -> None:
    source, dest, topic = values["srcGroup"], values["destGroup"], values["topic"]
    if values.has("offline"):
        out.note("--offline changes nothing: offsets are cloned wherever members are")
    done = await admin.offsets.clone(source, dest, topic)
    out.line(f"clone group offset success. srcGroup[{source}], destGroup=[{dest}], topic[{topic}]")
    out.note(f"{len(done)} queues were cloned")


async def get_consumer_status(admin: Admin, values: Values, out: Output) -> None:
    group, topic, client = values["group"], values["topic"], values["originClientId"]
    rows = await admin.offsets.of_clients(group, topic, client)
    out.line(
        f"get consumer status from client. group={group}, topic={topic}, originClientId={client}"
    )
    out.head(_STATUS)
    for row in rows:
        out.row(_STATUS, row.client_id, row.queue.broker_name, row.queue.queue_id, row.offset)


def note_cluster(values: Values, topic: str | None, out: Output) -> None:
    """Says so where --cluster changes nothing."""
    if values.has("cluster") and not (topic and stands_for_route(topic)):
        out.note("--cluster changes nothing here: it names the parent of a %LMQ% topic")


def _text(flag: bool) -> str:
    return "true" if flag else "false"


_GROUP = Option("g", "group", "consumer group", required=True)
_TOPIC = Option("t", "topic", "topic", required=True)
_FORCE = Option(
    "f",
    "force",
    "true: also forward; brokers that move offsets themselves do anyway",
    default="true",
)
_CLUSTER = Option("c", "cluster", "topic whose route is used for a %LMQ% topic")

COMMANDS = {
    command.name: command
    for command in (
        Command(
            "resetOffsetByTime",
            (
                _GROUP,
                _TOPIC,
                Option(
                    "s",
                    "timestamp",
                    "now, milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS",
                    required=True,
                ),
                _FORCE,
                Option("b", "broker", "address of the broker of one queue, host:port"),
                Option("q", "queue", "number of one queue"),
                Option("o", "offset", "offset of that queue instead of the time's"),
                _CLUSTER,
            ),
            reset_offset_by_time,
        ),
        Command(
            "resetOffsetByTimeOld",
            (
                _GROUP,
                _TOPIC,
                Option(
                    "s",
                    "timestamp",
                    "milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS",
                    required=True,
                ),
                _FORCE,
                _CLUSTER,
            ),
            reset_offset_by_time_old,
        ),
        Command(
            "skipAccumulatedMessage",
            (_GROUP, _TOPIC, _FORCE, _CLUSTER),
            skip_accumulated_message,
        ),
        Command(
            "cloneGroupOffset",
            (
                Option("s", "srcGroup", "group whose offsets are taken", required=True),
                Option("d", "destGroup", "group that gets them", required=True),
                _TOPIC,
                Option("o", "offline", "changes nothing, as in the original"),
            ),
            clone_group_offset,
        ),
        Command(
            "getConsumerStatus",
            (
                _GROUP,
                _TOPIC,
                Option("i", "originClientId", "only this client id", default=""),
            ),
            get_consumer_status,
        ),
    )
}
