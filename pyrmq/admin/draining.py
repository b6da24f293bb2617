"""Brokers that are taken out of service and brought back: clients leave, the broker runs on.

pyrmq's brokers have a key for it (brokerDrain), which they keep over a restart. For others the name
servers remove the write permission (WIPE_WRITE_PERM_OF_BROKER): that counts until the broker
registers anew.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import trio

from pyrmq.admin import values
from pyrmq.admin.link import Part
from pyrmq.admin.outcome import Outcomes
from pyrmq.admin.runtime_info import BrokerConsumeStats, Runtime
from pyrmq.config.files import format_properties, parse_properties
from pyrmq.errors import ClientError, ConnectError, PyrmqError, RequestTimeoutError, ResponseError
from pyrmq.model.codes import RequestCode
from pyrmq.model.names import TRANSACTION_GROUP
from pyrmq.model.topic import PERM_READ, PERM_WRITE
from pyrmq.net.address import format_address

KEY = "brokerDrain"
NO_DRAIN, DRAIN_WRITE, DRAIN_ALL = "NONE", "WRITE", "ALL"
STATS_TIMEOUT = 50.0
MOST_GROUPS = 10
"""Groups with unread messages that are named, those with most."""
LOOK = 1.0
"""Seconds between two looks at what is unread."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Messages on one broker that a group has not consumed."""

    group: str
    topic: str
    messages: int


@dataclass(frozen=True, slots=True)
class DrainState:
    """How far a broker is drained. None: the broker does not say."""

    broker_name: str
    address: str
    """Of its master."""
    drain: str | None
    """brokerDrain: `NONE`, `WRITE` or `ALL`. None: not a broker of pyrmq."""
    routed_for_writes: bool | None
    """Whether routes have its queues to send to. None: no route names it."""
    routed_for_reads: bool | None
    unread: int
    """Messages that groups have not consumed, of all groups of clients."""
    groups: list[Unread]
    """The groups with most of them."""
    producers: int | None
    """Producers that are connected."""
    puts_per_second: float | None
    """Messages stored in the last 10 s, in a second."""
    pending_halves: int | None
    delayed: int | None
    """Delayed messages and timers that are not delivered."""
    unsaved: str | None = None
    """Why the broker could not save its keys: a restart forgets them. None: it has saved them."""

    @property
    def waits_for(self) -> list[str]:
        """What must come to an end before the broker can be stopped for good, as text. Nothing if
        the broker is not drained."""
        if self.drain == NO_DRAIN:
            return []
        found: list[str] = []
        if self.routed_for_writes:
            found.append("routes still send messages here")
        if self.puts_per_second:
            found.append(f"{self.puts_per_second:.1f} messages a second are still stored")
        if self.unread:
            found.append(f"{self.unread} messages are not consumed")
        if self.pending_halves:
            found.append(f"{self.pending_halves} transactions are pending")
        if self.delayed:
            found.append(f"{self.delayed} delayed messages are not delivered")
        return found


