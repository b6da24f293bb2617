"""Which other brokers have this broker's name and cluster, and whether their logs are the same.

The name servers say which there are. Then logs are compared, record by record.

A slave asks whether its log is the beginning of its master's. The HA channel does not find out: a
slave says where its log ends, and gets what stands behind that at the master, whatever stands
before. So the slave compares its newest record with the master's record in that place. A record
states its place, its times and its queue offset, so logs that went apart before differ there.
Behind it neither may have more: the end of a file may be blank in one, and have a record in the
other.

A master asks whether another master of its name has the history of its log, as whoever reaches a
name server can register as a master of any name. A broker that was a slave of this one has the
beginning of its log, byte for byte: up to where it was promoted, and from where it began to copy.
The first record of a log file stands where the file does, so the records there are compared, the
newest file first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.engine import Store, newest_record
from pyrmq.errors import ConfigError, PyrmqError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.net import fastjson
from pyrmq.net.address import Address, parse_address, parse_addresses
from pyrmq.net.client.channel import Channel, Channels
from pyrmq.net.client.name_servers import NameServers
from pyrmq.net.command import check_success

NAME_SERVER_TIMEOUT = 2.0
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
                with trio.fail_after(NAME_SERVER_TIMEOUT):
                    info = await channels.perform(
                        NameServers([server], timeout=NAME_SERVER_TIMEOUT).cluster_info()
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
        deadline = trio.current_time() + NAME_SERVER_TIMEOUT  # of all names together
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


RECORD_TIMEOUT = 5.0
"""Seconds that the master may take to answer."""
ONE_BY_ONE = 8
"""Newest files that are all asked for; of older ones every second, fourth and so on."""


async def why_not_fitting(channel: Channel, store: Store) -> str | None:
    """Why the store's log is not the beginning of the log of the master at the other end of
    `channel`, and what to do; None if it is. ConnectError, RequestTimeoutError, ResponseError."""
    log_end = store.stats()["maxPhyOffset"]
    newest = await trio.to_thread.run_sync(newest_record, store.native)
    if newest is not None:
        offset = newest[0]
        own: bytes | None = newest[1]
        while own is not None:
            why = await _why_not_same(channel, offset, own)
            if why is not None:
                return why
            offset += len(own)
            own = await _own(store, offset) if offset < log_end else None
        if offset < log_end and await _at_master(channel, offset) is not None:
            return _text(f"behind {offset} this log has no record, and its master has")
    masters_end = await _log_end_of_master(channel)
    if masters_end is not None and masters_end < log_end:
        return _text(f"this log ends at {log_end}, its master's at {masters_end}")
    return None


async def _own(store: Store, offset: int) -> bytes | None:
    def read() -> bytes | None:
        return store.record_at(offset)

    return await trio.to_thread.run_sync(read)


async def _why_not_same(channel: Channel, offset: int, own: bytes) -> str | None:
    theirs = await _at_master(channel, offset)
    if theirs == own:
        return None
    why = "has another one there" if theirs is not None else "has none there"
    return _text(f"of the record at {offset} of this log, {len(own)} bytes, its master {why}")


async def _at_master(channel: Channel, offset: int) -> bytes | None:
    """The record that the master has there; None if it has none."""
    ext = {"offset": offset}
    answer = await channel.call(RequestCode.VIEW_MESSAGE_BY_ID, ext, timeout=RECORD_TIMEOUT)
    if answer.code == ResponseCode.SYSTEM_ERROR:  # what both makes say of no record
        return None
    return bytes(check_success(answer).body)


async def _log_end_of_master(channel: Channel) -> int | None:
    """Where the master's log ends; None if it does not say. [GET_BROKER_RUNTIME_INFO]"""
    answer = await channel.request(RequestCode.GET_BROKER_RUNTIME_INFO, timeout=RECORD_TIMEOUT)
    table = fastjson.loads_object(answer.body).get("table")
    text = str(table.get("commitLogMaxOffset", "")) if isinstance(table, dict) else ""
    return int(text) if text.isdecimal() and len(text) < 20 else None


def _text(why: str) -> str:
    return (
        f"{why}: the logs went apart. Nothing was changed. If the master is the right one, stop "
        "this broker and run `pyrmq store rejoin`: it puts aside what the master has not, and cuts "
        "the log there"
    )


def places_to_compare(first: int, log_end: int, file_size: int) -> Iterator[int]:
    """Physical offsets at which to compare a log from `first` to `log_end`."""
    newest, oldest = (log_end - 1) // file_size, first // file_size
    number, step, left = newest, 1, ONE_BY_ONE
    while log_end > 0 and number > oldest:
        yield number * file_size
        left -= 1
        if left <= 0:
            step *= 2
        number -= step
    if log_end > 0:
        yield oldest * file_size


async def has_history(channel: Channel, store: Store, file_size: int, timeout: float) -> bool:
    """Whether the broker at the other end has a record of this log in its place. `timeout`: seconds
    in all, then the answer is no. ConnectError, RequestTimeoutError."""
    stats = store.stats()
    with trio.move_on_after(timeout):
        for offset in places_to_compare(stats["minPhyOffset"], stats["maxPhyOffset"], file_size):
            own = await trio.to_thread.run_sync(store.record_at, offset)
            if own is not None and own == await _at(channel, offset, timeout):
                return True
    return False


async def _at(channel: Channel, offset: int, timeout: float) -> bytes | None:
    """The record that the broker has there; None if it has none. [VIEW_MESSAGE_BY_ID]"""
    ext = {"offset": offset}
    answer = await channel.call(RequestCode.VIEW_MESSAGE_BY_ID, ext, timeout=timeout)
    return bytes(answer.body) if answer.code == ResponseCode.SUCCESS else None
