"""Who uses brokers, their history and their disks, as pyrmq's brokers keep it; Apache RocketMQ's do
not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from pyrmq.admin import values
from pyrmq.admin.brokers import OfReplica
from pyrmq.admin.disk_usage import DiskUsage
from pyrmq.admin.link import Part
from pyrmq.admin.outcome import Outcome
from pyrmq.errors import ClientError, ProtocolError, ResponseError
from pyrmq.model.codes import RequestCode, ResponseCode, request_text
from pyrmq.net.client.protocol import Ext

BY: dict[str, tuple[str, ...]] = {
    "client": ("client",),
    "producer": ("producer",),
    "consumer": ("consumer",),
    "group": ("producer", "consumer"),
    "topic": ("topic",),
}
"""What rows may be of: clients, producer groups, consumer groups, both, topics."""
SORTS = (
    "bytes", "messages", "requests", "bytes-in", "bytes-out", "messages-in", "messages-out",
)  # fmt: skip
MAX_ROWS = 1024
MAX_SECONDS = 3600
DISK_TIMEOUT = 30.0
"""Seconds for a broker to measure its disk."""
MAX_POINTS = 1024


@dataclass(frozen=True, slots=True)
class Figures:
    """Messages and bytes of their records; requests. All in a span of time, or in a second."""

    messages_in: float = 0
    bytes_in: float = 0
    messages_out: float = 0
    bytes_out: float = 0
    requests: float = 0

    @classmethod
    def from_json(cls, row: Mapping[Any, Any]) -> Figures:
        names = ("messagesIn", "bytesIn", "messagesOut", "bytesOut", "requests")
        return cls(*(max(values.number(row, name), 0) for name in names))

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            round(self.messages_in + other.messages_in, 3),
            round(self.bytes_in + other.bytes_in, 3),
            round(self.messages_out + other.messages_out, 3),
            round(self.bytes_out + other.bytes_out, 3),
            round(self.requests + other.requests, 3),
        )

    def in_a_second(self, seconds: float) -> Figures:
        """The average of what was counted in so many seconds; nothing for none, and for a time that
        no broker can mean."""
        if seconds < _SHORTEST:
            return NOTHING
        return Figures(
            round(self.messages_in / seconds, 3),
            round(self.bytes_in / seconds, 3),
            round(self.messages_out / seconds, 3),
            round(self.bytes_out / seconds, 3),
            round(self.requests / seconds, 3),
        )

    def sorted_by(self, sort: str) -> float:
        """The figure that one of SORTS names."""
        if sort == "messages":
            return self.messages_in + self.messages_out
        if sort == "bytes":
            return self.bytes_in + self.bytes_out
        found: float = getattr(self, sort.replace("-", "_"))
        return found


NOTHING = Figures()
_SHORTEST = 0.001


@dataclass(frozen=True, slots=True)
class User:
    """A client, group or topic. kind: client, producer, consumer or topic. name: empty for a
    connection without a heartbeat. host: where a client connects from, of such a connection with
    its port. brokers: the addresses of those that know it."""

    kind: str
    name: str
    host: str
    total: Figures
    per_second: Figures
    brokers: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class BrokerUsage:
    """What one broker says of one kind. rows: those that were asked for; count: how many rows it
    has. others: of those without a row, `folded` of them at least."""

    kind: str
    begin: int
    end: int
    seconds: float
    rows: list[tuple[str, str, Figures]]
    count: int
    total: Figures
    others: Figures
    folded: int

    @classmethod
    def from_json(cls, kind: str, answer: Mapping[Any, Any]) -> Self:
        """ProtocolError."""
        rows = values.objects(answer, "rows")
        if len(rows) > MAX_ROWS:
            raise ProtocolError(f"an answer with {len(rows)} rows")
        others = values.table(answer, "others")
        return cls(
            kind,
            values.number(answer, "begin"),
            values.number(answer, "end"),
            values.real(answer, "seconds"),
            [(values.text(r, "name"), values.text(r, "host"), Figures.from_json(r)) for r in rows],
            values.number(answer, "count"),
            Figures.from_json(values.table(answer, "total")),
            Figures.from_json(others),
            max(values.number(others, "folded"), 0),
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """Who used brokers, over all of them.

    seconds: the longest span that a broker's figures are of. users: sorted, at most as many as
    asked for. total: of everybody. others: of everybody who is not among `users`: clients, groups
    or topics that the brokers keep no row for (`folded` of them, at least), and `more` with one.
    failed: the brokers that did not answer, whose figures are missing.
    """

    by: str
    sort: str
    seconds: float
    users: list[User]
    total: Figures
    total_per_second: Figures
    others: Figures
    others_per_second: Figures
    folded: int
    more: int
    brokers: list[str]
    failed: list[Outcome[Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Point:
    """A broker in one sample. end: ms since 1970. figures: by name, see docs/requests.md."""

    end: int
    seconds: float
    figures: dict[str, int]


@dataclass(frozen=True, slots=True)
class OwnHistory:
    """What a broker has kept of itself. now: its clock when it answered, ms since 1970. points:
    oldest first."""

    now: int
    points: list[Point]


class NotKeptError(ClientError):
    """A broker does not keep these figures: it is Apache's, or of an older version."""


