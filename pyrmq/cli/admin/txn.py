"""`pyrmq admin txn …`: transactions of brokers that are running."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Seconds
from pyrmq.cli.admin.txn_targets import Target, ask, ask_each, targeted

if TYPE_CHECKING:
    from pyrmq.admin.txn.finder import Transaction
    from pyrmq.admin.txn.halves import Filter, Half
    from pyrmq.admin.txn.link import BrokerLink
    from pyrmq.admin.txn.transactions import Answer
    from pyrmq.cli.progress_line import ProgressLine

MAX_LIMIT = 100_000


@click.group(cls=Group)
def txn() -> None:
    """Transactions: what is pending, and deciding it in the producer's place.

    An ID is a transaction id, an offset in the half queue or an offset id (offsetMsgId).
    """


_json = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
_topic = click.option("-t", "--topic", help="Transactions for this topic only.")
_group = click.option("-g", "--group", help="Transactions of this producer group only.")


def _wanted(topic: str | None, group: str | None, older_than: float | None) -> Filter:
    from pyrmq.admin.txn.halves import Filter
    from pyrmq.cli.admin.txn_text import now_ms

    limit = None if older_than is None else now_ms() - int(older_than * 1000)
    return Filter(topic, group, limit)


@txn.command("list")
@targeted
@_topic
@_group
@click.option(
    "--older-than",
    type=Seconds(0),
    metavar="SECONDS",
    help="Only what was sent so long ago.",
)
@click.option("--discarded", is_flag=True, help="Those in TRANS_CHECK_MAX_TIME_TOPIC instead.")
@click.option("--limit", type=click.IntRange(1, MAX_LIMIT), default=100, show_default=True)
@_json
def list_(
    target: Target,
    topic: str | None,
    group: str | None,
    older_than: float | None,
    discarded: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List what is neither committed nor rolled back, the oldest first.

    Messages that were sent a moment ago are in it as well: --older-than 60 leaves them out.
    """
    from pyrmq.admin.txn.scan import pending
    from pyrmq.admin.txn.transactions import list_discarded
    from pyrmq.cli.admin import txn_text as text
    from pyrmq.escape import escape, json_line

    wanted = _wanted(topic, group, older_than)

    async def scan_broker(link: BrokerLink, line: ProgressLine) -> tuple[list[Half], list[str]]:
        if discarded:
            halves, count = await list_discarded(link, limit, wanted, line)
            return halves, list(text.discarded_lines(link.name, count, limit))
        scan = await pending(link, limit, wanted, line)
        return scan.table.rows(), list(text.scan_lines(link.name, scan, limit))

    results = ask_each(target, scan_broker)
    found = [result for _, result in results if not isinstance(result, Exception)]
    rows = sorted((half for halves, _ in found for half in halves), key=lambda half: half.born)
    with text.printing():
        if as_json:
            for half in rows[:limit]:
                click.echo(json_line(text.half_json(half, discarded)))
        elif rows:
            for one in text.table(rows[:limit], len(results) > 1, discarded):
                click.echo(escape(one))
    for _, lines in found:
        for one in lines:
            click.echo(escape(one), err=True)
    _report_failures(results)


def _report_failures(results: list[Any]) -> None:
    """Names the brokers that did not answer; exit code 1 if there are any. One without
    transactions is no failure among others."""
    from pyrmq.admin.txn.scan import NoTransactionsError
    from pyrmq.errors import BrokerMissingError
    from pyrmq.escape import escape

    failures = [(name, e) for name, e in results if isinstance(e, Exception)]
    for name, e in failures:
        text = str(e) if isinstance(e, BrokerMissingError) else f"{name}: {e}"
        click.echo(escape(text), err=True)
    if any(not isinstance(e, NoTransactionsError) for _, e in failures):
        raise click.exceptions.Exit(1)


@txn.command()
@targeted
@_topic
@_group
@_json
def stats(target: Target, topic: str | None, group: str | None, as_json: bool) -> None:
    """Count what is pending, by topic and group, and what is in TRANS_CHECK_MAX_TIME_TOPIC."""
    from pyrmq.admin.txn.scan import statistics
    from pyrmq.cli.admin import txn_text as text
    from pyrmq.escape import escape, json_line

    wanted = _wanted(topic, group, None)
    results = ask_each(target, lambda link, line: statistics(link, wanted, line))
    with text.printing():
        for name, found in results:
            if isinstance(found, Exception):
                continue
            if as_json:
                click.echo(json_line(text.statistics_json(name, found)))
                continue
            for one in text.statistics_lines(name, found):
                click.echo(escape(one))
    _report_failures(results)


@txn.command()
@targeted
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option(
    "--body",
    type=click.IntRange(0, 1 << 20),
    default=256,
    show_default=True,
    metavar="BYTES",
    help="How much of the body is shown.",
)
@_json
def show(target: Target, ids: tuple[str, ...], body: int, as_json: bool) -> None:
    """Show all that brokers have of a transaction, and what became of it."""
    from pyrmq.cli.admin import txn_text as text
    from pyrmq.escape import escape, json_line

    found, missing = _find(target, ids)
    with text.printing():
        shown = {(t.link.name, t.identity): t for here in found.values() for t in here}
        for t in shown.values():
            if as_json:
                click.echo(json_line(text.transaction_json(t, body)))
                continue
            for one in text.transaction_lines(t, body):
                click.echo(escape(one))
    _end(missing)


