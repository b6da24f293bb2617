"""The room of transactions: what waits for a decision, and deciding by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrmq.admin.api import Admin
from pyrmq.admin.outcome import Outcomes
from pyrmq.admin.runtime_info import whole
from pyrmq.admin.transactions import Decided
from pyrmq.admin.txn.finder import State, Transaction
from pyrmq.admin.txn.halves import Filter, Half
from pyrmq.admin.txn.scan import NoTransactionsError, Scan
from pyrmq.console import audit, inputs
from pyrmq.console.changes import RefusedError, change, done, form_of
from pyrmq.console.link import admin_of
from pyrmq.console.messages import stored
from pyrmq.console.messages.body import view_of
from pyrmq.console.messages.looking import looking
from pyrmq.console.messages.waiting import NO_MASTER
from pyrmq.console.rendering import page
from pyrmq.console.room import Room
from pyrmq.errors import ClientError, PyrmqError
from pyrmq.net.clock import now_ms

ROOM = Room("transactions", "Transactions", "/transactions", 52)
SHOWN = 100
"""Transactions that a page lists, the oldest."""
MOST_PLACES = 50
"""Pairs of topic and producer group that a page counts."""
MOST_AT_ONCE = 100
"""Transactions that are decided at once."""
PATIENCE = 15.0
"""Seconds for reading what waits: a broker may have millions of halves."""
TOO_MANY = f"what is there could not be read within {PATIENCE:g} seconds"
LATE = 60_000
"""ms after which a transaction is late: by then its broker has asked the producer."""
VERBS = {
    "commit": "Commit",
    "rollback": "Roll back",
    "resume": "Have the producer asked again",
}


@dataclass(frozen=True, slots=True)
class Place:
    """What waits of one topic and producer group, on all brokers. `oldest`: when the oldest was
    sent, ms since 1970."""

    topic: str
    group: str
    count: int
    oldest: int | None


@dataclass(frozen=True, slots=True)
class Pending:
    """What waits. `count`: of all brokers; `exact` is False if there are more. `halves`: the oldest
    that were asked for. `without`: brokers to which no transaction was ever sent."""

    count: int
    exact: bool
    oldest: int | None
    halves: list[Half]
    places: list[Place]
    more_places: int
    damaged: int
    without: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    too_many: bool = False
    """Whether there was more than could be read in time: then only `count` is known, as far as
    brokers count."""

    @property
    def late(self) -> bool:
        """Whether the oldest waits longer than a broker lets a producer take, by default."""
        return self.oldest is not None and now_ms() - self.oldest > LATE


async def pending(admin: Admin, wanted: Filter) -> Pending:
    """What is neither committed nor rolled back."""
    if not await admin.link.replicas(slaves=False, default_all=True):
        return Pending(0, True, None, [], [], 0, 0, failed=[NO_MASTER])
    with trio.move_on_after(PATIENCE):
        return _added_up(await admin.transactions.pending(wanted, limit=SHOWN))
    return await _counted(admin)


async def _counted(admin: Admin) -> Pending:
    """What brokers say of their number; Apache's say nothing."""
    masters = await admin.link.masters(default_all=True)
    found = await admin.link.on_each(masters, admin.brokers.runtime_of)
    counts = [whole(runtime, "transactionPendingCount") for runtime in found.values]
    ages = [whole(runtime, "transactionOldestPendingAgeMs") for runtime in found.values]
    oldest = now_ms() - max(ages) if any(ages) else None
    failed = [o.problem for o in found.failed]
    return Pending(sum(counts), False, oldest, [], [], 0, 0, failed=failed, too_many=True)


def _added_up(found: Outcomes[Scan]) -> Pending:
    scans = found.values
    places: dict[tuple[str, str], Place] = {}
    for scan in scans:
        for (topic, group), place in scan.table.places.items():
            known = places.get((topic, group))
            ages = [place.oldest, known.oldest if known else None]
            count = place.count + (known.count if known else 0)
            places[topic, group] = Place(
                topic, group, count, min((a for a in ages if a is not None), default=None)
            )
    in_order = sorted(places.values(), key=lambda p: (-p.count, p.topic, p.group))
    halves = sorted((h for s in scans for h in s.table.rows()), key=lambda h: h.born)
    return Pending(
        sum(s.table.count for s in scans),
        all(s.table.exact for s in scans),
        min((s.table.oldest for s in scans if s.table.oldest is not None), default=None),
        halves[:SHOWN],
        in_order[:MOST_PLACES],
        max(len(in_order) - MOST_PLACES, 0),
        sum(s.damaged for s in scans),
        *_silent(found),
    )


def _silent(found: Outcomes[Any]) -> tuple[list[str], list[str]]:
    """Brokers without transactions, and what the others failed with."""
    without = [o.name or o.target for o in found.failed if _empty(o.error)]
    return without, [o.problem for o in found.failed if not _empty(o.error)]


def _empty(error: PyrmqError | None) -> bool:
    return isinstance(error, NoTransactionsError)


@looking
async def shown(request: Request) -> Response:
    values = {name: inputs.text(request.query_params, name) for name in ("topic", "group", "older")}
    now = now_ms()
    wanted = Filter(
        values["topic"] or None,
        values["group"] or None,
        inputs.moment(request.query_params, "older", now=now),
    )
    found = await pending(await admin_of(request), wanted)
    return page(request, "transactions/pending.html", found=found, values=values, shown=SHOWN)


