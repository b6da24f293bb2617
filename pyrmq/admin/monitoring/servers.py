"""Watches whether name servers and brokers answer, and how far slaves are behind."""

from __future__ import annotations

from collections.abc import Callable

import trio

from pyrmq.admin.link import AdminLink, Replica
from pyrmq.admin.monitoring.metrics import Part
from pyrmq.admin.monitoring.rounds import Round, Turn
from pyrmq.admin.runtime_info import HaStatus
from pyrmq.errors import ConnectError, PyrmqError, RequestTimeoutError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.route import MASTER_ID
from pyrmq.net import fastjson
from pyrmq.net.address import format_address

Place = tuple[str, str, int]
"""Cluster, name and id of a broker."""


class ServerWatcher:
    """Each name server that was given, and each broker that one of them knows or has known within
    `forget` seconds: one that is dead is not known any more soon. Any answer counts, a refusal
    too."""

    name = "servers"

    def __init__(self, link: AdminLink, clock: Callable[[], float] = trio.current_time) -> None:
        self._link = link
        self._clock = clock
        self._turn = Turn()
        self._known: dict[Place, tuple[Replica, float]] = {}

    async def watch(self, round_: Round) -> None:
        listed = await self._list(round_)
        places = {_label(r): r for r, _ in self._known.values()}
        name_servers = {format_address(a): a for a in self._link.namesrv}
        if listed:
            round_.listed((Part.SERVERS, Part.REPLICATION), {*places, *name_servers})

        async def one(label: str) -> None:
            if label in name_servers:
                code = RequestCode.GET_BROKER_CLUSTER_INFO
                await self._answers(round_, label, name_servers[label], code)
            else:
                await self._broker(round_, label, places[label])

        await round_.each({*places, *name_servers}, "server", one, self._turn)

    async def _list(self, round_: Round) -> bool:
        """Takes over what brokers there are; whether a name server could tell."""
        now = self._clock()
        try:
            replicas = await self._link.replicas(default_all=True)
        except PyrmqError as e:
            round_.problem(self.name, e)
            return False
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

    async def _broker(self, round_: Round, label: str, replica: Replica) -> None:
        try:
            answer = await self._link.call(replica.address, RequestCode.GET_BROKER_HA_STATUS)
        except (ConnectError, RequestTimeoutError) as e:
            round_.figure("server_down", 1, server=label, detail=str(e))
            round_.seen(Part.SERVERS, label)
            return
        round_.figure("server_down", 0, server=label)
        round_.seen(Part.SERVERS, label)
        if replica.broker_id != MASTER_ID or answer.code != ResponseCode.SUCCESS:
            return  # a broker that does not know the request has no figure of it
        status = HaStatus.from_json(fastjson.loads_object(answer.body) if answer.body else {})
        behind = max(status.slaves, key=lambda s: s.diff, default=None)
        value = max(behind.diff, 0) if behind else 0
        detail = f"slave {behind.address}" if behind and value else ""
        round_.figure("replication_behind", value, server=label, detail=detail)
        round_.seen(Part.REPLICATION, label)


def _label(replica: Replica) -> str:
    return f"{replica.broker_name} {replica.address}"
