"""What is watched, as far as the thresholds want it.

Here: transactions that wait; whether name servers and brokers are there and answer, how far slaves
are behind, and what brokers say of themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.expected import Missing, Place
from pyrmq.admin.health import disk_percent, refusal
from pyrmq.admin.link import AdminLink, Replica
from pyrmq.admin.monitoring.groups import DeadLetterWatcher, GroupWatcher, MovedOffsetWatcher
from pyrmq.admin.monitoring.metrics import METRICS, Part
from pyrmq.admin.monitoring.rounds import First, Round, Watcher
from pyrmq.admin.monitoring.running import TopicNames
from pyrmq.admin.monitoring.settings import Settings
from pyrmq.admin.runtime_info import HaStatus, whole
from pyrmq.admin.txn.link import BrokerLink
from pyrmq.admin.txn.scan import NoTransactionsError, pending
from pyrmq.admin.values import table
from pyrmq.errors import ConnectError, PyrmqError, RequestTimeoutError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.route import MASTER_ID
from pyrmq.net import fastjson
from pyrmq.net.address import format_address, parse_address


class TransactionWatcher:
    """Compares half messages with op records at each master, as `pyrmq admin txn stats` does, from
    where the broker says that all before is settled."""

    name = "transactions"

    def __init__(self, link: AdminLink) -> None:
        self._link = link
        self._first = First()

    async def watch(self, round_: Round) -> None:
        masters = await self._link.masters(default_all=True)
        # One that is missing is listed as it was: its alarms stay as they are.
        places = {f"{r.broker_name} {r.was or r.address}": r.address for r in masters}
        round_.listed((Part.TRANSACTIONS,), set(places))

        async def one(label: str) -> None:
            await self._one(round_, label, places[label])

        await round_.each(places, "transactions of", one, self._first)

    async def _one(self, round_: Round, label: str, address: str) -> None:
        if address in self._link.missed:
            raise self._link.missed[address]
        link = BrokerLink(self._link.channels, parse_address(address, "broker address"))
        count, age, exact = 0, 0.0, True
        try:
            table = (await pending(link, 1)).table
        except NoTransactionsError:
            pass
        else:
            count, exact = table.count, table.exact
            if table.oldest is not None:
                age = max(time.time_ns() // 1_000_000 - table.oldest, 0) / 1000
        round_.figure("transactions", count, server=label, partial=not exact)
        round_.figure("transaction_age", age, server=label, partial=not exact)
        round_.seen(Part.TRANSACTIONS, label)


SERVER_PARTS = (Part.SERVERS, Part.REPLICATION, Part.REPLICAS, Part.RUNTIME)


class ServerWatcher:
    """Each name server that was given, and each broker that one of them knows or has known within
    `forget` seconds: one that is dead is not known any more soon. Any answer counts, a refusal
    too. Brokers that should be there and are missing are figures of their name."""

    name = "servers"

    def __init__(self, link: AdminLink, clock: Callable[[], float] = trio.current_time) -> None:
        self._link = link
        self._clock = clock
        self._first = First()
        self._known: dict[Place, tuple[Replica, float]] = {}
        self._missing: list[Missing] = []

    async def watch(self, round_: Round) -> None:
        listed = await self._list(round_)
        places = {_label(r): r for r, _ in self._known.values()}
        name_servers = {format_address(a): a for a in self._link.namesrv}
        names = {r.broker_name for r in places.values()} | {m.broker_name for m in self._missing}
        if listed:
            round_.listed(SERVER_PARTS, {*places, *name_servers, *names})
        there: dict[str, set[int]] = {name: set() for name in names}
        """Ids of the brokers of a name that answer."""
        connected: dict[str, int] = {}
        """How many slaves the master of a name has."""

        async def one(label: str) -> None:
            if label in name_servers:
                code = RequestCode.GET_BROKER_CLUSTER_INFO
                await self._answers(round_, label, name_servers[label], code)
                return
            replica = places[label]
            status = await self._broker(round_, label, replica)
            if status is not None:
                there[replica.broker_name].add(replica.broker_id)
                if status.master:
                    connected[replica.broker_name] = len(status.slaves)

        asked: set[str] = set()

        async def noted(label: str) -> None:
            await one(label)
            asked.add(label)

        await round_.each({*places, *name_servers}, "server", noted, self._first)
        if listed:
            for name in sorted(names):
                if all(label in asked for label, r in places.items() if r.broker_name == name):
                    self._replicas(round_, name, there[name], connected.get(name))

    async def _list(self, round_: Round) -> bool:
        """Takes over what brokers there are; whether a name server could tell."""
        now = self._clock()
        try:
            info = await self._link.cluster_info()
        except PyrmqError as e:
            round_.problem(self.name, e)
            return False
        self._missing = self._link.expected.missing(info)
        replicas = [
            Replica(b.cluster, b.broker_name, number, address)
            for b in info.brokers.values()
            for number, address in b.broker_addrs.items()
        ]
        for r in replicas:
            self._known[r.cluster, r.broker_name, r.broker_id] = (r, now)
        at = {r.address for r in replicas}
        for place, (replica, seen) in list(self._known.items()):
            # A broker that has another name or id now is that one.
            moved = seen != now and replica.address in at
            if moved or now - seen > round_.settings.rounds.forget:
                del self._known[place]
        return True

    async def _answers(
        self, round_: Round, label: str, address: str | tuple[str, int], code: int
    ) -> None:
        try:
            await self._link.call(address, code)
        except (ConnectError, RequestTimeoutError) as e:
            round_.figure("server_down", 1, server=label, detail=str(e))
        else:
            round_.figure("server_down", 0, server=label)
        round_.seen(Part.SERVERS, label)

    async def _broker(self, round_: Round, label: str, replica: Replica) -> HaStatus | None:
        """How replication stands there; one with nothing in it where a broker does not know that,
        None if it does not answer."""
        try:
            answer = await self._link.call(replica.address, RequestCode.GET_BROKER_HA_STATUS)
        except (ConnectError, RequestTimeoutError) as e:
            round_.figure("server_down", 1, server=label, detail=str(e))
            round_.seen(Part.SERVERS, label)
            return None
        round_.figure("server_down", 0, server=label)
        round_.seen(Part.SERVERS, label)
        known = answer.code == ResponseCode.SUCCESS
        body = fastjson.loads_object(answer.body) if known and answer.body else {}
        status = HaStatus.from_json(body)
        if replica.broker_id == MASTER_ID and known:
            behind = max(status.slaves, key=lambda s: s.diff, default=None)
            value = max(behind.diff, 0) if behind else 0
            detail = f"slave {behind.address}" if behind and value else ""
            round_.figure("replication_behind", value, server=label, detail=detail)
            round_.seen(Part.REPLICATION, label)
        await self._runtime(round_, label, replica)
        return status

    async def _runtime(self, round_: Round, label: str, replica: Replica) -> None:
        """What a broker says of itself. What it does not say is no figure."""
        names = [m.name for m in METRICS.values() if m.part is Part.RUNTIME]
        if not any(map(round_.settings.watches, names)):
            return
        answer = await self._link.ask_json(replica.address, RequestCode.GET_BROKER_RUNTIME_INFO)
        runtime = {str(k): str(v) for k, v in table(answer, "table").items()}
        full = disk_percent(runtime)
        if full is not None:
            round_.figure("disk", full, server=label)
        why = refusal(runtime)
        if why is not None:
            round_.figure("refused_sends", 1 if why else 0, server=label, detail=why)
        if "connections" in runtime:
            round_.figure("connections", whole(runtime, "connections"), server=label)
        round_.seen(Part.RUNTIME, label)

    def _replicas(self, round_: Round, name: str, there: set[int], connected: int | None) -> None:
        """Whether master and slaves of a name are there. `connected`: the slaves that the master
        says it has, None if it does not say."""
        missing = [m for m in self._missing if m.broker_name == name]
        master = MASTER_ID in there
        text = "; ".join(m.text for m in missing if m.broker_id == MASTER_ID)
        round_.figure("master_missing", 0 if master else 1, server=name,
                      detail="" if master else text or "no master answers")  # fmt: skip
        wanted = {r.broker_id for r, _ in self._known.values() if r.broker_name == name}
        wanted |= {m.broker_id for m in missing}
        slaves = {number for number in wanted if number != MASTER_ID}
        follow = len(slaves & there)
        if connected is not None:
            follow = min(follow, connected)
        text = "; ".join(m.text for m in missing if m.broker_id != MASTER_ID)
        lack = len(slaves) - follow
        round_.figure("slaves_missing", lack, server=name, detail=text if lack else "")
        round_.seen(Part.REPLICAS, name)


def _label(replica: Replica) -> str:
    return f"{replica.broker_name} {replica.address}"


def watchers(admin: Admin, settings: Settings) -> list[Watcher]:
    """Those of which a figure is wanted."""
    names = TopicNames(admin.link)
    link = admin.link
    link.expected.wanted += settings.watched.expect
    link.expected.keep_ms = int(settings.rounds.forget * 1000)
    every: tuple[tuple[set[Part], Watcher], ...] = (
        (set(SERVER_PARTS), ServerWatcher(link)),
        ({Part.PROGRESS, Part.RUNNING}, GroupWatcher(link, names)),
        ({Part.DEAD_LETTERS}, DeadLetterWatcher(link, names)),
        ({Part.EVENTS}, MovedOffsetWatcher(link)),
        ({Part.TRANSACTIONS}, TransactionWatcher(link)),
    )
    wanted = {m.part for m in METRICS.values() if settings.watches(m.name)}
    return [watcher for parts, watcher in every if parts & wanted]
