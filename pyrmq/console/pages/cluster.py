"""The first page: what is wrong, what the brokers do, the name servers, an hour of all together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrmq.admin.health import DISK_HIGH
from pyrmq.admin.monitoring.metrics import METRICS
from pyrmq.console.charts import Line, chart
from pyrmq.console.history import history_of
from pyrmq.console.link import admin_of
from pyrmq.console.paging import listing
from pyrmq.console.rendering import fragment, page
from pyrmq.console.room import Room
from pyrmq.console.samples import Hour
from pyrmq.console.views.servers import ORDER, Broker, servers
from pyrmq.net.clock import now_ms

ROOM = Room("cluster", "Cluster", "/cluster", 10)
MOST_PROBLEMS = 12
"""What is wrong is shown so often at most; the rest is counted."""

COLUMNS = {
    "state": lambda b: (ORDER[b.health.state], b.health.cluster, b.name, b.number),
    "name": lambda b: (b.name, b.number),
    "in": lambda b: b.messages_in,
    "out": lambda b: b.messages_out,
    "disk": lambda b: b.health.disk,
    "behind": lambda b: b.health.behind,
}


def charts(hour: Hour, now: int) -> list[Markup]:
    """What all brokers did in an hour."""
    pairs = (("Messages", "messages", "rate"), ("Bytes", "bytes", "bytes_rate"))
    found = [
        chart(
            title,
            [Line.of("in", hour, f"{name}_in"), Line.of("out", hour, f"{name}_out")],
            unit=unit,
            now=now,
        )
        for title, name, unit in pairs
    ]
    backlog = Line.of("", hour, "backlog")
    if backlog.points:
        found.append(chart("Lag of groups", [backlog], unit="count", now=now))
    disk = Line.of("", hour, "disk")
    found.append(
        chart("Fullest disk", [disk], unit="percent", now=now, limit=DISK_HIGH, most=100.0)
    )
    return found


async def shown(request: Request) -> Response:
    return page(request, "cluster/list.html", **await _values(request))


async def now(request: Request) -> Response:
    """What refreshes itself."""
    return fragment(request, "cluster/now.html", live=True, **await _values(request))


async def _values(request: Request) -> dict[str, Any]:
    cluster = request.query_params.get("cluster") or None
    found = await servers(await admin_of(request), cluster)
    history = await history_of(request)
    hour = history.of_cluster(cluster) if found.may_look else Hour()
    brokers = listing(request, found.brokers, COLUMNS, "state", _text)
    problems = found.problems
    masters = [b for b in found.brokers if b.is_master]
    lags = [history.newest_of(b.name, b.number).last("backlog") for b in masters if b.is_up]
    return {
        "found": found,
        "cluster": cluster or "",
        "brokers": replace(brokers, path=ROOM.path),
        "problems": problems[:MOST_PROBLEMS],
        "more": len(problems) - MOST_PROBLEMS,
        "metrics": METRICS,
        "lag_of": lag_of(sum(lag is not None for lag in lags), len(masters)),
        "firing": history.found().firing if found.may_look else (),
        "hour": hour,
        "own": {(b.name, b.number): history.newest_of(b.name, b.number) for b in brokers.rows}
        if found.may_look
        else {},
        "messages_in": _sum([b.messages_in for b in found.brokers if b.is_master]),
        "messages_out": _sum([b.messages_out for b in found.brokers]),
        "charts": charts(hour, now_ms()),
        "not_sampled": history.problem,
    }


def lag_of(known: int, masters: int) -> str:
    """What the lag of the cluster counts. Masters that are down, and Apache's, do not tell it."""
    return "of all groups" if known == masters else f"at {known} of {masters} masters"


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _text(broker: Broker) -> str:
    return f"{broker.name} {broker.health.cluster} {broker.health.address} {broker.role}"


ROUTES = [Route("/cluster", shown), Route("/cluster/now", now)]
