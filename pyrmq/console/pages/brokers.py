"""One broker: what it does now and did in the last hour, its figures, its clients, its disk."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrmq.admin.api import Admin
from pyrmq.admin.disk_usage import DiskUsage
from pyrmq.admin.health import DISK_HIGH
from pyrmq.admin.usage import BrokerUsage, NotKeptError
from pyrmq.console.charts import Line, chart
from pyrmq.console.figures import grouped
from pyrmq.console.history import history_of
from pyrmq.console.link import admin_of
from pyrmq.console.paging import listing, whole
from pyrmq.console.rendering import fragment, link, page
from pyrmq.console.room import Room
from pyrmq.console.samples import Hour
from pyrmq.console.views.servers import ORDER, Broker, servers
from pyrmq.errors import PyrmqError
from pyrmq.net.clock import now_ms

ROOM = Room("brokers", "Brokers", "/brokers", 20)
KINDS = {
    "client": "Clients",
    "producer": "Producer groups",
    "consumer": "Consumer groups",
    "topic": "Topics",
}
SPANS = {60: "the last minute", 600: "the last ten minutes", 3600: "the last hour"}
MOST_USERS = 100
LIMITS = {
    "diskMaxUsedSpaceRatio": "above it expired files are deleted at any hour",
    "diskSpaceCleanForciblyRatio": "above it old files are deleted before they expire",
    "diskSpaceWarningLevelRatio": "above it sends are refused",
}
"""What a broker does above each key, in percent of a disk."""
MOST_TOPICS = 100

COLUMNS = {
    "state": lambda b: (ORDER[b.health.state], b.health.cluster, b.name, b.number),
    "name": lambda b: (b.name, b.number),
    "boot": lambda b: b.boot or None,
    "connections": lambda b: b.connections,
    "today": lambda b: b.traffic.in_today if b.is_up else None,
    "log": lambda b: b.log_bytes,
    "disk": lambda b: b.health.disk,
}

CHARTS: tuple[tuple[str, tuple[tuple[str, str], ...], str, float | None, float | None], ...] = (
    ("Messages", (("in", "messages_in"), ("out", "messages_out")), "rate", None, None),
    ("Bytes", (("in", "bytes_in"), ("out", "bytes_out")), "bytes_rate", None, None),
    ("Lag of groups", (("", "backlog"),), "count", None, None),
    ("Disk", (("", "disk"),), "percent", DISK_HIGH, 100.0),
    ("Requests", (("", "requests"),), "rate", None, None),
    ("Connections", (("", "connections"),), "count", None, None),
    ("CPU, percent of one core", (("", "cpu"),), "percent", None, None),
    ("Event loop late", (("", "loop_late"),), "ms", None, None),
    ("Not flushed", (("", "flush_behind"),), "bytes", None, None),
    ("Not confirmed", (("", "confirm_behind"),), "bytes", None, None),
    ("Not in queues yet", (("", "index_behind"),), "bytes", None, None),
    ("Slave behind", (("", "slave_behind"),), "bytes", None, None),
)
"""Title, lines, unit, the marked value, the end of the scale. What a broker does not say has no
chart."""


def charts(hour: Hour, now: int) -> list[Markup]:
    """What a broker did in an hour."""
    found = []
    for title, parts, unit, limit, most in CHARTS:
        lines = [Line.of(name, hour, figure) for name, figure in parts]
        if any(line.points for line in lines):
            found.append(chart(title, lines, unit=unit, now=now, limit=limit, most=most))
    return found


async def listed(request: Request) -> Response:
    found = await servers(await admin_of(request))
    await history_of(request)
    rows = listing(request, found.brokers, COLUMNS, "state", lambda b: f"{b.name} {b.role}")
    return page(request, "brokers/list.html", found=found, brokers=rows)


async def shown(request: Request) -> Response:
    return page(request, "brokers/one.html", **await _values(request))


async def now(request: Request) -> Response:
    """What refreshes itself."""
    return fragment(request, "brokers/now.html", **await _values(request))


async def figures(request: Request) -> Response:
    """All that the broker says of itself."""
    broker = await _broker(request)
    await history_of(request)
    return page(
        request, "brokers/figures.html", broker=broker, groups=grouped(broker.runtime),
        **_places(broker),
    )  # fmt: skip


async def clients(request: Request) -> Response:
    """Who uses the broker."""
    broker = await _broker(request)
    await history_of(request)
    kind = request.query_params.get("kind", "client")
    kind = kind if kind in KINDS else "client"
    span = request.query_params.get("seconds", "")
    seconds = int(span) if span in map(str, SPANS) else 60
    usage, producers, problem = await users(await admin_of(request), broker, kind, seconds)
    return page(
        request, "brokers/clients.html", broker=broker, kind=kind, kinds=KINDS, seconds=seconds,
        spans=SPANS, usage=usage, producers=producers, problem=problem, **_places(broker),
    )  # fmt: skip


async def users(
    admin: Admin, broker: Broker, kind: str, seconds: int
) -> tuple[BrokerUsage | None, list[tuple[str, Any]], str]:
    """Who uses a pyrmq broker; of Apache's its producers, with their group; why not."""
    address = broker.health.address
    if not broker.is_up:
        return None, [], "The broker does not answer."
    try:
        return await admin.usage.top_of(address, kind, seconds=seconds, limit=MOST_USERS), [], ""
    except NotKeptError:
        pass
    except PyrmqError as e:
        return None, [], str(e)
    try:
        groups = await admin.producers.all(address)
    except PyrmqError as e:
        return None, [], str(e)
    rows = [(group, one) for group, instances in groups.items() for one in instances]
    return None, rows[:MOST_USERS], ""


async def disk(request: Request) -> Response:
    """What topics take of the disk, and what retention frees next."""
    broker = await _broker(request)
    await history_of(request)
    usage, problem = await disk_of(await admin_of(request), broker)
    freed = {part.topic: part for part in usage.next.topics} if usage else {}
    return page(
        request, "brokers/disk.html", broker=broker, usage=usage, problem=problem, freed=freed,
        limits=LIMITS, **_places(broker),
    )  # fmt: skip


async def disk_of(admin: Admin, broker: Broker) -> tuple[DiskUsage | None, str]:
    """The disk of a pyrmq broker, or why it is not known."""
    if not broker.is_up:
        return None, "The broker does not answer."
    try:
        (found,) = await admin.usage.disk(broker=broker.health.address, limit=MOST_TOPICS)
    except PyrmqError as e:
        return None, str(e)
    if isinstance(found.outcome.error, NotKeptError):
        return None, "Only pyrmq's brokers say what topics take of their disk."
    return found.outcome.value, "" if found.outcome.value else found.outcome.problem


async def _broker(request: Request) -> Broker:
    found = await servers(await admin_of(request))
    return found.of(request.path_params["name"], whole(request.path_params["number"], -1))


async def _values(request: Request) -> dict[str, Any]:
    broker = await _broker(request)
    history = await history_of(request)
    hour = Hour() if broker.is_denied else history.of_broker(broker.name, broker.number)
    return {
        "broker": broker,
        "hour": hour,
        "charts": charts(hour, now_ms()),
        **_places(broker),
    }


def _places(broker: Broker) -> dict[str, Any]:
    return {"base": link("/brokers/{}/{}", broker.name, broker.number)}


ROUTES = [
    Route("/brokers", listed),
    Route("/brokers/{name}/{number}", shown),
    Route("/brokers/{name}/{number}/now", now),
    Route("/brokers/{name}/{number}/figures", figures),
    Route("/brokers/{name}/{number}/clients", clients),
    Route("/brokers/{name}/{number}/disk", disk),
]
