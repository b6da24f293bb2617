"""Who uses the broker, and its own figures of the last hour: two requests that only pyrmq's brokers
take. The answers are JSON."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import islice
from typing import Any

import trio

from pyrmq.broker.requests import fields
from pyrmq.broker.stats.folding import FIGURES, LOOK, N
from pyrmq.broker.stats.use import COUNTED, KINDS, POINTS, Use, client_of
from pyrmq.engine import Command
from pyrmq.errors import InvalidParameterError
from pyrmq.net import fastjson
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import Steps, Turns

MAX_ROWS = 1024
"""Most rows of one answer; `offset` leads to the others."""
MAX_SECONDS = 3600
DEFAULT_ROWS = 20
_ORDERS = {
    **{name: (at,) for at, name in enumerate(FIGURES)},
    "messages": (0, 2),
    "bytes": (1, 3),
}
"""What rows may be sorted by: the sum of these figures."""


class UseProcessor:
    """`clock`: that of the samplings."""

    def __init__(self, use: Use, clock: Callable[[], float] = trio.current_time) -> None:
        self._use = use
        self._clock = clock
        self._turns = Turns()

    async def use(self, connection: Connection, command: Command) -> Response:
        """GET_BROKER_USE: rows of one `kind` (client, producer, consumer, topic) over the last
        `seconds`, sorted by `sort`, `limit` of them from `offset` on. `others`: what those used who
        have no row, and how many they are at least."""
        kind = command.ext.get("kind") or "client"
        if kind not in KINDS:
            raise InvalidParameterError(f"kind {kind[:32]!r} is none of {', '.join(KINDS)}")
        sort = command.ext.get("sort") or "bytes"
        if sort not in _ORDERS:
            raise InvalidParameterError(f"sort {sort[:32]!r} is none of {', '.join(_ORDERS)}")
        seconds = _within(command, "seconds", 60, MAX_SECONDS)
        limit = _within(command, "limit", DEFAULT_ROWS, MAX_ROWS)
        offset = fields.int32(command, "offset", 0)
        if offset < 0:
            raise InvalidParameterError(f"offset {offset} is below 0")
        body = await self._turns.run(self._body(kind, sort, seconds, limit, offset), connection)
        return Response(body=body)

    def _body(self, kind: str, sort: str, seconds: int, limit: int, offset: int) -> Steps[bytes]:
        span = yield from self._use.rings[kind].over(seconds)
        order = _ORDERS[sort]
        total = list(span.others)
        runs: list[list[tuple[int, str]]] = []
        for at, (name, row) in enumerate(span.rows.items()):
            if at % LOOK == 0:
                yield
                runs.append([])
            for i in range(N):
                total[i] += row[i]
            runs[-1].append((-sum(row[i] for i in order), name))
        for run in runs:
            yield
            run.sort()
        parts: list[bytes] = []
        for at, (_, name) in enumerate(islice(heapq.merge(*runs), offset, offset + limit)):
            if at % LOOK == 0:
                yield
            parts.append(fastjson.dumps(_row(kind, name, span.rows[name])))
        head = {
            **self._times(span.begin, span.end),
            "seconds": round(span.seconds, 3),
            "kind": kind,
            "sort": sort,
            "count": len(span.rows),
            "total": _figures(total),
            "others": {**_figures(span.others), "folded": span.folded},
        }
        return fastjson.dumps(head)[:-1] + b',"rows":[' + b",".join(parts) + b"]}"

    def _times(self, begin: float, end: float) -> dict[str, int]:
        """The ends of a span as times of day. A time of day that was set moves all of them."""
        now, clock = now_ms(), self._clock()
        ends = {"begin": begin, "end": end}
        return {"now": now} | {k: now - round((clock - at) * 1000) for k, at in ends.items()}

    async def history(self, connection: Connection, command: Command) -> Response:
        """GET_BROKER_HISTORY: the broker's own figures of the last `seconds`, a point for each
        sample, oldest first."""
        seconds = _within(command, "seconds", MAX_SECONDS, MAX_SECONDS)
        body = await self._turns.run(self._points(seconds), connection)
        return Response(body=body)

    def _points(self, seconds: int) -> Steps[bytes]:
        now, clock = now_ms(), self._clock()
        parts: list[bytes] = []
        for at, point in enumerate(list(self._use.points)[-POINTS:]):
            if at % 32 == 0:
                yield
            if clock - point.end > seconds:
                continue
            row: dict[str, Any] = {
                "end": now - round((clock - point.end) * 1000),
                "seconds": round(point.seconds, 3),
                **dict(zip(COUNTED, point.counted, strict=True)),
                **point.state,
            }
            parts.append(fastjson.dumps(row))
        return f'{{"now":{now},"points":['.encode() + b",".join(parts) + b"]}"


def _within(command: Command, name: str, default: int, most: int) -> int:
    value = fields.int32(command, name, default)
    if not 1 <= value <= most:
        raise InvalidParameterError(f"{name} {value} is not from 1 to {most}")
    return value


def _figures(row: list[int]) -> dict[str, int]:
    return dict(zip(FIGURES, row, strict=True))


def _row(kind: str, name: str, row: list[int]) -> dict[str, Any]:
    if kind != "client":
        return {"name": name, **_figures(row)}
    client_id, host = client_of(name)
    return {"name": client_id, "host": host, **_figures(row)}
