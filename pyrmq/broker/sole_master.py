"""That there is one master of a broker name.

A master looks for another one before it starts, and all the time: after a partition, or where an
old master comes back that a slave has replaced. The one that became master earlier then takes no
messages. Brokers of other makes do not say since when they are masters: then an operator is told,
who has to decide.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import trio

from pyrmq.broker.live_config import LiveConfig
from pyrmq.engine import Store
from pyrmq.errors import ConfigError, ConnectError, PyrmqError, RequestTimeoutError
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.net import fastjson
from pyrmq.net.address import Address, format_address, parse_address, parse_addresses
from pyrmq.net.channel import Channels
from pyrmq.net.name_servers import NameServers

log = logging.getLogger(__name__)

ANSWER = 2.0
"""Seconds that a name server or another master may take to answer."""
LOOK = 3.0
"""Seconds between two looks."""
MASTER = 0


@dataclass(frozen=True, slots=True)
class Other:
    """Another master of this name that answers. `since`: when it became one, ms; 0: as configured;
    None: it does not say."""

    address: Address
    since: int | None


class SoleMaster:
    """`since`: when this broker became master, as `Other` has it. `leave` is called when it was
    replaced, `stay` when another one that it has replaced is there again."""

    def __init__(
        self,
        config: LiveConfig,
        address: Address,
        store: Store,
        since: int,
        *,
        leave: Callable[[], None],
        stay: Callable[[], None],
    ) -> None:
        self._config = config
        self._address = address
        self._store = store
        self._since = since
        self._leave = leave
        self._stay = stay

    async def at_start(self) -> None:
        """ConfigError if there is another master that this one must not stand beside."""
        async with Channels() as channels:
            other = await self.other(channels)
        if other is None or (other.since is not None and other.since < self._since):
            return
        name = self._config.now.broker_name
        raise ConfigError(
            f"{format_address(other.address)} is master of brokerName={name} already, and answers: "
            f"stop that one, or make this one its slave: {self._how(other)}, then brokerRole=SLAVE "
            "and a brokerId above 0 in its configuration"
        )

    def _how(self, other: Other) -> str:
        store = self._config.now.store_path_root_dir
        return f"`pyrmq store rejoin {store} --master {format_address(other.address)}`"

    async def run(self) -> None:
        """Looks until cancelled, or until it was replaced."""
        async with Channels() as channels:
            while True:
                await trio.sleep(LOOK)
                other = await self.other(channels)
                if other is not None and self._is_replaced_by(other):
                    return

    def _is_replaced_by(self, other: Other) -> bool:
        """For good: only a start finds out anew."""
        where = format_address(other.address)
        if other.since is not None and other.since > self._since:
            log.critical(
                "%s has become master of this name since: this broker takes no messages and leaves "
                "the name servers. Stop it, run %s, and start it with brokerRole=SLAVE",
                escape(where),
                escape(self._how(other)),
            )
            self._store.refuse_messages(
                f"{where} is the master of this name by now; this one was replaced"
            )
            self._leave()
            return True
        if other.since is not None and other.since < self._since:
            log.error("%s, which this broker has replaced, is there again", escape(where))
            self._stay()
        elif other.since is None or other.since == self._since:
            log.critical("%s is master of this name too: stop one of them", escape(where))
        return False

    async def other(self, channels: Channels) -> Other | None:
        """Another master that a name server knows, and that answers as one."""
        for address in await self.known(channels):
            other = await self.at(channels, address)
            if other is not None:
                return other
        return None

    async def at(self, channels: Channels, address: Address) -> Other | None:
        """The master that answers at an address."""
        try:
            status = await self._status(channels, address)
        except (ConnectError, RequestTimeoutError, trio.TooSlowError):
            return None
        except PyrmqError:
            return Other(address, None)  # it lives, and says nothing
        if status.get("master") is not True:
            return None
        since = status.get("masterSince")
        return Other(address, since if isinstance(since, int) else None)

    async def end_of_slave(self, channels: Channels, address: Address) -> int | None:
        """Where the log of a slave ends that answers."""
        try:
            status = await self._status(channels, address)
        except (PyrmqError, trio.TooSlowError):
            return None
        client = status.get("haClientRuntimeInfo")
        end = client.get("maxOffset") if isinstance(client, dict) else None
        return end if status.get("master") is False and isinstance(end, int) else None

    async def _status(self, channels: Channels, address: Address) -> dict[Any, Any]:
        with trio.fail_after(ANSWER):
            channel = await channels.get(address)
            answer = await channel.request(RequestCode.GET_BROKER_HA_STATUS, timeout=ANSWER)
        return fastjson.loads_object(answer.body)

    async def known(self, channels: Channels, *, slaves: bool = False) -> list[Address]:
        """Addresses of other masters of this name and cluster, or of its slaves, as each name
        server has it."""
        config = self._config.now
        found: list[Address] = []
        for server in parse_addresses(config.namesrv_addr, "namesrvAddr"):
            try:
                with trio.fail_after(ANSWER):
                    info = await channels.perform(
                        NameServers([server], timeout=ANSWER).cluster_info()
                    )
            except (PyrmqError, trio.TooSlowError):
                continue  # registration says so
            broker = info.brokers.get(config.broker_name)
            if broker is None or broker.cluster != config.broker_cluster_name:
                continue
            for number, text in broker.broker_addrs.items():
                if slaves == (number == MASTER):
                    continue
                try:
                    address = parse_address(text)
                except ConfigError:
                    continue
                if address != self._address and address not in found:
                    found.append(address)
        return found
