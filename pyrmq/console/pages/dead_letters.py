"""The room of dead letters: which groups have any, what they are, resending and saving them."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import trio
from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrmq.admin.api import Admin
from pyrmq.admin.dead_letters import DeadLetter, Selection
from pyrmq.admin.letter_data import letter_data
from pyrmq.admin.link import AT_ONCE
from pyrmq.admin.resend import ResendPlan, ResentState, To
from pyrmq.console import audit, inputs
from pyrmq.console.changes import RefusedError, change, done, form_of
from pyrmq.console.downloads import download
from pyrmq.console.link import admin_of
from pyrmq.console.messages import stored
from pyrmq.console.messages.body import preview_of
from pyrmq.console.messages.listing import Asked, listed
from pyrmq.console.messages.looking import looking
from pyrmq.console.messages.names import topic_names
from pyrmq.console.paging import Listing, listing
from pyrmq.console.rendering import page
from pyrmq.console.room import Room
from pyrmq.errors import ClientError, PyrmqError, TopicNotExistError
from pyrmq.model.names import DLQ_PREFIX, check_group
from pyrmq.net.clock import now_ms

ROOM = Room("dead_letters", "Dead letters", "/dead-letters", 53)
MOST_COUNTED = 200
"""Groups whose letters are all counted, so that those with the most can come first."""
MOST_READ = 10_000
"""Letters that are read for a selection."""
MOST_RESENT = 500
"""Letters that one click resends. The next click goes on: those that were sent are skipped."""
MOST_CHOSEN = 200
FILTERS = ("begin", "end", "key", "topic", "id")


@dataclass(frozen=True, slots=True)
class LetterRow:
    """A group with a topic of dead letters. `count`: None if it is not known, `why` says why."""

    group: str
    count: int | None = None
    newest: int = 0
    why: str = ""


async def counted(admin: Admin, groups: list[str]) -> list[LetterRow]:
    """How many letters groups have: one question about each, some at a time."""
    found: dict[str, LetterRow] = {}
    waiting = iter(groups)

    async def work() -> None:
        for group in waiting:
            found[group] = await _count(admin, group)

    async with trio.open_nursery() as nursery:
        for _ in range(min(AT_ONCE, len(groups))):
            nursery.start_soon(work)
    return [found[group] for group in groups]


async def _count(admin: Admin, group: str) -> LetterRow:
    try:
        status = await admin.topics.status(DLQ_PREFIX + group)
    except TopicNotExistError:
        return LetterRow(group, 0)
    except PyrmqError as e:
        return LetterRow(group, None, why=str(e))
    queues = [q for q in status.queues if q.end > q.first]
    return LetterRow(
        group,
        sum(q.end - q.first for q in queues),
        max((q.updated for q in queues), default=0),
        "; ".join(o.problem for o in status.failed),
    )


@looking
async def groups(request: Request) -> Response:
    """The groups that have a topic of dead letters."""
    admin = await admin_of(request)
    names = [
        t.removeprefix(DLQ_PREFIX) for t in await topic_names(admin) if t.startswith(DLQ_PREFIX)
    ]
    every = len(names) <= MOST_COUNTED
    if every:
        rows = await counted(admin, names)
        empty = sum(row.count == 0 for row in rows)
        rows = [row for row in rows if row.count != 0]
        columns = {
            "group": lambda r: r.group,
            "count": lambda r: r.count,
            "newest": lambda r: r.newest,
        }
        counts = listing(request, rows, columns, "-newest", lambda r: r.group)
        shown: Listing[Any] = counts
        here = counts.rows
    else:
        empty = 0
        by_name = listing(request, names, {"group": lambda name: name}, "group", str)
        shown = by_name
        here = await counted(admin, by_name.rows)
    return page(
        request, "dead_letters/groups.html", list=shown, rows=here, every=every, empty=empty
    )


def selection_of(values: QueryParams | FormData) -> Selection:
    """The letters that an address or a form selects: those that are chosen one by one, or what the
    filter leaves. ClientError."""
    chosen = [str(v) for v in values.getlist("chosen")]
    if chosen:
        return _chosen(chosen)
    return Selection(
        inputs.moment(values, "begin"),
        inputs.moment(values, "end"),
        inputs.text(values, "key") or None,
        inputs.text(values, "topic") or None,
        frozenset(inputs.text(values, "id").split()),
    )


def _chosen(texts: list[str]) -> Selection:
    """Letters by `ID/STORE TIME`: only what was stored from the first to the last is read."""
    if len(texts) > MOST_CHOSEN:
        raise RefusedError(f"at most {MOST_CHOSEN} letters are chosen one by one: use the filter")
    ids, times = set(), []
    for text in texts:
        name, slash, at = text.partition("/")
        if not (slash and name.isalnum() and at.isascii() and at.isdecimal() and len(text) < 128):
            raise RefusedError("the form names something that is no dead letter")
        ids.add(name)
        times.append(int(at))
    return Selection(min(times), max(times) + 1, ids=frozenset(ids))


def _group(values: Any) -> str:
    group = inputs.needed(values, "group").removeprefix(DLQ_PREFIX)
    check_group(group)
    return group


@looking
async def letters(request: Request) -> Response:
    """The letters of one group."""
    admin = await admin_of(request)
    query = request.query_params
    group = _group(query)
    selection = selection_of(query)
    wanted = Asked(
        DLQ_PREFIX + group,
        begin=selection.begin,
        end=selection.end,
        cursor=str(query.get("cursor", "")),
    )
    try:
        found = await listed(
            admin, wanted, wants=lambda message: selection.wants(DeadLetter(group, message))
        )
    except TopicNotExistError:  # it is made with the first letter
        return page(request, "dead_letters/none.html", group=group)
    kept = {name: inputs.text(query, name) for name in FILTERS}
    return page(
        request,
        "dead_letters/letters.html",
        group=group,
        list=found,
        letters=[DeadLetter(group, m) for m in found.messages],
        values=kept,
        kept={"group": group} | {n: v for n, v in kept.items() if v},
        preview=preview_of,
        address_of=stored.address_of,
    )


async def _plan(admin: Admin, group: str, to: To, selection: Selection) -> ResendPlan:
    parts = await admin.dead_letters.parts(group, selection)
    if sum(part.end - part.begin for part in parts) > MOST_READ:
        raise ClientError(
            f"more than {MOST_READ} letters would have to be read: select a shorter time, or use "
            f"`pyrmq admin dlq resend {group}`"
        )
    return await admin.dead_letters.preview(group, to, selection)


def _target(values: QueryParams | FormData) -> To:
    try:
        return To(inputs.text(values, "to"))
    except ValueError:
        raise RefusedError("say where to: topic or group") from None


@looking
async def ask(request: Request) -> Response:
    """What a resend would do. It changes nothing."""
    admin = await admin_of(request)
    query = request.query_params
    group, to = _group(query), _target(query)
    selection = selection_of(query)
    if selection.end is None:  # what comes in from now on is not part of it
        now = now_ms()
        selection = Selection(
            selection.begin, now + 1, selection.key, selection.topic, selection.ids
        )
    plan = await _plan(admin, group, to, selection)
    chosen = [str(v) for v in query.getlist("chosen")]
    fields: dict[str, Any] = {"group": group, "to": to.value}
    if not chosen:
        fields |= {name: inputs.text(query, name) for name in ("key", "topic", "id")}
        fields |= {"begin": selection.begin or "", "end": selection.end}
    return page(
        request,
        "dead_letters/resend.html",
        plan=plan,
        group=group,
        to=to,
        fields={name: value for name, value in fields.items() if value != ""},
        chosen=chosen,
        most=MOST_RESENT,
    )


@change("dead_letters.resend", about=("group", "to", "begin", "end", "key", "topic", "id", "again"))
async def resend(request: Request) -> Response:
    admin = await admin_of(request)
    form = await form_of(request)
    group, to, again = _group(form), _target(form), inputs.text(form, "again") == "yes"
    plan = await _plan(admin, group, to, selection_of(form))
    if again and plan.letters > MOST_RESENT:
        raise RefusedError(f"at most {MOST_RESENT} letters are sent again at once")
    counts = dict.fromkeys(ResentState, 0)
    problems: list[str] = []
    left = False
    try:
        async with aclosing(admin.dead_letters.resend(plan, again=again)) as results:
            async for one in results:
                counts[one.state] += 1
                about = {"group": group, "letter": one.letter.id, "target": one.target or ""}
                said = one.result.offset_msg_id if one.result else str(one.error or "")
                outcome = f"{one.state.value} {said}".strip()
                audit.line(request, "dead_letters.resend.one", about, outcome)
                if one.error is not None:
                    problems.append(f"{one.letter.id}: {one.error}")
                if counts[ResentState.SENT] + counts[ResentState.FAILED] >= MOST_RESENT:
                    left = sum(counts.values()) < plan.letters
                    break
    except PyrmqError as e:
        problems.append(str(e))
    told = [f"{n} {state.value}" for state, n in counts.items() if n]
    text = f"Dead letters of group {group}: {', '.join(told) or 'nothing to resend'}."
    if counts[ResentState.SKIPPED] and not left:
        text += " What is skipped was resent before: choose that to resend it again."
    if left:
        text += f" It stopped after {MOST_RESENT}: resend again, those that were sent are skipped."
    if problems:
        text += f" {'; '.join(problems[:5])}"
        if len(problems) > 5:
            text += f"; {len(problems) - 5} more failed"
    if problems and not counts[ResentState.SENT] and not counts[ResentState.SKIPPED]:
        raise ClientError(text)
    to_page = f"/dead-letters/group?{_query(group)}"
    return done(request, text, to=to_page, bad=bool(problems))


def _query(group: str) -> str:
    return str(QueryParams({"group": group}))


@looking
async def export(request: Request) -> Response:
    """The selected letters as a file of JSON lines, with their whole bodies."""
    admin = await admin_of(request)
    group = _group(request.query_params)
    selection = selection_of(request.query_params)
    await admin.dead_letters.parts(group, selection)  # an error is a page, not a file
    return download(_lines(admin, group, selection), f"dead-letters-{group[:100]}.jsonl")


async def _lines(admin: Admin, group: str, selection: Selection) -> AsyncIterator[bytes]:
    """A line a letter. What could not be read is told by a last line with nothing but `error`."""
    try:
        async with aclosing(admin.dead_letters.read(group, selection)) as found:
            async for letter in found:
                yield _line(letter_data(letter))
    except PyrmqError as e:
        yield _line({"error": str(e)})


def _line(values: dict[str, Any]) -> bytes:
    body = values.get("body")
    if isinstance(body, bytes):
        try:
            values = {**values, "body": body.decode()}
        except UnicodeDecodeError:
            values = {**values, "body": {"base64": base64.b64encode(body).decode()}}
    return json.dumps(values).encode() + b"\n"


ROUTES = [
    Route("/dead-letters", groups),
    Route("/dead-letters/group", letters),
    Route("/dead-letters/export", export),
    Route("/dead-letters/resend", ask, methods=["GET"]),
    Route("/dead-letters/resend", resend, methods=["POST"]),
]