class Draining(Part):
    """`admin.draining`. `broker` is a broker name, or the `host:port` of one of its replicas."""

    async def drain(self, broker: str, *, reads: bool = False) -> Outcomes[str]:
        """Takes a broker out of the routes of producers, with `reads` also out of those of
        consumers. Returns what was asked of which server. Clients of pyrmq leave at once, others
        within 30 s; the broker serves whoever still comes.

        `reads` raises ClientError while messages are unread, as nobody would read them then, and
        for a broker that is not pyrmq's.
        """
        name, address = await self._find(broker)
        own = (await self._drain_of(address))[0] is not None
        if not reads:
            return await self._set(name, address, DRAIN_WRITE, own=own)
        if not own:
            raise ClientError(
                f"broker {name} is not pyrmq's: name servers can remove only its write permission. "
                "Stop it when nothing is unread"
            )
        unread = sum(_behind(await self._consume_stats(address)).values())
        if unread:
            raise ClientError(
                f"{unread} messages of broker {name} are not consumed: drain it without reads "
                "first, and wait until they are (--wait SECONDS)"
            )
        return await self._set(name, address, DRAIN_ALL, own=True)

    async def bring_back(self, broker: str) -> Outcomes[str]:
        """Puts a broker back into all routes."""
        name, address = await self._find(broker)
        own = (await self._drain_of(address))[0] is not None
        return await self._set(name, address, NO_DRAIN, own=own)

    async def wait(self, broker: str, seconds: float) -> DrainState:
        """Waits until all groups have consumed the messages of a broker, at most so long. Returns
        the last state."""
        until = trio.current_time() + seconds
        while True:
            state = await self.state(broker)
            if not state.unread or trio.current_time() >= until:
                return state
            await trio.sleep(min(LOOK, max(until - trio.current_time(), 0)))

    async def state(self, broker: str) -> DrainState:
        """How far a broker is drained, and what it still waits for."""
        name, address = await self._find(broker)
        drain, unsaved = await self._drain_of(address)
        stats = await self._consume_stats(address)
        answer = await self._link.ask_json(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        runtime = {str(k): str(v) for k, v in values.table(answer, "table").items()}
        perm = await self._routed(name)
        behind = _behind(stats)
        return DrainState(
            name,
            address,
            drain,
            None if perm is None else bool(perm & PERM_WRITE),
            None if perm is None else bool(perm & PERM_READ),
            sum(behind.values()),
            [Unread(g, t, n) for (g, t), n in behind.most_common(MOST_GROUPS)],
            await self._producers(address),
            _rate(runtime.get("putTps", "")),
            _whole(runtime.get("transactionPendingCount")),
            _delayed(runtime),
            unsaved,
        )

    async def _find(self, broker: str) -> tuple[str, str]:
        """The name and the master's address. ClientError if there is none."""
        if ":" not in broker:
            return broker, await self._link.master_of(broker)
        brokers = (await self._link.cluster_info()).brokers
        for name, data in brokers.items():
            if broker in data.broker_addrs.values():
                return name, await self._link.master_of(name)
        raise ClientError(f"no broker is registered at {broker}: name it by its brokerName")

    async def _drain_of(self, address: str) -> tuple[str | None, str | None]:
        """brokerDrain, and why it is not saved, if it is not. None for what the broker does not
        say."""
        answer = await self._link.ask(address, RequestCode.GET_BROKER_CONFIG)
        drain = parse_properties(answer.body.decode(errors="replace")).get(KEY)
        return drain, answer.ext.get("unsaved")

    async def _set(self, name: str, address: str, drain: str, *, own: bool) -> Outcomes[str]:
        body = format_properties({KEY: drain}).encode()
        text = f"{KEY}={drain}"

        async def broker(target: str) -> str:
            await self._link.ask(target, RequestCode.UPDATE_BROKER_CONFIG, body=body)
            return text

        async def name_server(target: str) -> str:
            wipes = drain != NO_DRAIN
            code = (
                RequestCode.WIPE_WRITE_PERM_OF_BROKER
                if wipes
                else RequestCode.ADD_WRITE_PERM_OF_BROKER
            )
            answer = await self._link.ask(target, code, {"brokerName": name})
            count = answer.ext.get("wipeTopicCount" if wipes else "addTopicCount", "0")
            return f"write permission {'removed from' if wipes else 'given to'} {count} topics"

        if own:
            return await self._link.on_each([address], broker)
        return await self._link.on_each(
            [format_address(a) for a in self._link.namesrv], name_server
        )

    async def _consume_stats(self, address: str) -> BrokerConsumeStats:
        answer = await self._link.ask_json(
            address,
            RequestCode.GET_BROKER_CONSUME_STATS,
            {"isOrder": False},
            timeout=self._link.patience(STATS_TIMEOUT),
        )
        return BrokerConsumeStats.from_json(answer)

    async def _routed(self, name: str) -> int | None:
        """What clients may do on this broker, as routes say: of the topic that has the cluster's
        name, which each broker has."""
        data = await self._link.broker_named(name)
        try:
            route = await self._link.route(data.cluster)
        except (ConnectError, RequestTimeoutError):
            raise
        except PyrmqError:
            return None
        return next((q.perm for q in route.queues if q.broker_name == name), None)

    async def _producers(self, address: str) -> int | None:
        try:
            answer = await self._link.ask_json(address, RequestCode.GET_ALL_PRODUCER_INFO)
        except ResponseError:  # brokers before 4.9.3
            return None
        groups = values.table(answer, "data").values()
        clients = [c for group in groups if isinstance(group, list) for c in group]
        return len({values.text(c, "clientId") for c in clients if isinstance(c, dict)})


def _behind(stats: BrokerConsumeStats) -> Counter[tuple[str, str]]:
    """Messages that are not consumed, by group and topic. The broker's own group of transactions
    does not count: pending halves are counted apart, and op records are for nobody else."""
    behind = Counter[tuple[str, str]]()
    for row in stats.queues:
        if row.progress.diff > 0 and row.group != TRANSACTION_GROUP:
            behind[row.group, row.progress.queue.topic] += row.progress.diff
    return behind


def _rate(text: str) -> float | None:
    """The first of three rates: that of the last 10 s."""
    first = text.split(" ")[0]
    try:
        return float(first)
    except ValueError:
        return None


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None


def _delayed(runtime: Runtime) -> int | None:
    """Messages of delay levels that are not delivered, and timers that wait."""
    total, known = 0, False
    for key, value in runtime.items():
        if key.startswith("scheduleMessageOffset_"):
            parts = [_whole(part) for part in value.split(",")]
            if len(parts) == 2 and parts[0] is not None and parts[1] is not None:
                total, known = total + max(parts[1] - parts[0], 0), True
        elif key == "timerCongestNum":
            total, known = total + (_whole(value) or 0), True
    return total if known else None
