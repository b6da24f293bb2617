"""Samples the cluster for the console's charts: brokers every 10 s, groups that are looked at.

The app makes one `History`, keeps it as `app.state.history` and runs it in its nursery:

    nursery.start_soon(history.run)                # no `async with`: `await history.run()`

A page takes it from its request, which says that somebody looks:

    history = await history_of(request)
    history.of_cluster()                           # -> Hour: all brokers together
    history.of_broker("broker-a", 0)               # -> Hour: one broker
    history.of_group("orders")                     # -> [(ms, lag), ...]; watches it from now on
    history.found()                                # -> Found: what monitoring finds

`run` samples while somebody looks, and pauses 15 minutes after the last look. A broker costs one
request in 10 s: GET_BROKER_HISTORY, which a pyrmq broker answers with all that it kept since the
last request, so that gaps fill; GET_BROKER_RUNTIME_INFO of Apache's. A group is sampled from its
first look until 10 minutes after its last one.

Memory: 128 brokers at most, 360 rows of 14 numbers each (90 KiB; 11 MiB in all); 64 groups at most,
360 pairs each (40 KiB; 3 MiB in all). Brokers beyond that are not sampled; of groups the one that
was looked at longest ago goes.

It samples with the console's own credentials; without any, or if they may not, with those of a
user who looks. Whoever shows it asks the server first, with the rights of the user who looks then.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import trio
from starlette.requests import Request

from pyrmq.admin.api import Admin
from pyrmq.admin.link import Replica
from pyrmq.admin.usage import NotKeptError
from pyrmq.console.alarm_rounds import Found, Watch
from pyrmq.console.link import Links, admin_of
from pyrmq.console.samples import POINTS, STEP_MS, Hour, Rows, together
from pyrmq.console.settings import Settings
from pyrmq.errors import NoPermissionError, PyrmqError
from pyrmq.net.clock import now_ms

log = logging.getLogger(__name__)

PERIOD = 10.0
"""Seconds between two samples."""
ROUND_TIMEOUT = 9.0
"""Seconds for one sample of all brokers and groups; what did not answer by then is left out."""
PAUSE = 15 * 60.0
"""Seconds after the last look until sampling pauses."""
GROUP_PAUSE = 10 * 60.0
"""The same of one group."""
MAX_BROKERS = 128
MAX_GROUPS = 64
GROUPS_AT_ONCE = 8
"""Groups that one sample asks for; with more, each is sampled less often."""
ASK_AGAIN = 600.0
"""Seconds until a broker that keeps no history is asked for it again: it may be another by now."""

Place = tuple[str, int]
"""Broker name and id."""


@dataclass(slots=True)
class _Broker:
    replica: Replica
    rows: Rows = field(default_factory=Rows)
    keeps_none_until: float = 0.0


@dataclass(slots=True)
class _Group:
    looked: float
    points: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=POINTS))


class History:
    """clock: seconds that go forward only; now: ms since 1970."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = trio.current_time,
        now: Callable[[], int] = now_ms,
    ) -> None:
        self._admin: Admin | None = None
        self.is_unfit = False
        """Whether another Admin may do better: this one is closed, or its user may not ask."""
        self._clock = clock
        self._now = now
        self._brokers: dict[Place, _Broker] = {}
        self._groups: dict[str, _Group] = {}
        self._looked: float | None = None
        self._watch = Watch(now)
        self._paused = trio.lowlevel.ParkingLot()
        self.problem = ""
        """Why the last sample has not all; empty if it has."""

    def look(self, admin: Admin | None = None) -> None:
        """Somebody has a page open. Their Admin samples from then on if there is none, or if that
        of another one could not."""
        self._looked = self._clock()
        if admin is not None and (self._admin is None or self.is_unfit):
            self._admin, self.is_unfit = admin, False
        self._paused.unpark_all()

    @property
    def is_wanted(self) -> bool:
        """Whether somebody looked lately."""
        return self._looked is not None and self._clock() - self._looked < PAUSE

    def of_cluster(self, cluster: str | None = None) -> Hour:
        """All brokers of a cluster, or of all clusters, as one."""
        now = self._now()
        return together(
            (
                (broker.rows.hour(now), number == 0)
                for (_, number), broker in list(self._brokers.items())
                if cluster is None or broker.replica.cluster == cluster
            ),
            now,
        )

    def of_broker(self, name: str, broker_id: int = 0) -> Hour:
        """One broker; an empty hour if it was not sampled."""
        broker = self._brokers.get((name, broker_id))
        return Hour() if broker is None else broker.rows.hour(self._now())

    def newest_of(self, name: str, broker_id: int = 0) -> Hour:
        """The last row of one broker alone."""
        broker = self._brokers.get((name, broker_id))
        return Hour() if broker is None else broker.rows.newest(self._now())

    def of_group(self, name: str) -> list[tuple[int, int]]:
        """Times (ms) and the group's lag in messages, oldest first. It is sampled from now on."""
        now = self._clock()
        group = self._groups.pop(name, None)
        if group is None:
            while len(self._groups) >= MAX_GROUPS:
                del self._groups[next(iter(self._groups))]
            group = _Group(now)
        group.looked = now
        self.look()
        self._groups[name] = group  # the one looked at longest ago is the first
        begin = self._now() - POINTS * STEP_MS
        return [point for point in group.points if point[0] > begin]

    def found(self) -> Found:
        """What monitoring finds, and found in the last hour."""
        return self._watch.found()

    async def run(self) -> None:
        """Samples, and makes the rounds of monitoring, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._every, PERIOD, self.sample)
            nursery.start_soon(self._every, PERIOD, self._look_for_alarms)

    async def _every(self, period: float, work: Callable[[], Awaitable[None]]) -> None:
        """Does a work at its times while somebody looks. What fails is logged, and tried again."""
        while True:
            while not self.is_wanted or self._admin is None:
                await self._paused.park()
            begun = trio.current_time()
            try:
                await work()
            except Exception:
                log.exception("the console's history is not sampled, next try follows")
                self.problem = "sampling failed: see the console's log"
                self.is_unfit = True
            await trio.sleep_until(begun + period)

    async def _look_for_alarms(self) -> None:
        if self._admin is not None:
            await self._watch.round(self._admin)

    async def sample(self) -> None:
        """One sample of all brokers, and of some groups."""
        admin = self._admin
        if admin is None:
            return
        with trio.move_on_after(ROUND_TIMEOUT) as scope:
            try:
                await self._sample_brokers(admin)
                await self._sample_groups(admin)
            except PyrmqError as e:
                self.problem, self.is_unfit = str(e), True
        if scope.cancelled_caught:
            self.problem = f"not all brokers answered within {ROUND_TIMEOUT:g} s"

    async def _sample_brokers(self, admin: Admin) -> None:
        found = await admin.link.replicas(default_all=True)
        there = [replica for replica in found if replica.address not in admin.link.missed]
        self._follow(there[:MAX_BROKERS])
        by_address = {broker.replica.address: broker for broker in self._brokers.values()}
        asked = await admin.link.on_each(
            there[:MAX_BROKERS],
            lambda address: self._ask(admin, by_address[address]),
        )
        problems = [outcome.problem for outcome in asked.failed]
        self.is_unfit = any(isinstance(o.error, NoPermissionError) for o in asked.failed)
        if len(there) > MAX_BROKERS:
            problems.append(f"only {MAX_BROKERS} of {len(there)} brokers are sampled")
        self.problem = "; ".join(problems[:3])

    def _follow(self, replicas: list[Replica]) -> None:
        """Takes over what brokers there are. One that is gone keeps its hour, until that is over
        or its room is needed."""
        begin = self._now() - POINTS * STEP_MS
        for replica in replicas:
            place = replica.broker_name, replica.broker_id
            known = self._brokers.pop(place, None) or _Broker(replica)
            if known.replica.address != replica.address:
                known.keeps_none_until = 0.0
            known.replica = replica
            self._brokers[place] = known
        there = {(r.broker_name, r.broker_id) for r in replicas}
        for place, broker in list(self._brokers.items()):
            full = len(self._brokers) > MAX_BROKERS
            if place not in there and (full or broker.rows.end < begin):
                del self._brokers[place]

    async def _ask(self, admin: Admin, broker: _Broker) -> None:
        address, rows = broker.replica.address, broker.rows
        if self._clock() >= broker.keeps_none_until:
            since = (self._now() - rows.end) / 1000 + 2 * PERIOD
            seconds = max(1, min(int(since), POINTS * STEP_MS // 1000))
            try:
                rows.add_own(await admin.usage.history_of(address, seconds=seconds), self._now())
            except NotKeptError:
                broker.keeps_none_until = self._clock() + ASK_AGAIN
            else:
                return
        rows.add_runtime(await admin.brokers.runtime_of(address), self._now())

    async def _sample_groups(self, admin: Admin) -> None:
        now = self._clock()
        for name, group in list(self._groups.items()):
            if now - group.looked > GROUP_PAUSE:
                del self._groups[name]
        oldest = sorted(
            self._groups.items(), key=lambda item: item[1].points[-1][0] if item[1].points else 0
        )

        async def one(name: str, group: _Group) -> None:
            # What fails leaves a gap in the line; the group's page says why.
            with suppress(PyrmqError):
                stats = await admin.groups.consume_stats(name)
                if not stats.failed:
                    group.points.append((self._now(), max(stats.diff, 0)))

        async with trio.open_nursery() as nursery:
            for name, group in oldest[:GROUPS_AT_ONCE]:
                nursery.start_soon(one, name, group)


async def history_of(request: Request) -> History:
    """The console's history, for a page: somebody looks."""
    history: History = request.app.state.history
    settings: Settings = request.app.state.settings
    links: Links = request.app.state.links
    own = settings.credentials
    by_user = own is None or history.is_unfit
    history.look(await (admin_of(request) if by_user else links.get(own)))
    return history
