"""`pyrmq admin dlq …`: dead letters of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.dlq_changes import export, resend
from pyrmq.cli.admin.dlq_letters import GroupName, selecting
from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, printing, session

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.dead_letters import DeadLetter, DeadLetterGroup, Selection
    from pyrmq.admin.outcome import Partial
    from pyrmq.cli.admin.view import View

SHOWN_TOPICS = 3


@click.group(cls=Group)
def dlq() -> None:
    """Dead letters: messages that a group has given up. List, look, resend, export."""


@dlq.command("list")
@session(watch=True)
@click.argument("group", type=GroupName(), required=False)
@click.option(
    "--sample",
    type=click.IntRange(1, 100_000),
    default=64,
    show_default=True,
    help="How many letters of each queue are read, the newest, for their original topics.",
)
def list_(session: Session, group: str | None, sample: int) -> None:
    """List the groups that have dead letters: how many, since when, from which topics."""

    async def work(admin: Admin) -> View:
        from contextlib import aclosing

        rows: list[DeadLetterGroup] = []
        async with aclosing(admin.dead_letters.groups(group, sample=sample)) as found:
            async for row in found:
                rows.append(row)
        return _groups(rows, group)

    session.report(work)


def _groups(rows: list[DeadLetterGroup], group: str | None) -> View:
    from pyrmq.cli.admin.txn_text import age, now_ms
    from pyrmq.cli.admin.view import Column, View, moment

    now = now_ms()
    failed = [f"group {r.group}: {e}" for r in rows for e in r.failed]
    rows = [r for r in rows if r.count or not r.failed]
    columns = (
        Column("GROUP", "group"),
        Column("LETTERS", "count", right=True),
        Column("NEWEST", lambda r: f"{age(now - r.newest)} ago" if r.newest else "-"),
        Column("OLDEST", lambda r: f"{age(now - r.oldest)} ago" if r.oldest else "-"),
        Column("SINCE", lambda r: moment(r.oldest)),
        Column("FROM TOPICS", _topics),
        Column("BROKERS", lambda r: " ".join(r.brokers)),
    )
    data = [
        {
            "group": r.group,
            "letters": r.count,
            "oldest": r.oldest or None,
            "newest": r.newest or None,
            "topics": [{"topic": t or None, "letters": n} for t, n in r.topics.items()],
            "sampled": r.sampled,
            "brokers": r.brokers,
        }
        for r in rows
    ]
    notes = []
    if any(r.sampled < r.count for r in rows):
        notes = ["FROM TOPICS counts the newest letters that were read (--sample)"]
    empty = f"group {group} has no dead letters" if group else "no group has dead letters"
    return View(data, rows, columns, notes, empty, failed, bool(failed) and not rows)


def _topics(row: DeadLetterGroup) -> str:
    shown = [f"{t or '(not named)'} {n}" for t, n in list(row.topics.items())[:SHOWN_TOPICS]]
    more = len(row.topics) - SHOWN_TOPICS
    return ", ".join(shown) + (f", {more} more" if more > 0 else "")


@dlq.command()
@session()
@click.argument("group", type=GroupName())
@selecting
@click.option("--limit", type=click.IntRange(1, 10_000), default=10, show_default=True,
              help="Most letters.")  # fmt: skip
@click.option("--oldest", is_flag=True, help="The oldest ones instead of the newest.")
@click.option(
    "--body",
    type=click.IntRange(0, 1 << 20),
    default=256,
    show_default=True,
    metavar="BYTES",
    help="How much of a body is shown; JSON and YAML have all of it.",
)
def look(
    session: Session, group: str, selection: Selection, limit: int, oldest: bool, body: int
) -> None:
    """Show dead letters: where they came from, properties, body, and whether they were resent."""
    from pyrmq.cli.admin.view import View

    async def work(admin: Admin) -> tuple[Partial[DeadLetter], list[list[str]]]:
        found = await admin.dead_letters.find(group, selection, limit=limit, newest=not oldest)
        return found, [await _resent(admin, letter) for letter in found]

    from pyrmq.admin.letter_data import letter_data
    from pyrmq.cli.admin.dlq_letters import letter_lines
    from pyrmq.escape import escape

    found, resent = session.run(work)
    failed = [o.problem for o in found.failed]
    with printing():
        if session.output == "table":
            for letter, known in zip(found, resent, strict=True):
                for line in letter_lines(letter, known, body):
                    print(escape(line))
            if not found and not failed:
                print("no dead letter is selected")
        else:
            data: list[dict[str, Any]] = [
                {**letter_data(letter), "resent": known}
                for letter, known in zip(found, resent, strict=True)
            ]
            session.show(View(data))
    session.partly(failed, all_failed=not found)


async def _resent(admin: Admin, letter: DeadLetter) -> list[str]:
    from pyrmq.cli.admin.view import moment
    from pyrmq.errors import PyrmqError

    try:
        before = await admin.dead_letters.resent(letter)
    except PyrmqError as e:
        return [f"not known: {e}"]
    return [f"to {m.topic} at {moment(m.store_timestamp)} ({m.offset_msg_id})" for m in before]


for _command in (resend, export):
    dlq.add_command(_command)
