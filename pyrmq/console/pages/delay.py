"""The room of delays: what waits at which level, when timers are due, taking a timer back."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrmq.admin.timers import span_of
from pyrmq.console import inputs
from pyrmq.console.changes import change, done, form_of
from pyrmq.console.link import admin_of
from pyrmq.console.messages import stored, waiting
from pyrmq.console.messages.listing import Asked, Listing, listed
from pyrmq.console.messages.looking import looking
from pyrmq.console.rendering import duration, fragment, page
from pyrmq.console.room import Room
from pyrmq.errors import ClientError, TopicNotExistError
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from pyrmq.model.properties import REAL_TOPIC
from pyrmq.model.record import ReceivedMessage
from pyrmq.net.clock import now_ms

ROOM = Room("delay", "Delays and timers", "/delay", 54)
MOST_TOPICS = 50
"""Topics whose timers are counted on the page."""


def topic_counts(found: waiting.Waiting) -> list[tuple[str, int]]:
    """How many timers wait for each topic, on all brokers; the most first."""
    counts: dict[str, int] = {}
    for of in found.timers:
        for row in of.figures.topics:
            if row.count > 0:
                counts[row.topic] = counts.get(row.topic, 0) + row.count
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def by_level(found: waiting.Waiting) -> list[list[waiting.Level]]:
    """The levels that have something, each with its brokers."""
    levels: dict[int, list[waiting.Level]] = {}
    for level in found.levels:
        levels.setdefault(level.level, []).append(level)
    return [here for _, here in sorted(levels.items())]


async def _values(request: Request) -> dict[str, Any]:
    found = await waiting.waiting(await admin_of(request))
    topics = topic_counts(found)
    most = max((bar.count for bar in found.bars), default=0)
    return {
        "found": found,
        "levels": by_level(found),
        "bars": [
            (span_of(found.bars, at, duration), bar.count, bar.count / most if most else 0.0)
            for at, bar in enumerate(found.bars)
        ],
        "topics": topics[:MOST_TOPICS],
        "more_topics": max(len(topics) - MOST_TOPICS, 0),
    }


@looking
async def shown(request: Request) -> Response:
    return page(request, "delay/shown.html", **await _values(request))


async def figures(request: Request) -> Response:
    """The part of the page that refreshes itself."""
    return fragment(request, "delay/figures.html", **await _values(request))


@looking
async def level(request: Request) -> Response:
    """What waits at one level of one broker, what is due first first."""
    admin = await admin_of(request)
    query = request.query_params
    broker, number = inputs.needed(query, "broker"), inputs.number(query, "level")
    if number is None or not 0 < number <= waiting.MOST_LEVELS:
        raise ClientError(f"level is a number from 1 to {waiting.MOST_LEVELS}")
    wanted = Asked(
        SCHEDULE_TOPIC,
        broker=broker,
        queue_id=number - 1,
        offset=inputs.number(query, "from"),
        newest=False,
        cursor=str(query.get("cursor", "")),
    )
    found = await listed(admin, wanted)
    return page(
        request,
        "delay/level.html",
        list=found,
        broker=broker,
        level=number,
        delay=await waiting.delay_of(admin, broker, number),
        real_topic=REAL_TOPIC,
        first=inputs.text(query, "from"),
        address_of=stored.address_of,
    )


@looking
async def timers(request: Request) -> Response:
    """Timer messages that wait, those that were sent last first."""
    admin = await admin_of(request)
    query = request.query_params
    now = now_ms()
    topic = inputs.text(query, "topic")

    def wants(message: ReceivedMessage) -> bool:
        row = waiting.TimerRow.of(message)
        mine = topic in ("", row.topic) and not waiting.is_of_pop(message)
        return mine and row.due > now

    wanted = Asked(TIMER_TOPIC, cursor=str(query.get("cursor", "")))
    try:
        found = await listed(admin, wanted, wants=wants)
    except TopicNotExistError:  # brokers older than RocketMQ 5
        found = Listing([], 0, 0, "")
    rows = waiting.newest_of_each([waiting.TimerRow.of(m) for m in found.messages])
    recalled = {row.recalls for row in rows if row.recalls}
    return page(
        request,
        "delay/timers.html",
        list=found,
        rows=[(row, row.state(now, recalled)) for row in rows],
        topic=topic,
        address_of=stored.address_of,
    )


def _queue(values: Any) -> tuple[MessageQueue, int]:
    """The place of a timer message that an address or a form names."""
    offset = inputs.number(values, "offset")
    if offset is None:
        raise ClientError("say offset")
    return MessageQueue(TIMER_TOPIC, inputs.needed(values, "broker"), 0), offset


@looking
async def ask_recall(request: Request) -> Response:
    """The confirmation of a recall."""
    queue, offset = _queue(request.query_params)
    message = await stored.at(await admin_of(request), queue, offset)
    waiting.recall_handle(message)
    return page(
        request,
        "delay/recall.html",
        row=waiting.TimerRow.of(message),
        m=message,
        fields={"broker": queue.broker_name, "offset": offset},
        address_of=stored.address_of,
    )


@change("timer.recall", about=("broker", "offset"))
async def recall(request: Request) -> Response:
    admin = await admin_of(request)
    queue, offset = _queue(await form_of(request))
    message = await stored.at(admin, queue, offset)
    await waiting.recall(admin, message)
    text = f"The broker has taken back {message.msg_id}: it is not delivered."
    return done(request, text, to="/delay/timers")


ROUTES = [
    Route("/delay", shown),
    Route("/delay/figures", figures),
    Route("/delay/level", level),
    Route("/delay/timers", timers),
    Route("/delay/recall", ask_recall, methods=["GET"]),
    Route("/delay/recall", recall, methods=["POST"]),
]
