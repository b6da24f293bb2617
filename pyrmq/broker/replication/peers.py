"""Which other brokers have this broker's name and cluster, as the name servers say."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.errors import ConfigError, PyrmqError
from pyrmq.net.address import Address, parse_address, parse_addresses
from pyrmq.net.client.channel import Channels
from pyrmq.net.client.name_servers import NameServers

ANSWER = 2.0
"""Seconds that a name server may take to answer."""
MASTER = 0
MAX_REPLICAS = 256
"""Brokers of one name that are looked at; a name server may list any number."""
REMEMBERED = 600.0
"""Seconds for which a slave is known that was registered: name servers restart, and slaves that
lose their connection to one are unregistered until they are back."""

Host = IPv4Address | IPv6Address


@dataclass(slots=True)
class _Slave:
    hosts: frozenset[Host]
    seen: float


class Peers:
    """Asks the name servers at each `look`. `own`: this broker's address."""

    def __init__(self, config: LiveConfig, own: Address) -> None:
        self._config = config
        self._own = own
        self._slaves: dict[Address, _Slave] = {}
        self._lock = trio.Lock()
        self._begun = 0
        self.answered = False
        """Whether any name server has answered since the start."""
        self.masters: list[Address] = []
        """Other masters, as the last look found them."""
        self.slaves: list[Address] = []

    @property
    def has_name_servers(self) -> bool:
        return bool(self._config.now.namesrv_addr)

    async def look(self, channels: Channels) -> None:
        """Asks every name server."""
        wanted = self._begun + 1
        async with self._lock:
            if self._begun < wanted:  # else somebody has asked since
                self._begun += 1
                await self._look(channels)

    async def _look(self, channels: Channels) -> None:
        config = self._config.now
        masters: dict[Address, None] = {}
        slaves: dict[Address, None] = {}
        for server in parse_addresses(config.namesrv_addr, "namesrvAddr"):
            try:
                with trio.fail_after(ANSWER):
                    info = await channels.perform(
                        NameServers([server], timeout=ANSWER).cluster_info()
                    )
            except (PyrmqError, trio.TooSlowError):
                continue  # registration says so
            self.answered = True
            broker = info.brokers.get(config.broker_name)
            if broker is None or broker.cluster != config.broker_cluster_name:
                continue
            for number, text in list(broker.broker_addrs.items())[:MAX_REPLICAS]:
                try:
                    address = parse_address(text)
                except ConfigError:
                    continue
                if address != self._own:
                    (masters if number == MASTER else slaves)[address] = None
        self.masters, self.slaves = list(masters), list(slaves)
        await self._remember()

    async def _remember(self) -> None:
        deadline = trio.current_time() + ANSWER  # of all names together
        for address in self.slaves:
            hosts: frozenset[Host] = frozenset()
            if (known := self._slaves.get(address)) is not None:
                hosts = known.hosts
            with trio.move_on_at(deadline):
                hosts = hosts or await _hosts_of(address)
            self._slaves[address] = _Slave(hosts, trio.current_time())
        oldest = trio.current_time() - REMEMBERED
        kept = {at: slave for at, slave in self._slaves.items() if slave.seen >= oldest}
        newest = sorted(kept, key=lambda at: kept[at].seen, reverse=True)[:MAX_REPLICAS]
        self._slaves = {at: kept[at] for at in newest}

    def slaves_at(self, host: Host) -> int:
        """How many slaves are registered, or were lately, at this host. What comes from this
        machine itself may come by any of its addresses."""
        own = _literal(self._own[0])

        def is_here(one: Host) -> bool:
            return one.is_loopback or one == own

        return sum(
            any(one == host or (is_here(one) and is_here(host)) for one in slave.hosts)
            for slave in self._slaves.values()
        )

    @property
    def known_slaves(self) -> int:
        return len(self._slaves)


def _literal(text: str) -> Host | None:
    try:
        host = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = host.ipv4_mapped if isinstance(host, IPv6Address) else None
    return mapped or host


async def _hosts_of(address: Address) -> frozenset[Host]:
    """The addresses of a host, which may be a name; none if it is unknown."""
    host = _literal(address[0])
    if host is not None:
        return frozenset({host})
    try:
        found = await trio.socket.getaddrinfo(*address)
    except (OSError, UnicodeError):
        return frozenset()
    hosts = (_literal(str(row[4][0])) for row in found)
    return frozenset(host for host in hosts if host is not None)
