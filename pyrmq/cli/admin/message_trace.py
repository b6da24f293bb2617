"""`pyrmq admin message trace`: what clients wrote about a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyrmq.cli.admin.session import Session, session

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.cli.admin.view import View


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
