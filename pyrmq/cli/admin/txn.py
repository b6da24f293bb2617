"""`pyrmq admin txn …`: transactions of brokers that are running."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, Span, printing, session

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.outcome import Outcome, Outcomes
    from pyrmq.admin.transactions import Decided, Found
    from pyrmq.admin.txn.finder import Transaction
    from pyrmq.admin.txn.halves import Filter, Half
    from pyrmq.cli.admin.view import View

MAX_LIMIT = 100_000


@click.group(cls=Group)
def txn() -> None:
    """Transactions: what is pending, and deciding it in the producer's place.

    An ID is a transaction id, an offset in the half queue or an offset id (offsetMsgId).
    """


_lines = click.option(
    "--json", "as_lines", is_flag=True, help="One JSON object a line; -o json prints a list."
)
_topic = click.option("-t", "--topic", help="Transactions for this topic only.")
_group = click.option("-g", "--group", help="Transactions of this producer group only.")
_ids = click.argument("ids", metavar="ID...", nargs=-1, required=True)
_WHERE = (
    click.option(
        "-b", "--broker", metavar="HOST:PORT", help="This broker; no name server is asked."
    ),
    click.option("-c", "--cluster", metavar="NAME", help="Masters of this cluster only."),
    click.option("--all-brokers", is_flag=True, help="All masters. This is the default."),
)


def targeted(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that say which brokers; the command gets `where`, keywords for
    `admin.transactions`."""

    @wraps(command)
    def run(
        *args: Any, broker: str | None, cluster: str | None, all_brokers: bool, **rest: Any
    ) -> None:
        if broker is not None and (all_brokers or cluster is not None):
            raise click.UsageError("--broker excludes --all-brokers and --cluster")
        command(*args, where={"broker": broker, "cluster": cluster}, **rest)

    for option in reversed(_WHERE):
        run = option(run)
    return run


Where = dict[str, str | None]


def _wanted(topic: str | None, group: str | None, older_than: float | None) -> Filter:
    from pyrmq.admin.txn.halves import Filter
    from pyrmq.cli.admin.txn_text import now_ms

    limit = None if older_than is None else now_ms() - int(older_than * 1000)
    return Filter(topic, group, limit)


def _told(lines: Sequence[str]) -> None:
    """Lines about a result, on stderr."""
    from pyrmq.escape import escape

    for line in lines:
        click.echo(escape(line), err=True)


def _show(session: Session, view: View, as_lines: bool) -> None:
    from pyrmq.cli.admin.view import plain
    from pyrmq.escape import json_line

    if not as_lines:
        session.show(view)
        return
    with printing():
        for row in view.data:
            print(json_line(plain(row)))


def _failures(outcomes: Outcomes[Any]) -> list[Outcome[Any]]:
    """Brokers that did not answer. One without transactions is no failure among others."""
    from pyrmq.admin.txn.scan import NoTransactionsError

    empty = [o for o in outcomes.failed if isinstance(o.error, NoTransactionsError)]
    return outcomes.failed if len(outcomes) == 1 else [o for o in outcomes.failed if o not in empty]


def _end(session: Session, outcomes: Outcomes[Any]) -> None:
    failed = _failures(outcomes)
    session.partly([o.problem for o in failed], all_failed=len(failed) == len(outcomes))


@txn.command("list")
@session()
@targeted
@_topic
@_group
@click.option(
    "--older-than",
    type=Span(0),
    metavar="TIME",
    help="Only what was sent at least this long ago: seconds, or 90s, 30m, 2h, 1d.",
)
@click.option("--discarded", is_flag=True, help="Those in TRANS_CHECK_MAX_TIME_TOPIC instead.")
@click.option("--limit", type=click.IntRange(1, MAX_LIMIT), default=100, show_default=True)
@_lines
def list_(
    session: Session,
    where: Where,
    topic: str | None,
    group: str | None,
    older_than: float | None,
    discarded: bool,
    limit: int,
    as_lines: bool,
) -> None:
    """List what is neither committed nor rolled back, the oldest first.

    Messages that were sent a moment ago are in it as well: --older-than 1m leaves them out.
    """
    from pyrmq.cli.admin import txn_text as text

    wanted = _wanted(topic, group, older_than)

    async def old(admin: Admin) -> tuple[Outcomes[Any], list[Half], list[str]]:
        found = await admin.transactions.discarded(wanted, limit=limit, **where)
        halves = [half for part in found.values for half in part.halves]
        parts = [(o.target, o.value) for o in found.done if o.value is not None]
        return (
            found,
            halves,
            [line for name, p in parts for line in text.discarded_lines(name, p.count, limit)],
        )

    async def pending(admin: Admin) -> tuple[Outcomes[Any], list[Half], list[str]]:
        found = await admin.transactions.pending(wanted, limit=limit, **where)
        halves = [half for scan in found.values for half in scan.table.rows()]
        parts = [(o.target, o.value) for o in found.done if o.value is not None]
        return (
            found,
            halves,
            [line for name, scan in parts for line in text.scan_lines(name, scan, limit)],
        )

    outcomes, halves, lines = session.run(old if discarded else pending)
    rows = sorted(halves, key=lambda half: half.born)[:limit]
    if rows or session.output != "table" or as_lines:
        _show(session, text.table(rows, len(outcomes) > 1, discarded), as_lines)
    _told(lines)
    _end(session, outcomes)


