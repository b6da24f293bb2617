"""`pyrmq admin dlq resend` and `export`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.dlq_letters import GroupName, selecting
from pyrmq.cli.admin.session import MOST_PROBLEMS, Session, printing, session

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.dead_letters import Selection
    from pyrmq.admin.resend import ResendPlan, Resent
    from pyrmq.cli.admin.view import View


@click.command()
@session(destroys=True)
@click.argument("group", type=GroupName())
@click.option(
    "--to",
    type=click.Choice(["topic", "group"]),
    required=True,
    help="topic: where they came from, so all groups that consume it get them again. "
    "group: the retry topic, so only this group gets them.",
)
@selecting
@click.option("--all", "all_", is_flag=True, help="All dead letters of the group.")
@click.option("--again", is_flag=True, help="Also those that were resent already.")
@click.option("--dry-run", is_flag=True, help="Show what would be resent.")
def resend(
    session: Session,
    group: str,
    to: str,
    selection: Selection,
    all_: bool,
    again: bool,
    dry_run: bool,
) -> None:
    """Resend dead letters of a group. They stay in its dead letters; a second run skips them."""
    from pyrmq.admin.resend import To

    if all_ != selection.is_all:
        raise click.UsageError("say which: --begin, --end, --key, --topic, --id, or --all alone")

    async def look(admin: Admin) -> ResendPlan:
        return await admin.dead_letters.preview(group, To(to), selection)

    plan = session.run(look)
    failed = [o.problem for o in plan.failed]
    if dry_run:
        session.show(_preview(plan, again))
        session.partly(failed, all_failed=not plan.rows)
        return
    if not session.yes:
        session.aside(_preview(plan, again))
    number = plan.letters if again else plan.to_send
    if number:
        session.confirm(f"Resend {number} dead letters of group {group} to the {to}?")
    _run(session, plan, again, failed)


def _run(session: Session, plan: ResendPlan, again: bool, failed: list[str]) -> None:
    from pyrmq.escape import escape

    counts = {"sent": 0, "skipped": 0, "failed": 0}
    problems: list[str] = []

    async def work(admin: Admin) -> None:
        from contextlib import aclosing

        from pyrmq.cli.admin.view import show_each
        from pyrmq.errors import PyrmqError

        try:
            async with aclosing(admin.dead_letters.resend(plan, again=again)) as done:
                async for one in done:
                    counts[one.state.value] += 1
                    if one.error is not None and len(problems) <= MOST_PROBLEMS:
                        problems.append(f"{one.letter.id}: {one.error}")
                    show_each(_resent_data(one), session.output, _resent_line)
        except PyrmqError as e:
            failed.append(str(e))

    with printing():
        session.run(work, prints=True)
    told = ", ".join(f"{n} {state}" for state, n in counts.items() if n) or "nothing to resend"
    click.echo(escape(f"group {plan.group}: {told}"), err=True)
    more = counts["failed"] - len(problems)
    if more > 0:
        problems.append(f"{more} more letters failed")
    session.partly([*problems, *failed], all_failed=not counts["sent"] and not counts["skipped"])


def _preview(plan: ResendPlan, again: bool) -> View:
    from pyrmq.admin.resend import To
    from pyrmq.cli.admin.view import Column, View

    columns = (
        Column("FROM TOPIC", lambda r: r.topic or "(not named)"),
        Column("TO", "target"),
        Column("LETTERS", "letters", right=True),
        Column("RESENT BEFORE", "resent", right=True),
        Column("PROBLEM", lambda r: _problem(r)),
    )
    notes = []
    for row in plan.rows:
        if row.groups:
            names = ", ".join(row.groups[:8]) + (", …" if len(row.groups) > 8 else "")
            notes.append(f"groups that consume {row.target} and get them too: {names}")
        if row.foreign:
            notes.append(
                f"group {plan.group} does not consume {row.target}: the sender of these letters "
                "may have made up where they come from; look at them first (pyrmq admin dlq look "
                f"{plan.group} --topic {row.topic})"
            )
    if plan.to is To.GROUP:
        notes.append(f"only group {plan.group} gets them, with all its retries anew")
    running = {None: "it is not known how many members of it run", 0: "no member of it runs now"}
    notes.append(
        f"group {plan.group}: {running.get(plan.members, f'{plan.members} members of it run')}"
    )
    if not again and any(row.resent for row in plan.rows):
        notes.append("those that were resent before are skipped (--again resends them)")
    data = {
        "group": plan.group,
        "to": plan.to.value,
        "letters": plan.letters,
        "toSend": plan.letters if again else plan.to_send,
        "members": plan.members,
        "topics": [
            {
                "topic": row.topic or None,
                "target": row.target,
                "letters": row.letters,
                "resent": row.resent,
                "unclear": row.unclear,
                "error": None if row.error is None else str(row.error),
                "groups": row.groups,
                "foreign": row.foreign,
            }
            for row in plan.rows
        ],
    }
    return View(data, plan.rows, columns, notes, "no dead letter is selected")


def _problem(row: Any) -> str:
    if row.error is not None:
        return str(row.error)
    return f"{row.unclear} may be resent already: a broker did not answer" if row.unclear else ""


def _resent_data(one: Resent) -> dict[str, Any]:
    sent = one.result
    before = one.before
    return {
        "id": one.letter.id,
        "state": one.state.value,
        "group": one.letter.group,
        "topic": one.letter.topic,
        "target": one.target,
        "msgId": sent.msg_id if sent else one.letter.message.msg_id,
        "status": sent.status.name if sent else None,
        "offsetMsgId": sent.offset_msg_id if sent else before.offset_msg_id if before else None,
        "resentAt": before.store_timestamp if before else None,
        "error": None if one.error is None else str(one.error),
    }


def _resent_line(shown: dict[str, Any]) -> str:
    from pyrmq.cli.admin.view import moment

    if shown["state"] == "failed":
        return f"failed   {shown['id']}: {shown['error']}"
    if shown["state"] == "skipped":
        when = moment(shown["resentAt"])
        return f"skipped  {shown['id']}: resent to {shown['target']} at {when}"
    status = "" if shown["status"] == "SEND_OK" else f", {shown['status']}"
    return f"sent     {shown['id']} to {shown['target']}: {shown['offsetMsgId']}{status}"


@click.command()
@session()
@click.argument("group", type=GroupName())
@selecting
@click.option("-f", "--file", type=click.Path(dir_okay=False), metavar="FILE",
              help="Write to this file, completely or not at all.  [default: stdout]")  # fmt: skip
def export(session: Session, group: str, selection: Selection, file: str | None) -> None:
    """Write dead letters as JSON lines, with their whole bodies. Text bodies are strings, others
    {"base64": …}."""

    count = 0
    failed: list[str] = []

    async def work(admin: Admin) -> None:
        from contextlib import aclosing

        from pyrmq.admin.letter_data import letter_data
        from pyrmq.cli.admin.view import plain
        from pyrmq.errors import PyrmqError
        from pyrmq.escape import json_line

        nonlocal count
        try:
            with _output(file) as out:
                async with aclosing(admin.dead_letters.read(group, selection)) as letters:
                    async for letter in letters:
                        out.write(json_line(plain(letter_data(letter))) + "\n")
                        count += 1
        except PyrmqError as e:
            if file is not None or not count:
                raise
            failed.append(str(e))

    with printing():
        session.run(work, prints=file is None)
    click.echo(f"{count} dead letters", err=True)
    session.partly(failed)


@contextmanager
def _output(file: str | None) -> Iterator[IO[str]]:
    """stdout, or a file that is there only when it is complete."""
    if file is None:
        yield sys.stdout
        return
    path = Path(file)
    handle, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8") as out:
            yield out
        os.replace(made, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(made)
        raise