Found = dict[str, list["Transaction"]]


def _find(target: Target, ids: Sequence[str]) -> tuple[Found, list[str]]:
    """What the ids lead to, and what is to be said of those that lead nowhere."""
    from pyrmq.admin.txn.finder import TransactionFinder
    from pyrmq.admin.txn.scan import NoTransactionsError
    from pyrmq.errors import PyrmqError

    async def work(links: Sequence[BrokerLink], line: ProgressLine) -> tuple[Found, list[str]]:
        found: Found = {}
        problems: list[str] = []
        finders = [TransactionFinder(link, line) for link in links]
        for name in dict.fromkeys(ids):
            here: list[Transaction] = []
            said = len(problems)
            for finder in finders:
                try:
                    here += await finder.find(name)
                except NoTransactionsError:
                    if len(finders) == 1:
                        raise
                except PyrmqError as e:
                    problems.append(f"{name}: {finder.link.name}: {e}")
            if here:
                found[name] = here
            elif said == len(problems):
                asked = ", ".join(link.name for link in links[:8])
                problems.append(f"{name}: no such transaction on {asked}")
        return found, problems

    return ask(target, work)


def _end(problems: Sequence[str]) -> None:
    from pyrmq.escape import escape

    for problem in problems:
        click.echo(f"Error: {escape(problem)}", err=True)
    if problems:
        raise click.exceptions.Exit(1)


def _ready(
    found: Found, check: Callable[[Transaction], object], problems: list[str]
) -> list[Transaction]:
    """The transactions that can be changed, each once; the others become problems."""
    from pyrmq.errors import ClientError

    ready: dict[Any, Transaction] = {}
    for name, here in found.items():
        if len(here) > 1:
            places = ", ".join(f"{t.message.offset_msg_id} on {t.link.name}" for t in here[:8])
            problems.append(f"{name} is {len(here)} transactions: name one of {places}")
            continue
        try:
            check(here[0])
        except ClientError as e:
            problems.append(str(e))
        else:
            ready[here[0].link.name, here[0].identity] = here[0]
    return list(ready.values())


def _change(
    target: Target,
    ids: Sequence[str],
    verb: str,
    yes: bool,
    check: Callable[[Transaction], object],
    act: Callable[[Transaction], Awaitable[Answer]],
) -> None:
    """Finds, asks, and does it for each that is still as it was found."""
    from pyrmq.admin.txn.finder import TransactionFinder
    from pyrmq.cli.admin.txn_text import age, now_ms
    from pyrmq.errors import ClientError, PyrmqError
    from pyrmq.escape import escape

    found, problems = _find(target, ids)
    ready = _ready(found, check, problems)
    if ready and not yes:
        for t in ready:
            old = age(now_ms() - t.message.born_timestamp)
            click.echo(
                f"{escape(t.label)} on {escape(t.link.name)}: topic {escape(t.topic)}, "
                f"producer group {escape(t.group)}, sent {old} ago, {t.state.value}"
            )
        click.confirm(f"{verb} {len(ready)} of them?", abort=True)

    async def find_again(t: Transaction, finders: dict[str, TransactionFinder]) -> Transaction:
        finder = finders.get(t.link.name)
        found = await finder.find(t.message.offset_msg_id) if finder is not None else []
        if not found:
            raise ClientError("it is not there any more")
        return found[0]

    async def work(links: Sequence[BrokerLink], line: ProgressLine) -> list[str]:
        finders = {link.name: TransactionFinder(link, line) for link in links}
        failed: list[str] = []
        for t in ready:
            try:
                again = await find_again(t, finders)
                check(again)
                answer = await act(again)
            except PyrmqError as e:
                failed.append(f"{t.label} on {t.link.name}: {e}")
                continue
            said = f"{t.label} on {t.link.name}: {verb}: the broker answered {answer}"
            if answer.done:
                click.echo(escape(said))
            else:
                failed.append(said)
        return failed

    if ready:
        problems += ask(target, work)
    _end(problems)


_yes = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
_ids = click.argument("ids", metavar="ID...", nargs=-1, required=True)


@txn.command()
@targeted
@_ids
@_yes
def commit(target: Target, ids: tuple[str, ...], yes: bool) -> None:
    """Commit: the message is delivered, as if its producer had said so."""
    from pyrmq.model.transaction import TransactionState

    _decide(target, ids, "commit", yes, TransactionState.COMMIT)


@txn.command()
@targeted
@_ids
@_yes
def rollback(target: Target, ids: tuple[str, ...], yes: bool) -> None:
    """Roll back: the message is never delivered, as if its producer had said so."""
    from pyrmq.model.transaction import TransactionState

    _decide(target, ids, "rollback", yes, TransactionState.ROLLBACK)


def _decide(target: Target, ids: Sequence[str], verb: str, yes: bool, state: Any) -> None:
    from pyrmq.admin.txn.transactions import check_decidable, decide

    _change(target, ids, verb, yes, lambda t: check_decidable(t, state), lambda t: decide(t, state))


@txn.command()
@targeted
@_ids
@_yes
def resume(target: Target, ids: tuple[str, ...], yes: bool) -> None:
    """Have the producer asked again about a transaction in TRANS_CHECK_MAX_TIME_TOPIC."""
    from pyrmq.admin.txn.transactions import check_resumable
    from pyrmq.admin.txn.transactions import resume as resume_it

    _change(target, ids, "resume", yes, check_resumable, resume_it)
