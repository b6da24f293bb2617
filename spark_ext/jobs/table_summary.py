"""What a run of `pyrmq pipeline table write` says: what it added, and what the table has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyrmq.escape import escape
from pyrmq.tables.runs import Added
from spark_ext.jobs import report

if TYPE_CHECKING:
    from pyrmq.tables.ends import Ends

MAX_LINES = 10
"""Gaps that a summary lists."""


class Told:
    """The object of a click context that asks for what the command did, instead of its text."""

    def __init__(self) -> None:
        self.added = Added()


def tell(name: str, added: Added, ends: Ends | None) -> None:
    """Says what was done, or leaves it to the caller."""
    told = click.get_current_context().find_object(Told)
    if told is not None:
        told.added = added
    else:
        click.echo(summary(name, added, ends))


def left_out(name: str, dead: int, skipped: int) -> list[str]:
    """Of messages whose bodies do not fit; nothing if there are none."""
    lines = []
    if dead:
        lines.append(f"{report.number(dead, 'body', 'bodies')} in {escape(name)}_dlq")
    if skipped:
        lines.append(
            f"left out {report.number(skipped, 'body', 'bodies')} that "
            f"{'does' if skipped == 1 else 'do'} not fit"
        )
    return lines


def summary(name: str, added: Added, ends: Ends | None) -> str:
    """What a call added, and what the table has."""
    lines = [
        f"added {report.number(added.rows - added.left, 'message')}: {report.size(added.bytes)} of "
        f"Parquet in {report.number(added.files, 'file')}, {report.number(added.commits, 'commit')}"
    ]
    queues = list(ends.queues()) if ends is not None else []
    lines.append(
        f"{escape(name)} has {report.number(sum(q.end - q.start for _, _, q in queues), 'offset')} "
        f"of {report.number(len(queues), 'queue')}"
    )
    lines += left_out(name, added.dead, added.skipped)
    if added.races:
        lines.append(f"another writer was first {report.number(added.races, 'time')}")
    if added.cleaned:
        lines.append(f"deleted {report.number(added.cleaned, 'file')} of runs that were killed")
    for gap in added.gaps[:MAX_LINES]:
        lines.append(
            f"missing: offsets {gap.start} to {gap.end - 1} of queue {gap.queue} of "
            f"{escape(gap.broker)} were not in the log"
        )
    if len(added.gaps) > MAX_LINES:
        lines.append(f"... and {report.number(len(added.gaps) - MAX_LINES, 'more gap')}")
    return "\n".join(lines)
