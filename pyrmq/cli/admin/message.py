"""`pyrmq admin message …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.message_files import dump, queue_index
from pyrmq.cli.admin.message_life import life
from pyrmq.cli.admin.session import Session, printing, session
from pyrmq.cli.admin.view import FORMS, time_of

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.outcome import Partial
    from pyrmq.cli.admin.view import View
    from pyrmq.model.record import ReceivedMessage

_topic = click.option("-t", "--topic", required=True, help="The topic.")
_cluster = click.option("-c", "--cluster", help="Brokers of this cluster only.")
_limit = click.option(
    "--limit", type=click.IntRange(1, 10_000), default=64, show_default=True, help="Most messages."
)


@click.group(cls=Group)
def message() -> None:
    """Messages: find, print, send, and their whole life."""


def _data(found: ReceivedMessage) -> dict[str, Any]:
    """A message as JSON and YAML have it, with its body."""
    from pyrmq.admin.message_data import message_data

    return {**message_data(found), "body": found.raw_body}


async def _one(admin: Admin, found: ReceivedMessage) -> View:
    """A message, and what groups have made of it."""
    from pyrmq.cli.admin.view import fields, moment, plain
    from pyrmq.errors import PyrmqError

    shown = _data(found)
    rows = {
        **shown,
        "keys": " ".join(found.keys),
        "bornTimestamp": moment(found.born_timestamp),
        "storeTimestamp": moment(found.store_timestamp),
        "properties": ", ".join(f"{k}={v}" for k, v in found.properties.items()),
        "body": plain(found.raw_body),
    }
    view = fields(rows)
    try:
        tracks = await admin.messages.tracks(found)
    except PyrmqError as e:
        view.data = {**shown, "tracks": None}
        view.failed = [f"who consumed it is not known: {e}"]
        return view
    view.data = {
        **shown,
        "tracks": [{"group": t.group, "type": t.type.value, "error": t.error} for t in tracks],
    }
    view.notes = [
        f"group {t.group}: {t.type.value}{f' ({t.error})' if t.error else ''}" for t in tracks
    ] or ["no group consumes this topic"]
    view.failed = [o.problem for o in tracks.failed]
    return view


def _many(found: Partial[ReceivedMessage]) -> View:
    from pyrmq.cli.admin.view import Column, View, moment

    return View(
        [_data(m) for m in found],
        found,
        (
            Column("ID", "msg_id"),
            Column("BROKER", "broker_name"),
            Column("QUEUE", "queue_id", right=True),
            Column("OFFSET", "queue_offset", right=True),
            Column("STORED", lambda m: moment(m.store_timestamp)),
            Column("TAG", "tags"),
            Column("KEYS", lambda m: " ".join(m.keys)),
            Column("BYTES", lambda m: len(m.raw_body), right=True),
        ),
        empty="no messages",
        failed=[o.problem for o in found.failed],
    )


@message.command()
@session()
@_topic
@click.argument("message_id", metavar="ID")
def get(session: Session, topic: str, message_id: str) -> None:
    """Show the message with an offset id, or with a unique id of the last three days, and what
    groups have made of it."""

    async def work(admin: Admin) -> View:
        return await _one(admin, await admin.messages.get(topic, message_id))

    session.report(work)


@message.command("by-key")
@session()
@_topic
@_cluster
@_limit
@click.option("--begin", metavar="TIME", help=f"Stored from this time on: {FORMS}.")
@click.option("--end", metavar="TIME", help="Stored before this time.")
@click.argument("key")
def by_key(
    session: Session,
    topic: str,
    cluster: str | None,
    limit: int,
    begin: str | None,
    end: str | None,
    key: str,
) -> None:
    """List messages that were sent with a key."""
    first, last = time_of("--begin", begin), time_of("--end", end)

    async def work(admin: Admin) -> View:
        found = await admin.messages.by_key(
            topic,
            key,
            begin=first or 0,
            end=2**63 - 1 if last is None else last,
            limit=limit,
            cluster=cluster,
        )
        del found[limit:]
        return _many(found)

    session.report(work)


@message.command("by-unique-key")
@session()
@_topic
@_cluster
@click.argument("message_id", metavar="ID")
def by_unique_key(session: Session, topic: str, cluster: str | None, message_id: str) -> None:
    """List the messages with a unique id: more than one if it was sent again."""

    async def work(admin: Admin) -> View:
        return _many(await admin.messages.by_unique_key(topic, message_id, cluster=cluster))

    session.report(work)


@message.command("by-offset")
@session()
@_topic
@click.option("--broker-name", required=True)
@click.option("--queue", type=click.IntRange(0, 65_535), required=True)
@click.argument("offset", type=click.IntRange(0))
def by_offset(session: Session, topic: str, broker_name: str, queue: int, offset: int) -> None:
    """Show the message at an offset of a queue."""

    async def work(admin: Admin) -> View:
        from pyrmq.model.message import MessageQueue

        at = MessageQueue(topic, broker_name, queue)
        return await _one(admin, await admin.messages.at(at, offset))

    session.report(work)


@message.command("print")
@session()
@_topic
@click.option("--broker-name", help="Queues of this broker only.")
@click.option("--queue", type=click.IntRange(0, 65_535), help="This queue of each broker only.")
@click.option("--begin", metavar="TIME", help=f"Stored from this time on: {FORMS}.")
@click.option("--end", metavar="TIME", help="Stored before this time.")
@click.option("--tags", default="*", show_default=True, help="Such as `TagA || TagB`.")
@click.option("--limit", type=click.IntRange(1), help="Most messages in all.")
def print_(
    session: Session,
    topic: str,
    broker_name: str | None,
    queue: int | None,
    begin: str | None,
    end: str | None,
    tags: str,
    limit: int | None,
) -> None:
    """Print the messages of a topic as they come, queue by queue. Nothing is committed."""
    first, last = time_of("--begin", begin), time_of("--end", end)
    failed: list[str] = []
    asked = 0

    async def work(admin: Admin) -> None:
        from contextlib import aclosing

        from pyrmq.cli.admin.view import show_each
        from pyrmq.errors import PyrmqError

        nonlocal asked
        printed = 0
        for one in await admin.messages.queues(topic):
            if broker_name not in (None, one.broker_name) or queue not in (None, one.queue_id):
                continue
            asked += 1
            try:
                part = await admin.messages.slice(one, begin=first, end=last)
                async with aclosing(admin.messages.read(part, expression=tags)) as found:
                    async for message in found:
                        if printed == limit:
                            return
                        show_each(_data(message), session.output, _line)
                        printed += 1
            except PyrmqError as e:
                failed.append(f"queue {one.queue_id} of {one.broker_name}: {e}")

    with printing():
        session.run(work, prints=True)
    session.partly(failed, all_failed=len(failed) == asked)


def _line(shown: dict[str, Any]) -> str:
    from pyrmq.cli.admin.view import moment
    from pyrmq.escape import escape_bytes

    place = f"{shown['broker']} {shown['queueId']} {shown['queueOffset']}"
    tags = f" [{shown['tags']}]" if shown["tags"] else ""
    body = escape_bytes(shown["body"])
    return f"{place}  {moment(shown['storeTimestamp'])}  {shown['msgId']}{tags}  {body}"


@message.command()
@session()
@_topic
@click.option("--body", required=True, help="The message, text.")
@click.option("--tags", help="The message's tag.")
@click.option("--keys", help="Keys, separated by blanks.")
@click.option("--broker-name", help="To this broker.")
@click.option("--queue", type=click.IntRange(0, 65_535), help="To this queue of --broker-name.")
def send(
    session: Session,
    topic: str,
    body: str,
    tags: str | None,
    keys: str | None,
    broker_name: str | None,
    queue: int | None,
) -> None:
    """Send a message."""
    if queue is not None and broker_name is None:
        raise click.UsageError("--queue needs --broker-name")

    async def work(admin: Admin) -> View:
        from pyrmq.cli.admin.view import fields
        from pyrmq.model.message import Message

        message = Message(topic, body.encode(), tags=tags, keys=keys)
        result = await admin.messages.send(message, broker_name=broker_name, queue_id=queue)
        return fields(
            {
                "status": result.status.name,
                "msgId": result.msg_id,
                "offsetMsgId": result.offset_msg_id,
                "broker": result.queue.broker_name,
                "queueId": result.queue.queue_id,
                "queueOffset": result.queue_offset,
            }
        )

    session.report(work)


@message.command("decode-id")
@session()
@click.argument("message_id", metavar="ID")
def decode_id(session: Session, message_id: str) -> None:
    """Say where and when a unique id was made."""
    from pyrmq.admin.message_ids import decode_id
    from pyrmq.cli.admin.view import fields, moment
    from pyrmq.errors import PyrmqError

    try:
        said = decode_id(message_id)
    except PyrmqError as e:
        session.fail(e)
    view = fields({"host": said.host, "born": moment(said.born)})
    view.data = said
    session.show(view)


@click.command()
@session()
@click.option("-t", "--topic", help="The topic that traces were written to.  [default: that of "
              "RocketMQ]")  # fmt: skip
@click.option("--limit", type=click.IntRange(1, 10_000), default=64, show_default=True,
              help="Most messages of that topic.")  # fmt: skip
@click.argument("message_id", metavar="ID")
def trace(session: Session, topic: str | None, limit: int, message_id: str) -> None:
    """Show what clients did with the message with a unique id: who sent it, who consumed it.

    Clients tell it if they trace (`trace=True`), and the broker has traceTopicEnable=true.
    """
    from pyrmq.cli.admin.view import Column, moment, table
    from pyrmq.model.names import TRACE_TOPIC

    async def work(admin: Admin) -> View:
        found = await admin.messages.traces(message_id, topic=topic or TRACE_TOPIC, limit=limit)
        return table(
            found,
            Column("WHAT", lambda t: "sent" if t.kind == "Pub" else "consumed"),
            Column("GROUP", "group"),
            Column("CLIENT", "client_host"),
            Column("TOPIC", "topic"),
            Column("TIME", lambda t: moment(t.time)),
            Column("TOOK", lambda t: f"{t.cost_ms} ms", right=True),
            Column("RESULT", lambda t: "ok" if t.success else "failed",
                   style=lambda t: "green" if t.success else "red"),
            empty="no traces",
            failed=[o.problem for o in found.failed],
        )  # fmt: skip

    session.report(work)


for _command in (queue_index, dump, life, trace):
    message.add_command(_command)