@looking
async def discarded(request: Request) -> Response:
    """What brokers have given up, as no producer answered in time."""
    admin = await admin_of(request)
    with trio.move_on_after(PATIENCE) as scope:
        found = await admin.transactions.discarded(limit=SHOWN)
    if scope.cancelled_caught:
        raise ClientError(f"{TOO_MANY}: use `pyrmq admin txn list --discarded`")
    without, failed = _silent(found)
    halves = sorted((h for part in found.values for h in part.halves), key=lambda h: h.born)
    return page(
        request,
        "transactions/discarded.html",
        halves=halves[:SHOWN],
        count=sum(part.count for part in found.values),
        failed=failed,
        without=without,
        shown=SHOWN,
    )


async def _one(admin: Admin, broker: str, name: str) -> list[Transaction]:
    found = await admin.transactions.find([name], broker=broker)
    here = found.transactions.get(name, [])
    if not here:
        raise ClientError("; ".join(found.problems) or f"there is no transaction {name}")
    return here


async def _check_broker(admin: Admin, broker: str) -> str:
    """The address of a broker of the cluster. ClientError for any other address."""
    masters = await admin.link.masters(default_all=True)
    if all(m.address != broker for m in masters):
        raise ClientError(f"{broker} is the address of no master of this cluster")
    return broker


@looking
async def one(request: Request) -> Response:
    """All that a broker has of one transaction."""
    admin = await admin_of(request)
    query = request.query_params
    broker = await _check_broker(admin, inputs.needed(query, "broker"))
    here = await _one(admin, broker, inputs.needed(query, "id"))
    return page(
        request,
        "transactions/one.html",
        found=[(t, view_of(t.message)) for t in here],
        states=State,
        address_of=stored.address_of,
    )


@dataclass(frozen=True, slots=True)
class Choice:
    """A transaction that a form names: its broker's address and an id that leads to it there."""

    broker: str
    name: str

    def __str__(self) -> str:
        return f"{self.broker}/{self.name}"


def chosen_of(texts: Sequence[str]) -> list[Choice]:
    """The transactions that a form names. RefusedError for none, too many, or another text."""
    found: list[Choice] = []
    for text in dict.fromkeys(texts):
        broker, slash, name = text.partition("/")
        if not (broker and slash and name and len(text) <= inputs.LONGEST):
            raise RefusedError("the form names something that is no transaction")
        found.append(Choice(broker, name))
    if not found:
        raise RefusedError("choose at least one transaction")
    if len(found) > MOST_AT_ONCE:
        raise RefusedError(f"at most {MOST_AT_ONCE} transactions are decided at once")
    return found


def _by_broker(choices: Sequence[Choice]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for choice in choices:
        found.setdefault(choice.broker, []).append(choice.name)
    return found


@looking
async def ask(request: Request) -> Response:
    """What is going to be decided, as it stands now. It changes nothing."""
    admin = await admin_of(request)
    query = request.query_params
    verb = inputs.text(query, "verb")
    if verb not in VERBS:
        raise ClientError("say what to do: commit, rollback or resume")
    found: list[Transaction] = []
    problems: list[str] = []
    for broker, names in _by_broker(chosen_of([str(v) for v in query.getlist("chosen")])).items():
        try:
            here = await admin.transactions.find(names, broker=await _check_broker(admin, broker))
        except PyrmqError as e:
            problems.append(f"{broker}: {e}")
            continue
        found += [t for of_name in here.transactions.values() for t in of_name]
        problems += here.problems
    return page(
        request,
        "transactions/decide.html",
        found=found,
        problems=problems,
        verb=verb,
        title=VERBS[verb],
        states=State,
    )


async def _decide(request: Request, verb: str) -> Response:
    admin = await admin_of(request)
    form = await form_of(request)
    by_broker = _by_broker(chosen_of([str(v) for v in form.getlist("chosen")]))
    results: list[Decided] = []
    act = getattr(admin.transactions, verb)
    for broker, names in by_broker.items():
        of_broker = await act(names, broker=await _check_broker(admin, broker))
        for one in of_broker:
            about = {"broker": broker, "transaction": one.name}
            audit.line(request, f"transaction.{verb}.one", about, str(one.answer or one.error))
        results += of_broker
    good = [r for r in results if r.done]
    bad = [r for r in results if not r.done]
    words = {"commit": "committed", "rollback": "rolled back", "resume": "asked about again"}[verb]
    if not good:
        raise ClientError("; ".join(map(_said, bad[:5])))
    text = f"{len(good)} {words}."
    if bad:
        text += f" {len(bad)} failed: {'; '.join(map(_said, bad[:5]))}"
    return done(request, text, to="/transactions", bad=bool(bad))


def _said(result: Decided) -> str:
    return f"{result.name}: {result.answer or result.error}"


@change("transaction.commit")
async def commit(request: Request) -> Response:
    return await _decide(request, "commit")


@change("transaction.rollback")
async def rollback(request: Request) -> Response:
    return await _decide(request, "rollback")


@change("transaction.resume")
async def resume(request: Request) -> Response:
    return await _decide(request, "resume")


ROUTES = [
    Route("/transactions", shown),
    Route("/transactions/discarded", discarded),
    Route("/transactions/one", one),
    Route("/transactions/decide", ask),
    Route("/transactions/commit", commit, methods=["POST"]),
    Route("/transactions/rollback", rollback, methods=["POST"]),
    Route("/transactions/resume", resume, methods=["POST"]),
]
