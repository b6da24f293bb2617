"""`pyrmq admin offset …`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session
from pyrmq.cli.admin.view import FORMS, time_of

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.offsets import QueueReset
    from pyrmq.cli.admin.view import View


@click.group(cls=Group)
def offset() -> None:
    """Offsets of consumer groups: to a time, to the end, from another group."""


def _view(rows: Sequence[QueueReset], head: str) -> View:
    from pyrmq.cli.admin.view import Column, table

    columns = [
        Column("BROKER", lambda r: r.queue.broker_name),
        Column("QUEUE", lambda r: r.queue.queue_id, right=True),
        Column("BROKER OFFSET", "broker_offset", right=True),
        Column("WAS", "consumer_offset", right=True),
        Column(head, "offset", right=True),
    ]
    # A broker that moves offsets itself does not say where they were.
    known = [
        c for c in columns if callable(c.cell) or any(getattr(r, c.cell) is not None for r in rows)
    ]
    return table(rows, *known, empty="no queues")


def _time(text: str) -> int:
    from pyrmq.admin.offsets import END

    places = {"start": 0, "end": END}
    if text in places:
        return places[text]
    moment = time_of("--to", text)
    assert moment is not None
    return moment


def _move(session: Session, group: str, topic: str, time_ms: int, *, dry_run: bool) -> None:
    async def plan(admin: Admin) -> Any:
        return await admin.offsets.plan(group, topic, time_ms)

    async def move(admin: Admin) -> Any:
        return await admin.offsets.reset(group, topic, time_ms)

    outcomes = session.run(plan if dry_run else move)
    found = outcomes.values
    rows = [q for part in found for q in (part if dry_run else part.queues)]
    failed = [o.problem for o in outcomes.failed]
    if found or not failed:
        session.show(_view(rows, "WOULD BE" if dry_run else "IS"))
    session.partly(failed, all_failed=not found)


@offset.command()
@session(destroys=True)
@click.argument("group")
@click.argument("topic")
@click.option(
    "--to", required=True, metavar="TIME",
    help=f"start, end, {FORMS}.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show for each queue what it would become.")
def reset(session: Session, group: str, topic: str, to: str, dry_run: bool) -> None:
    """Move a group in a topic to a time."""
    time_ms = _time(to)
    if not dry_run:
        session.confirm(f"Move group {group} in topic {topic} to {to}?")
    _move(session, group, topic, time_ms, dry_run=dry_run)


@offset.command()
@session(destroys=True)
@click.argument("group")
@click.argument("topic")
@click.option("--dry-run", is_flag=True, help="Show for each queue what it would become.")
def skip(session: Session, group: str, topic: str, dry_run: bool) -> None:
    """Move a group behind the last message of a topic."""
    if not dry_run:
        session.confirm(f"Move group {group} behind the last message of topic {topic}?")
    _move(session, group, topic, _time("end"), dry_run=dry_run)


@offset.command()
@session(destroys=True)
@click.argument("source")
@click.argument("target")
@click.argument("topic")
def clone(session: Session, source: str, target: str, topic: str) -> None:
    """Give the group TARGET the offsets that SOURCE has in a topic."""
    session.confirm(f"Replace the offsets of group {target} in topic {topic}?")
    rows = session.run(lambda admin: admin.offsets.clone(source, target, topic))
    session.show(_view(rows, "IS"))
