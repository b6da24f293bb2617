"""`pyrmq admin message life`: all that is known of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.session import Session, session

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.life_facts import Fact
    from pyrmq.admin.life_groups import Life
    from pyrmq.cli.admin.view import View


@click.command()
@session(watch=True)
@click.option("-t", "--topic", help="Its topic.  [default: all topics are searched]")
@click.option("-k", "--key", help="Of the messages with this key, instead of an ID.")
@click.option("--limit", type=click.IntRange(1, 64), default=8, show_default=True,
              help="Most messages with the key.")  # fmt: skip
@click.option("--trace-topic", help="The topic that traces were written to.  [default: that of "
              "RocketMQ]")  # fmt: skip
@click.argument("message_id", metavar="[ID]", required=False)
def life(
    session: Session,
    topic: str | None,
    key: str | None,
    limit: int,
    trace_topic: str | None,
    message_id: str | None,
) -> None:
    """Show the whole life of the message with a unique id, an offset id, or a key.

    Who sent it, where it is stored, delays, transaction, retries, dead letters, who consumed it;
    which data say each, and what cannot be known.
    """
    if (key is None) == (message_id is None):
        raise click.UsageError("say one of ID and --key KEY")

    async def work(admin: Admin) -> View:
        from pyrmq.model.names import TRACE_TOPIC

        traced = trace_topic or TRACE_TOPIC
        if message_id is not None:
            found = await admin.lives.of_id(message_id, topic=topic, trace_topic=traced)
            return _view([found], _data(found))
        assert key is not None
        several = await admin.lives.of_key(key, topic=topic, limit=limit, trace_topic=traced)
        return _view(several, [_data(one) for one in several])

    session.report(work)


def _data(found: Life) -> dict[str, Any]:
    return {
        "messageId": found.message_id,
        "topic": found.topic,
        "facts": [
            {
                "what": fact.what.name,
                "time": fact.time or None,
                "text": fact.text,
                "source": fact.source,
                "detail": fact.detail,
            }
            for fact in found.facts
        ],
        "unknown": found.unknown,
    }


def _view(lives: list[Life], data: Any) -> View:
    from pyrmq.cli.admin.view import Column, View, moment

    rows: list[tuple[str, Fact]] = [(one.message_id, fact) for one in lives for fact in one.facts]
    columns = [
        Column("TIME", lambda r: moment(r[1].time)),
        Column("WHAT", lambda r: r[1].what.value),
        Column("DETAIL", lambda r: r[1].text),
        Column("FROM", lambda r: r[1].source),
    ]
    if len(lives) > 1:
        columns.insert(0, Column("MESSAGE", lambda r: r[0]))
    notes = []
    for one in lives:
        of = f" of {one.message_id}" if len(lives) > 1 else ""
        notes += [f"not known{of}: {text}" for text in one.unknown]
    failed = list(dict.fromkeys(o.problem for one in lives for o in one.failed))
    return View(data, rows, columns, notes, failed=failed)