class Usages(Part):
    """`admin.usage`. Where a method takes `broker` (`host:port`) and `cluster`, at most one of both
    is given; without them all brokers of all clusters are asked. Only pyrmq's brokers answer:
    NotKeptError of others says so."""

    async def top_of(
        self, address: str, kind: str, *, seconds: int = 60, sort: str = "bytes", limit: int = 20
    ) -> BrokerUsage:
        """Who used a broker. kind: client, producer, consumer or topic. [GET_BROKER_USE]"""
        head, sep, end = sort.partition("-")
        named = head + end.capitalize() if sep else sort
        ext: Ext = {"kind": kind, "seconds": seconds, "sort": named, "limit": limit}
        return BrokerUsage.from_json(
            kind, await self._ask(address, RequestCode.GET_BROKER_USE, ext)
        )

    async def top(
        self,
        by: str = "client",
        *,
        seconds: int = 60,
        sort: str = "bytes",
        limit: int = 20,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Usage:
        """Who used brokers in the last `seconds` (10 to 3600), those who used most first.

        by: client, producer, consumer, group (both) or topic. sort: bytes, messages, requests; or
        bytes-in, bytes-out, messages-in, messages-out."""
        if by not in BY:
            raise ClientError(f"by {by!r} is none of {', '.join(BY)}")
        if sort not in SORTS:
            raise ClientError(f"sort {sort!r} is none of {', '.join(SORTS)}")
        if not 1 <= seconds <= MAX_SECONDS or not 1 <= limit <= MAX_ROWS:
            raise ClientError(f"seconds go from 1 to {MAX_SECONDS}, limit from 1 to {MAX_ROWS}")

        async def one(address: str) -> list[BrokerUsage]:
            # Who is first over all brokers need not be first at one of them.
            return [
                await self.top_of(address, kind, seconds=seconds, sort=sort, limit=MAX_ROWS)
                for kind in BY[by]
            ]

        replicas = await self._link.replicas(broker=broker, cluster=cluster, default_all=True)
        found = await self._link.on_each(replicas, one)
        said = [(o.target, part) for o in found.done for part in o.value or ()]
        return _merged(by, sort, limit, said, [o.target for o in found.done], found.failed)

    async def history(
        self, *, seconds: int = MAX_SECONDS, broker: str | None = None, cluster: str | None = None
    ) -> list[OfReplica[list[Point]]]:
        """The figures of brokers in the last `seconds`, a point for each ten seconds, oldest
        first. [GET_BROKER_HISTORY]"""

        async def one(address: str) -> list[Point]:
            return (await self.history_of(address, seconds=seconds)).points

        return await self._each(one, broker, cluster)

    async def history_of(self, address: str, *, seconds: int = MAX_SECONDS) -> OwnHistory:
        """The same of one broker, with its clock. Raises NotKeptError."""
        answer = await self._ask(address, RequestCode.GET_BROKER_HISTORY, {"seconds": seconds})
        points = [_point(row) for row in values.objects(answer, "points")[:MAX_POINTS]]
        return OwnHistory(values.number(answer, "now"), points)

    async def disk(
        self,
        *,
        topic: str | None = None,
        files: int | None = None,
        limit: int = 20,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> list[OfReplica[DiskUsage]]:
        """How much of their logs the topics of brokers use, and what retention frees next. topic:
        that one, with its queues. files: how many of the next files to delete are looked into; by
        default those that are due within a day, one at least. [GET_DISK_USE]"""
        ext: Ext = {"limit": limit, "files": files or 0}
        if topic is not None:
            ext = {**ext, "topic": topic}

        async def one(address: str) -> DiskUsage:
            answer = await self._ask(
                address, RequestCode.GET_DISK_USE, ext, self._link.patience(DISK_TIMEOUT)
            )
            return DiskUsage.from_json(answer)

        return await self._each(one, broker, cluster)

    async def _each(
        self, one: Any, broker: str | None, cluster: str | None
    ) -> list[OfReplica[Any]]:
        replicas = await self._link.replicas(broker=broker, cluster=cluster, default_all=True)
        outcomes = await self._link.on_each(replicas, one)
        return [OfReplica(r, o) for r, o in zip(replicas, outcomes, strict=True)]

    async def _ask(
        self, address: str, code: RequestCode, ext: Ext, timeout: float | None = None
    ) -> dict[Any, Any]:
        try:
            return await self._link.ask_json(address, code, ext, timeout=timeout)
        except ResponseError as e:
            if e.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            raise NotKeptError(
                f"{address} does not know the request {request_text(code)}: it is a broker of "
                "Apache RocketMQ, or of an older version of pyrmq, and does not keep these figures"
            ) from e


def _point(row: Mapping[Any, Any]) -> Point:
    numbers = {str(k): v for k, v in row.items() if isinstance(v, int) and k != "end"}
    numbers.pop("seconds", None)
    return Point(values.number(row, "end"), values.real(row, "seconds"), numbers)


def _merged(
    by: str,
    sort: str,
    limit: int,
    said: Iterable[tuple[str, BrokerUsage]],
    brokers: list[str],
    failed: list[Outcome[Any]],
) -> Usage:
    """One answer of those of several brokers: rows of the same name are one."""
    users: dict[tuple[str, str, str], User] = {}
    total = rate = NOTHING
    seconds = 0.0
    folded = unseen = 0
    for address, part in said:
        seconds = max(seconds, part.seconds)
        total += part.total
        rate += part.total.in_a_second(part.seconds)
        folded += part.folded
        unseen += max(part.count - len(part.rows), 0)
        for name, host, figures in part.rows:
            key = part.kind, name, host
            known = users.get(key) or User(*key, NOTHING, NOTHING)
            users[key] = User(
                *key,
                known.total + figures,
                known.per_second + figures.in_a_second(part.seconds),
                [*known.brokers, address],
            )
    ordered = sorted(
        users.values(), key=lambda u: (-u.per_second.sorted_by(sort), u.kind, u.name, u.host)
    )
    shown = ordered[:limit]
    return Usage(
        by,
        sort,
        seconds,
        shown,
        total,
        rate,
        _rest(total, (u.total for u in shown)),
        _rest(rate, (u.per_second for u in shown)),
        folded,
        len(ordered) - len(shown) + unseen,
        brokers,
        failed,
    )


def _rest(whole: Figures, parts: Iterable[Figures]) -> Figures:
    taken = sum(parts, NOTHING)
    names = ("messages_in", "bytes_in", "messages_out", "bytes_out", "requests")
    return Figures(*(max(0, round(getattr(whole, n) - getattr(taken, n), 3)) for n in names))
