"""The room of traces: the whole life of one message as a line of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrmq.admin.api import Admin
from pyrmq.admin.life_facts import Fact, What
from pyrmq.admin.life_groups import Life
from pyrmq.console import inputs
from pyrmq.console.link import admin_of
from pyrmq.console.messages.looking import looking
from pyrmq.console.messages.stored import check_address
from pyrmq.console.rendering import page
from pyrmq.console.room import Room
from pyrmq.errors import ClientError, PyrmqError
from pyrmq.model.names import TRACE_TOPIC

ROOM = Room("traces", "Traces", "/traces", 51)
PATIENCE = 30.0
"""Seconds for one search."""
MOST_LIVES = 8
MOST_FACTS = 500
FIELDS = ("topic", "id", "key", "trace_topic")
_BAD = frozenset({What.FAILED, What.DEAD})
_WAITS = frozenset({What.WAITS, What.RETRY, What.CHECKED, What.HALF})
_GOOD = frozenset({What.CONSUMED, What.SETTLED})


@dataclass(frozen=True, slots=True)
class Step:
    """A fact on the line of time. `after`: seconds since the one before, None for the first."""

    fact: Fact
    after: float | None
    kind: str
    place: dict[str, Any] | None
    """Where the message of the fact is, for a link; None if the fact names none."""


@dataclass(frozen=True, slots=True)
class Line:
    """The life of one message. `spent`: seconds from the first to the last fact that has a
    time."""

    message_id: str
    topic: str | None
    steps: list[Step]
    unknown: list[str]
    failed: list[str]
    spent: float
    more: int


def line_of(life: Life) -> Line:
    steps: list[Step] = []
    before = 0
    for fact in life.facts[:MOST_FACTS]:
        after = (fact.time - before) / 1000 if before and fact.time else None
        steps.append(Step(fact, after, _kind(fact), _place(fact)))
        before = fact.time or before
    times = [fact.time for fact in life.facts if fact.time]
    return Line(
        life.message_id,
        life.topic,
        steps,
        list(life.unknown),
        list(dict.fromkeys(o.problem for o in life.failed)),
        (max(times) - min(times)) / 1000 if times else 0.0,
        max(len(life.facts) - MOST_FACTS, 0),
    )


def _kind(fact: Fact) -> str:
    if fact.what in _BAD:
        return "bad"
    if fact.what in _WAITS:
        return "warn"
    return "good" if fact.what in _GOOD else ""


def _place(fact: Fact) -> dict[str, Any] | None:
    at = fact.detail
    if not {"topic", "broker", "queueId", "queueOffset"} <= at.keys():
        return None
    return {
        "topic": at["topic"],
        "broker": at["broker"],
        "queue": at["queueId"],
        "offset": at["queueOffset"],
    }


async def lines(
    admin: Admin, message_id: str, key: str, topic: str | None, trace_topic: str
) -> list[Line]:
    """The lives of the message with an id, or of those with a key."""
    with trio.move_on_after(PATIENCE):
        if message_id:
            await check_address(admin, message_id)
            found = [await admin.lives.of_id(message_id, topic=topic, trace_topic=trace_topic)]
        else:
            found = await admin.lives.of_key(
                key, topic=topic, limit=MOST_LIVES, trace_topic=trace_topic
            )
        return [line_of(one) for one in found]
    raise ClientError(f"the search took more than {PATIENCE:g} seconds: say the topic as well")


@looking
async def shown(request: Request) -> Response:
    values = {name: inputs.text(request.query_params, name) for name in FIELDS}
    found: list[Line] = []
    error = ""
    if values["id"] or values["key"]:
        try:
            found = await lines(
                await admin_of(request),
                values["id"],
                values["key"],
                values["topic"] or None,
                values["trace_topic"] or TRACE_TOPIC,
            )
        except PyrmqError as e:
            error = str(e)
    return page(
        request, "traces/shown.html", values=values, lines=found, error=error, usual=TRACE_TOPIC
    )


ROUTES = [Route("/traces", shown)]
