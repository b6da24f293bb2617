"""Sees to it that a broker name has one master.

A master looks for another one before it starts, and all the time: after a partition, or where an
old master comes back that a slave has replaced. The one that became master earlier then takes no
messages. Brokers of other makes do not say since when they are masters: then an operator is told,
who has to decide.

Anybody can register at a name server, so what another one says counts only while a name server
lists it and it answers, and if it has this log's history (`peers`). Without that it is a
stranger, or another broker that was given this name: this one goes on, and says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.replication.peers import Peers, has_history
from pyrmq.engine import Store
from pyrmq.errors import ConfigError, ConnectError, PyrmqError, RequestTimeoutError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode
from pyrmq.net import fastjson
from pyrmq.net.address import Address, format_address
from pyrmq.net.client.channel import Channel, Channels
from pyrmq.net.client.server_access import channels_of

log = logging.getLogger(__name__)

ANSWER = 2.0
"""Seconds that another broker may take to answer."""
HISTORY = 5.0
"""Seconds that comparing the logs may take."""
LOOK = 3.0
"""Seconds between two looks."""
MAX_OTHERS = 16
"""Masters of this name that are asked in one look."""
REPEAT = 300.0
"""Seconds after which the same is logged again."""


@dataclass(frozen=True, slots=True)
class Other:
    """Another master of this name that answers. `since`: when it became one, ms; 0: as configured;
    None: it does not say. `proven`: it has this log's history; None: this log is empty, so nothing
    can be compared."""

    address: Address
    since: int | None
    proven: bool | None = True


class Standing(Enum):
    """What another master is to this one, while both run."""

    STRANGER = "it has not this log's history, or there is none to compare"
    SUCCESSOR = "it became master after this one"
    PREDECESSOR = "it became master before this one, which has replaced it"
    RIVAL = "neither comes first: as configured both, or it does not say since when"


class Follows(Enum):
    """What this broker does about it, beside saying so."""

    STAY = "registers again, as its place at the name servers may be taken"
    LEAVE = "takes no more messages, leaves the name servers, and looks no more"
    NOTHING = "goes on: an operator has to stop one of them"


STANDINGS = {
    Standing.STRANGER: Follows.STAY,
    Standing.SUCCESSOR: Follows.LEAVE,
    Standing.PREDECESSOR: Follows.STAY,
    Standing.RIVAL: Follows.NOTHING,
}


def standing_of(other: Other, since: int) -> Standing:
    """`since`: when this broker became master, as `Other` has it."""
    if not other.proven:
        return Standing.STRANGER
    if other.since is None or other.since == since:
        return Standing.RIVAL
    return Standing.SUCCESSOR if other.since > since else Standing.PREDECESSOR


class SoleMaster:
    """`since`: when this broker became master, as `Other` has it. `leave` is called when it was
    replaced, `stay` when another one that must not count has registered in its place."""

    def __init__(
        self,
        config: LiveConfig,
        peers: Peers,
        store: Store,
        since: int,
        *,
        leave: Callable[[], None],
        stay: Callable[[], None],
    ) -> None:
        self._config = config
        self._peers = peers
        self._store = store
        self._since = since
        self._leave = leave
        self._stay = stay
        self._logged: dict[tuple[Address, str], float] = {}

    async def at_start(self) -> None:
        """ConfigError if there is another master that this one must not stand beside."""
        async with channels_of(self._config.now) as channels:
            others = await self.others(channels)
        for other in others:
            if other.proven is False:
                self.is_stranger(other)
            elif other.since is None or other.since >= self._since:
                name = self._config.now.broker_name
                raise ConfigError(
                    f"{format_address(other.address)} is master of brokerName={name} already, and "
                    f"answers: stop that one, or make this one its slave: {self._how(other)}"
                    "brokerRole=SLAVE and a brokerId above 0 in its configuration"
                )

    def _how(self, other: Other) -> str:
        if other.proven is None:
            return ""  # it has no log that could have gone apart
        store = self._config.now.store_path_root_dir
        return f"`pyrmq store rejoin {store} --master {format_address(other.address)}`, then "

    async def run(self) -> None:
        """Looks until cancelled, or until it was replaced."""
        async with channels_of(self._config.now) as channels:
            while True:
                await trio.sleep(LOOK)
                for other in await self.others(channels):
                    if self._is_replaced_by(other):
                        return

    def _is_replaced_by(self, other: Other) -> bool:
        """Acts as STANDINGS says. True: for good, as only a start finds out anew. To go on by
        itself once that one is away would make two logs of one."""
        standing = standing_of(other, self._since)
        name = format_address(other.address)
        if standing is Standing.STRANGER:
            self.is_stranger(other)
        elif standing is Standing.SUCCESSOR:
            log.critical(
                "%s has become master of this name since, and has this log's history: this broker "
                "takes no messages and leaves the name servers. Stop it, run %sstart it with "
                "brokerRole=SLAVE",
                escape(name),
                escape(self._how(other)),
                extra=about(broker=name),
            )
        elif standing is Standing.PREDECESSOR:
            if self._is_news(other, "replaced"):
                log.error(
                    "%s, which this broker has replaced, is there again",
                    escape(name),
                    extra=about(broker=name),
                )
        elif self._is_news(other, "too"):
            log.critical(
                "%s is master of this name too: stop one of them",
                escape(name),
                extra=about(broker=name),
            )
        follows = STANDINGS[standing]
        if follows is Follows.STAY:
            self._stay()
        elif follows is Follows.LEAVE:
            self._store.refuse_messages(
                f"{name} is the master of this name by now; this one was replaced"
            )
            self._leave()
        return follows is Follows.LEAVE

    def is_stranger(self, other: Other) -> None:
        """Says so."""
        if self._is_news(other, "stranger"):
            log.critical(
                "%s is registered as master of brokerName=%s too, but has not this log's history: "
                "it is a stranger, or another broker with this name. This broker goes on. Stop "
                "that one, or give it another brokerName",
                escape(format_address(other.address)),
                escape(self._config.now.broker_name),
                extra=about(broker=format_address(other.address)),
            )

    def _is_news(self, other: Other, what: str) -> bool:
        now, key = trio.current_time(), (other.address, what)
        self._logged = {k: at for k, at in self._logged.items() if now < at + REPEAT}
        return self._logged.setdefault(key, now) == now

    async def others(self, channels: Channels) -> list[Other]:
        """The other masters that a name server lists, and that answer as such; those first that
        have this log's history."""
        await self._peers.look(channels)
        return await self._at_all(channels, self._peers.masters)

    async def _at_all(self, channels: Channels, addresses: Sequence[Address]) -> list[Other]:
        found: dict[Address, Other] = {}

        async def ask(address: Address) -> None:
            if (other := await self.at(channels, address)) is not None:
                found[address] = other

        async with trio.open_nursery() as nursery:
            for address in addresses[:MAX_OTHERS]:
                nursery.start_soon(ask, address)
        return sorted(found.values(), key=lambda other: other.proven is False)

    async def at(self, channels: Channels, address: Address) -> Other | None:
        """The master that answers at an address."""
        try:
            status = await self._status(channels, address)
        except (ConnectError, RequestTimeoutError, trio.TooSlowError):
            return None
        except PyrmqError:
            status = {"master": True}  # it lives, and says nothing
        if status.get("master") is not True:
            return None
        since = status.get("masterSince")
        proven = await self._has_history(channels, address)
        return Other(address, since if isinstance(since, int) else None, proven)

    async def _has_history(self, channels: Channels, address: Address) -> bool | None:
        if not self._store.stats()["maxPhyOffset"]:
            return None
        size = self._config.now.mapped_file_size_commit_log
        try:
            channel = await channels.get(address)
            return await has_history(channel, self._store, size, HISTORY)
        except PyrmqError:
            return False

    async def log_ends_of_slaves(self, channels: Channels) -> dict[Address, int]:
        """Where the logs of the other slaves of this name end that answer, but for those that have
        another history than this one."""
        await self._peers.look(channels)
        found: dict[Address, int] = {}

        async def ask(address: Address) -> None:
            log_end = await self._log_end_of_slave(channels, address)
            if log_end is not None and await self._has_history(channels, address) is not False:
                found[address] = log_end

        async with trio.open_nursery() as nursery:
            for address in self._peers.slaves[:MAX_OTHERS]:
                nursery.start_soon(ask, address)
        return found

    async def _log_end_of_slave(self, channels: Channels, address: Address) -> int | None:
        try:
            status = await self._status(channels, address)
        except (PyrmqError, trio.TooSlowError):
            return None
        client = status.get("haClientRuntimeInfo")
        log_end = client.get("maxOffset") if isinstance(client, dict) else None
        return log_end if status.get("master") is False and isinstance(log_end, int) else None

    async def _status(self, channels: Channels, address: Address) -> dict[Any, Any]:
        with trio.fail_after(ANSWER):
            channel: Channel = await channels.get(address)
            answer = await channel.request(RequestCode.GET_BROKER_HA_STATUS, timeout=ANSWER)
        return fastjson.loads_object(answer.body)
