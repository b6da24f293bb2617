"""`pyrmq admin offset …`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session
from pyrmq.cli.admin.view import FORMS, time_of

if TYPE_CHECKING:
    from pyrmq.admin.offset_moves import ResetPreview
    from pyrmq.admin.offsets import QueueReset
    from pyrmq.cli.admin.view import View


@click.group(cls=Group)
def offset() -> None:
    """Offsets of consumer groups: to a time, an offset or the end, from another group."""


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
    from pyrmq.admin.offset_moves import START
    from pyrmq.admin.offsets import END

    places = {"start": START, "earliest": START, "end": END, "latest": END}
    if text in places:
        return places[text]
    moment = time_of("--to", text)
    assert moment is not None
    return moment


def _preview(plan: ResetPreview, head: str) -> View:
    from pyrmq.cli.admin.view import Column, View, plain

    columns = (
        Column("BROKER", lambda r: r.queue.broker_name),
        Column("QUEUE", lambda r: r.queue.queue_id, right=True),
        Column("FIRST", "first", right=True),
        Column("NEXT", "broker_offset", right=True),
        Column("WAS", lambda r: "-" if r.consumer_offset is None else r.consumer_offset,
               right=True),
        Column(head, "offset", right=True),
        Column("SKIPPED", "skipped", right=True, style=lambda r: "red" if r.skipped else ""),
        Column("REPEATED", "repeated", right=True),
    )  # fmt: skip
    data = [{**plain(q), "skipped": q.skipped, "repeated": q.repeated} for q in plan.queues]
    notes = [f"{plan.skipped} messages are skipped, {plan.repeated} come again"]
    if plan.members is None:
        notes.append("it is not known whether members run")
    elif not plan.members:
        notes.append("no member runs")
    else:
        shown = ", ".join(plan.members[:8]) + (", …" if len(plan.members) > 8 else "")
        many = "1 member runs" if len(plan.members) == 1 else f"{len(plan.members)} members run"
        notes.append(f"{many}: {shown}")
    if any(q.found is not None and q.found != q.offset for q in plan.queues):
        notes.append("offsets outside of a queue become its first or next one")
    return View(data, plan.queues, columns, notes, empty="no queues")


def _move(
    session: Session,
    group: str,
    topic: str,
    where: str,
    dry_run: bool,
    **choice: Any,
) -> None:
    plan = session.run(lambda admin: admin.offsets.preview(group, topic, **choice))
    failed = [o.problem for o in plan.failed]
    if dry_run:
        session.show(_preview(plan, "WOULD BE"))
        session.partly(failed, all_failed=not plan.queues)
        return
    if not session.yes:
        session.aside(_preview(plan, "WILL BE"))
    session.confirm(f"Move group {group} in topic {topic} to {where}?")
    outcomes = session.run(lambda admin: admin.offsets.move(plan))
    done = {id(q) for part in outcomes.values for q in part}
    moved = replace(plan, queues=[q for q in plan.queues if id(q) in done])
    if moved.queues or not outcomes.failed:
        session.show(_preview(moved, "IS"))
    failed += [o.problem for o in outcomes.failed]
    session.partly(failed, all_failed=not outcomes.done)


_dry_run = click.option("--dry-run", is_flag=True, help="Show for each queue what it would become.")
_broker_name = click.option("--broker-name", help="Queues of this broker only.")
_queue = click.option(
    "--queue", type=click.IntRange(0, 65_535), help="This queue of each broker only."
)


@offset.command()
@session(destroys=True)
@click.argument("group")
@click.argument("topic")
@click.option("--to", metavar="TIME", help=f"earliest, latest (also: start, end), {FORMS}.")
@click.option("--offset", "number", type=click.IntRange(0, 2**63 - 1), metavar="N",
              help="To this offset of a --queue, instead of --to.")  # fmt: skip
@_broker_name
@_queue
@_dry_run
def reset(
    session: Session,
    group: str,
    topic: str,
    to: str | None,
    number: int | None,
    broker_name: str | None,
    queue: int | None,
    dry_run: bool,
) -> None:
    """Move a group in a topic to a time or to an offset: in all queues, or in some.

    Shows for each queue where the group is, where it goes, and how many messages are skipped or
    come again.
    """
    if (to is None) == (number is None):
        raise click.UsageError("say one of --to TIME and --offset N")
    if number is not None and queue is None:
        raise click.UsageError("--offset needs --queue")
    time_ms = None if to is None else _time(to)
    where = to if to is not None else f"offset {number} of queue {queue}"
    if to is not None and queue is not None:
        where += f" in queue {queue}"
    if broker_name is not None:
        where += f" on broker {broker_name}"
    _move(
        session, group, topic, where, dry_run,
        time_ms=time_ms, offset=number, broker_name=broker_name, queue_id=queue,
    )  # fmt: skip


@offset.command()
@session(destroys=True)
@click.argument("group")
@click.argument("topic")
@_broker_name
@_queue
@_dry_run
def skip(
    session: Session,
    group: str,
    topic: str,
    broker_name: str | None,
    queue: int | None,
    dry_run: bool,
) -> None:
    """Move a group behind the last message of a topic."""
    _move(
        session, group, topic, "the end", dry_run,
        time_ms=_time("end"), broker_name=broker_name, queue_id=queue,
    )  # fmt: skip


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