@txn.command()
@session(watch=True)
@targeted
@_topic
@_group
@_lines
def stats(
    session: Session, where: Where, topic: str | None, group: str | None, as_lines: bool
) -> None:
    """Count what is pending, by topic and group, and what is in TRANS_CHECK_MAX_TIME_TOPIC."""
    from pyrmq.cli.admin import txn_text as text
    from pyrmq.cli.admin.view import View

    wanted = _wanted(topic, group, None)

    async def work(admin: Admin) -> View:
        outcomes = await admin.transactions.statistics(wanted, **where)
        parts = [(o.target, o.value) for o in outcomes.done if o.value is not None]
        failed = _failures(outcomes)
        return View(
            [text.statistics_json(name, found) for name, found in parts],
            notes=[line for name, found in parts for line in text.statistics_lines(name, found)],
            failed=[o.problem for o in failed],
            all_failed=len(failed) == len(outcomes),
        )

    if not as_lines:
        session.report(work)
        return
    view = session.run(work)
    _show(session, view, as_lines)
    session.partly(list(view.failed), all_failed=view.all_failed)


@txn.command()
@session()
@targeted
@_ids
@click.option(
    "--body",
    type=click.IntRange(0, 1 << 20),
    default=256,
    show_default=True,
    metavar="BYTES",
    help="How much of the body is shown.",
)
@_lines
def show(session: Session, where: Where, ids: tuple[str, ...], body: int, as_lines: bool) -> None:
    """Show all that brokers have of a transaction, and what became of it."""
    from pyrmq.cli.admin import txn_text as text
    from pyrmq.cli.admin.view import View

    found = _find(session, where, ids)
    shown = {(t.link.name, t.identity): t for here in found.transactions.values() for t in here}
    if shown or not found.problems:
        data = [text.transaction_json(t, body) for t in shown.values()]
        lines = [line for t in shown.values() for line in text.transaction_lines(t, body)]
        _show(session, View(data, notes=lines), as_lines)
    session.partly(found.problems, all_failed=not shown)


def _find(session: Session, where: Where, ids: Sequence[str]) -> Found:
    return session.run(lambda admin: admin.transactions.find(ids, **where))


def _ready(
    found: Found, check: Callable[[Transaction], object], problems: list[str]
) -> list[Transaction]:
    """The transactions that can be changed, each once; the others become problems."""
    from pyrmq.admin.transactions import check_single
    from pyrmq.errors import ClientError

    ready: dict[Any, Transaction] = {}
    for name, here in found.transactions.items():
        try:
            check_single(name, here)
            check(here[0])
        except ClientError as e:
            problems.append(str(e))
        else:
            ready[here[0].link.name, here[0].identity] = here[0]
    return list(ready.values())


def _change(
    session: Session,
    where: Where,
    ids: Sequence[str],
    verb: str,
    check: Callable[[Transaction], object],
) -> None:
    """Finds, asks, and does it for each that is still as it was found."""
    from pyrmq.cli.admin.txn_text import age, now_ms

    found = _find(session, where, ids)
    problems = list(found.problems)
    ready = _ready(found, check, problems)
    if not ready:
        session.partly(problems, all_failed=True)
        return
    if not session.yes:
        _told(
            [
                f"{t.label} on {t.link.name}: topic {t.topic}, producer group {t.group}, "
                f"sent {age(now_ms() - t.message.born_timestamp)} ago, {t.state.value}"
                for t in ready
            ]
        )
    session.confirm(f"{verb.capitalize()} {len(ready)} of them?")

    async def work(admin: Admin) -> list[tuple[Transaction, Decided]]:
        act = getattr(admin.transactions, verb)
        by_broker: dict[str, list[Transaction]] = {}
        for t in ready:
            by_broker.setdefault(t.link.name, []).append(t)
        done: list[tuple[Transaction, Decided]] = []
        for address, here in by_broker.items():
            names = [t.message.offset_msg_id for t in here]
            done += zip(here, await act(names, broker=address), strict=True)
        return done

    results = session.run(work)
    session.show(_results(results, verb))
    problems += [_said(t, one, verb) for t, one in results if not one.done]
    session.partly(problems, all_failed=not any(one.done for _, one in results))


def _said(t: Transaction, one: Decided, verb: str) -> str:
    what = f"{verb}: the broker answered {one.answer}" if one.answer is not None else one.error
    return f"{t.label} on {t.link.name}: {what}"


def _results(results: Sequence[tuple[Transaction, Decided]], verb: str) -> View:
    from pyrmq.cli.admin.view import View

    data = [
        {
            "target": t.link.name,
            "transactionId": t.transaction_id or None,
            "topic": t.topic,
            "ok": one.done,
            "code": one.answer.code if one.answer else getattr(one.error, "code", None),
            "message": str(one.answer or one.error),
        }
        for t, one in results
    ]
    return View(data, notes=[_said(t, one, verb) for t, one in results if one.done])


@txn.command()
@session(destroys=True)
@targeted
@_ids
def commit(session: Session, where: Where, ids: tuple[str, ...]) -> None:
    """Commit: the message is delivered, as if its producer had said so."""
    from pyrmq.admin.txn.transactions import check_decidable
    from pyrmq.model.transaction import TransactionState

    _change(session, where, ids, "commit", lambda t: check_decidable(t, TransactionState.COMMIT))


@txn.command()
@session(destroys=True)
@targeted
@_ids
def rollback(session: Session, where: Where, ids: tuple[str, ...]) -> None:
    """Roll back: the message is never delivered, as if its producer had said so."""
    from pyrmq.admin.txn.transactions import check_decidable
    from pyrmq.model.transaction import TransactionState

    _change(
        session, where, ids, "rollback", lambda t: check_decidable(t, TransactionState.ROLLBACK)
    )


@txn.command()
@session(destroys=True)
@targeted
@_ids
def resume(session: Session, where: Where, ids: tuple[str, ...]) -> None:
    """Have the producer asked again about a transaction in TRANS_CHECK_MAX_TIME_TOPIC."""
    from pyrmq.admin.txn.transactions import check_resumable

    _change(session, where, ids, "resume", check_resumable)
