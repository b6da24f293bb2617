"""mqadmin's commands about who is connected."""

from __future__ import annotations

from pyrmq.admin.api import Admin
from pyrmq.cli.mqadmin.options import Command, Option, Values
from pyrmq.cli.mqadmin.output import Column, Output

_CONSUMERS = (
    Column("#ClientId", 36, gap=1), Column("#ClientAddr", 22, gap=1),
    Column("#Language", 10, gap=1), Column("#Version", gap=0),
)  # fmt: skip
_SUBSCRIPTIONS = (Column("#Topic", 20, gap=1), Column("#SubExpression", gap=0))
_PRODUCERS = (
    Column("", 4), Column("", 32, gap=1), Column("", 22, gap=1), Column("", 8, gap=1),
    Column("", gap=0),
)  # fmt: skip


async def consumer_connection(admin: Admin, values: Values, out: Output) -> None:
    found = await admin.groups.connections(values["consumerGroup"], broker=values.get("brokerAddr"))
    out.head(_CONSUMERS)
    for c in found.connections:
        out.row(_CONSUMERS, c.client_id, c.address, c.language, c.version_name)
    out.line()
    out.line("Below is subscription:")
    out.head(_SUBSCRIPTIONS)
    for sub in found.subscriptions:
        out.row(_SUBSCRIPTIONS, sub.topic, sub.expression)
    out.line()
    out.line(f"ConsumeType: {found.consume_type}")
    out.line(f"MessageModel: {found.message_model}")
    out.line(f"ConsumeFromWhere: {found.consume_from}")


async def producer_connection(admin: Admin, values: Values, out: Output) -> None:
    found = await admin.producers.connections(values["producerGroup"], values["topic"])
    for at, c in enumerate(found, 1):
        out.row(_PRODUCERS, f"{at:04d}", c.client_id, c.address, c.language, c.version_name)


async def producer(admin: Admin, values: Values, out: Output) -> None:
    for group, instances in (await admin.producers.all(values["broker"])).items():
        if not instances:
            out.line(f"producer group ({group}) instances are empty")
        for p in instances:
            out.line(
                f"producer group ({group}) instance : clientId={p.client_id},"
                f"remoteIP={p.remote_ip}, language={p.language}, version={p.version}, "
                f"lastUpdateTimestamp={p.last_update}"
            )


COMMANDS = {
    command.name: command
    for command in (
        Command(
            "consumerConnection",
            (
                Option("g", "consumerGroup", "consumer group name", required=True),
                Option("b", "brokerAddr", "address of the broker that is asked, host:port"),
            ),
            consumer_connection,
        ),
        Command(
            "producerConnection",
            (
                Option("g", "producerGroup", "producer group name", required=True),
                Option("t", "topic", "topic name", required=True),
            ),
            producer_connection,
        ),
        Command(
            "producer",
            (Option("b", "broker", "address of the broker, host:port", required=True),),
            producer,
        ),
    )
}
