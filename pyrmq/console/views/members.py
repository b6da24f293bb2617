"""What the members of a group run, as they say themselves: asked through a broker, so it takes
time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.connections import Connection
from pyrmq.admin.running_info import (
    QueueProblem,
    RunningInfo,
    queue_problems,
    subscriptions_agree,
)
from pyrmq.console.views.one_group import Difference, differences
from pyrmq.errors import NotFoundError, PyrmqError
from pyrmq.net.clock import now_ms

MOST_ASKED = 20
"""Members that one page asks; each has a page of its own."""
SECONDS = 6.0
"""For how long they are asked."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member, and what it says of itself; `error` if it did not answer."""

    connection: Connection
    info: RunningInfo | None
    error: str = ""
    problems: list[QueueProblem] = field(default_factory=list)

    @property
    def cached(self) -> int:
        """Messages that it has and has not consumed."""
        return sum(q.cached for q in self.info.queues) if self.info else 0

    @property
    def failing(self) -> int:
        """Messages that failed within the last hour."""
        return sum(r.consume_failed for r in self.info.rates) if self.info else 0


@dataclass(frozen=True, slots=True)
class Running:
    """Some members, from the one with number `first` on (from 0), of `count`. `agree`: whether
    those that answered subscribe to the same. `differences`: unless the broker has told them
    already."""

    members: list[Member]
    first: int
    count: int
    agree: bool
    differences: list[Difference]

    @property
    def last(self) -> int:
        """The number behind the last member here."""
        return self.first + len(self.members)

    @property
    def problems(self) -> list[QueueProblem]:
        return [p for member in self.members for p in member.problems]


async def running(
    admin: Admin, group: str, connections: Iterable[Connection], first: int = 0
) -> Running:
    """What members of a group run, by client id, from the one with number `first` on."""
    every = sorted(connections, key=lambda c: c.client_id)
    first = min(first, max(len(every) - 1, 0))
    asked = every[first : first + MOST_ASKED]
    found = [Member(c, None, "no answer in time") for c in asked]
    limit = trio.CapacityLimiter(8)
    now = now_ms()

    async def one(at: int, connection: Connection) -> None:
        async with limit:
            found[at] = await _ask(admin, group, connection, now, stacks=False)

    with trio.move_on_after(SECONDS):
        async with trio.open_nursery() as nursery:
            for at, connection in enumerate(asked):
                nursery.start_soon(one, at, connection)
    infos = {m.connection.client_id: m.info for m in found if m.info is not None}
    agree = subscriptions_agree(infos, now)
    wanted = {c: {s.topic: s.expression for s in i.subscriptions} for c, i in infos.items()}
    told = agree or any(c.subscriptions is not None for c in every)
    return Running(found, first, len(every), agree, [] if told else differences(wanted))


async def member(admin: Admin, group: str, client_id: str, *, stacks: bool) -> Member:
    """One member, with `stacks` those of its threads. Raises NotFoundError if the group has no such
    member, and ResponseError if the group has none at all."""
    online = await admin.groups.connections(group)
    for connection in online.connections:
        if connection.client_id == client_id:
            now = now_ms()
            return await _ask(admin, group, connection, now, stacks=stacks)
    raise NotFoundError(f"group {group} has no member {client_id} now")


async def _ask(
    admin: Admin, group: str, connection: Connection, now: int, *, stacks: bool
) -> Member:
    try:
        info = await admin.groups.running_info(group, connection.client_id, stacks=stacks)
    except PyrmqError as e:
        return Member(connection, None, str(e))
    return Member(connection, info, problems=queue_problems(info, now))
