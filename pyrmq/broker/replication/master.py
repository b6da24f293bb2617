"""A master's HA port: who may connect, and the engine sending them the log. [DefaultHAService]

A connection that reports offsets counts as a replica: it has messages acknowledged. So places are
for hosts at which a slave of this name is registered at a name server, as many as there are slaves.
If haAddressAllowList names hosts, it decides alone, for slaves that connect from another address
than they register.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from contextlib import suppress

import trio

from pyrmq.broker.replication.peers import Peers
from pyrmq.engine import HaMaster
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.net.address import Address, format_address, parse_address
from pyrmq.net.client.channel import Channels
from pyrmq.net.server.admin_access import AdminAccess, host_of
from pyrmq.net.server.listen import Refusals, open_listeners

MAX_SLAVES = 64
"""Connections at a time; each has a thread."""
BETWEEN_LOOKS = 0.5
"""Seconds between two looks that strangers can cause."""
LOOK = 3.0
"""Seconds that a connection waits for name servers; they may all be away."""
NOT_ALLOWED = "haAddressAllowList does not have this address"
log = logging.getLogger(__name__)

LOOK_AGAIN = 1.0
"""Seconds between two looks at which slaves are in sync."""
LOG_INTERVAL = 1.0
"""Seconds between two connections that are refused and logged."""
SAME = 60.0
"""Seconds between two lines about connections of one host that ended for the same reason."""
MAX_UNKNOWN = 32
"""Connections at a time for which name servers are asked."""
GRACE = 60.0
"""Seconds in which a slave has to be registered that connected before any name server answered."""


class HaPlaces:
    """`allow_list`: haAddressAllowList."""

    def __init__(self, peers: Peers, allow_list: str = "") -> None:
        self._peers = peers
        self._access = AdminAccess(allow_list)
        self._is_listed = bool(allow_list.strip())
        self._looked_at = -1.0
        self._looking = trio.Lock()

    def why_not(self, peer: Address) -> str:
        """Why this one can have no place, whoever is registered; empty if it may."""
        return "" if self._access.allows(format_address(peer)) else NOT_ALLOWED

    @property
    def is_certain(self) -> bool:
        """Whether it is known which slaves are registered. Before any name server has answered,
        everybody gets a place: to keep slaves out then would have sends time out."""
        return not self._peers.has_name_servers or self._peers.answered

    def known(self, peer: Address) -> int:
        """How many places the host of a peer has, as far as is known."""
        if not (self._peers.has_name_servers and self._peers.answered):
            return MAX_SLAVES
        host = host_of(format_address(peer))
        registered = self._peers.slaves_at(host) if host is not None else 0
        if not registered and self._is_listed:
            return max(self._peers.known_slaves, 1)
        return registered

    async def of(self, channels: Channels, peer: Address, taken: int) -> int:
        """The same, where one more is wanted than are `taken`: name servers are asked again before
        that is denied."""
        places = self.known(peer)
        if places > taken or not self._peers.has_name_servers:
            return places
        asked = trio.current_time()
        with trio.move_on_after(LOOK):
            async with self._looking:
                if self._looked_at < asked:
                    await trio.sleep_until(self._looked_at + BETWEEN_LOOKS)
                    self._looked_at = trio.current_time()
                    await self._peers.look(channels)
        return self.known(peer)


def refusal(host: str) -> str:
    """The line of the log about a host without a place."""
    return (
        f"no name server lists a slave of this brokerName and brokerClusterName at {host}: the "
        "slave's brokerIP1 has to be the address that it connects from, or name that one in "
        "haAddressAllowList"
    )


class _Served:
    """A connection that has a place. `socket`: another descriptor of it."""

    def __init__(self, sock: socket.socket, peer: Address) -> None:
        self.socket = sock.dup()
        self.peer = peer
        self.host = _host(peer)
        self.is_certain = False
        """Whether its host was found to have places."""
        self.ended = trio.Event()
        self.why = ""
        """Why this side ended it."""

    def end(self, why: str) -> None:
        self.why = self.why or why
        with suppress(OSError):  # the peer was faster
            self.socket.shutdown(socket.SHUT_RDWR)


class HaServer:
    """Serves slaves on listening sockets, which it closes. `places`: whom."""

    def __init__(
        self,
        sockets: list[socket.socket],
        master: HaMaster,
        places: HaPlaces,
        open_channels: Callable[[], Channels] = Channels,
    ) -> None:
        self.master = master
        self._open_channels = open_channels
        self._sockets = sockets
        self._places = places
        self._limiter = trio.CapacityLimiter(MAX_SLAVES)
        self._next_log = -1.0
        self._refusals = Refusals("HA port")
        self._served: list[_Served] = []
        """The oldest first."""
        self._unknown = 0
        self._said: dict[str, tuple[str, float]] = {}
        """Of each host: why its connection ended last, and when the log said so."""
        self._certain_since: float | None = None

    @property
    def port(self) -> int:
        return int(self._sockets[0].getsockname()[1])

    def has_place(self, peer: str) -> bool:
        """Whether the host of a peer (`host:port`) may connect here as a slave."""
        address = parse_address(peer)
        return not self._places.why_not(address) and self._places.known(address) > 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled; then every connection is ended."""
        try:
            async with self._open_channels() as channels, trio.open_nursery() as nursery:
                for sock in self._sockets:
                    nursery.start_soon(self._accept, sock, nursery, channels)
                nursery.start_soon(self._look_again)
                task_status.started()
                try:
                    await trio.sleep_forever()
                finally:
                    self.master.stop()  # the threads end, which a cancellation waits for
        finally:
            for sock in self._sockets:
                sock.close()

    async def _look_again(self) -> None:
        while True:
            await trio.sleep(LOOK_AGAIN)
            self.master.look_again()
            if self._places.is_certain:
                self._end_strangers()

    def _end_strangers(self) -> None:
        """Connections that came before any name server answered get time to be registered."""
        now = trio.current_time()
        self._certain_since = since = now if self._certain_since is None else self._certain_since
        for one in self._served:
            if not one.is_certain:
                one.is_certain = self._places.known(one.peer) > 0
                if not one.is_certain and now >= since + GRACE:
                    one.end(refusal(one.host))

    async def _accept(
        self, listening: socket.socket, nursery: trio.Nursery, channels: Channels
    ) -> None:
        while True:
            await trio.lowlevel.wait_readable(listening)
            try:
                sock, name = listening.accept()
            except BlockingIOError:
                continue
            except OSError as e:
                self._refusals.refused(str(e))
                await trio.sleep(0.1)
                continue
            peer: Address = str(name[0]), int(name[1])
            why = self._places.why_not(peer)
            is_full = self._unknown >= MAX_UNKNOWN
            if not why and is_full and not self._places.known(peer):
                why = f"name servers are asked for {MAX_UNKNOWN} connections already"
            if why:
                self._refuse(sock, peer, why)
            else:
                self._unknown += 1
                nursery.start_soon(self._admit, sock, peer, channels)

    def _refuse(self, sock: socket.socket, peer: Address, why: str) -> None:
        sock.close()
        now = trio.current_time()
        if now >= self._next_log:
            self._next_log = now + LOG_INTERVAL
            log.warning(
                "HA port: %s is refused: %s",
                escape(format_address(peer)),
                escape(why),
                extra=about(connection=format_address(peer)),
            )

    def _of_host(self, peer: Address) -> list[_Served]:
        return [one for one in self._served if one.host == _host(peer)]

    async def _admit(self, sock: socket.socket, peer: Address, channels: Channels) -> None:
        """Serves a connection if its host has a place; the newest ones of a host have them: a slave
        comes again before its old connection is known to be dead."""
        try:
            places = await self._places.of(channels, peer, len(self._of_host(peer)))
        except BaseException:
            sock.close()
            raise
        finally:
            self._unknown -= 1
        if not places:
            self._refuse(sock, peer, refusal(peer[0]))
            return
        before = self._of_host(peer)
        if len(self._served) - len(before) >= MAX_SLAVES:
            self._refuse(sock, peer, f"there are {MAX_SLAVES} connections already")
            return
        served = _Served(sock, peer)
        served.is_certain = self._places.is_certain
        self._served.append(served)
        try:
            for one in before[: max(len(before) + 1 - places, 0)]:
                one.end("a newer connection of its host has its place")
                await one.ended.wait()  # two at a time would count twice
            await self._serve(sock, format_address(peer), served)
        finally:
            self._served.remove(served)
            served.ended.set()
            served.socket.close()
            sock.close()  # it is detached if it was served

    async def _serve(self, sock: socket.socket, peer: str, served: _Served) -> None:
        log.info("slave %s: connected", escape(peer), extra=about(connection=peer))
        why = await trio.to_thread.run_sync(
            lambda: self.master.serve(sock.detach(), peer), limiter=self._limiter
        )
        if why is not None:
            self._ended(served, peer, served.why or why)

    def _ended(self, served: _Served, peer: str, why: str) -> None:
        """Says it, but not again and again: a slave that is refused comes back every 5 s."""
        now = trio.current_time()
        before = self._said.pop(served.host, None)
        if before is not None and before[0] == why and now < before[1] + SAME:
            self._said[served.host] = before
            return
        while len(self._said) >= MAX_SLAVES:
            del self._said[next(iter(self._said))]
        self._said[served.host] = why, now
        log.warning(
            "slave %s: the connection ended: %s",
            escape(peer),
            escape(why),
            extra=about(connection=peer),
        )


def _host(peer: Address) -> str:
    """One text for a host, whether its connection is of IPv4 or mapped to IPv6."""
    return str(host_of(format_address(peer)) or peer[0])


def ha_listeners(host: str, listen_port: int, ha_listen_port: int) -> list[socket.socket]:
    """Sockets for slaves: on haListenPort, or on listenPort + 1; where that one is in use, on any
    free port, which slaves learn from the name servers. ConfigError."""
    if ha_listen_port or not listen_port:
        return open_listeners(host, ha_listen_port)
    try:
        if listen_port < 65535:
            return open_listeners(host, listen_port + 1)
        why = "65535 has no port behind it"
    except ConfigError as e:
        why = str(e)
    log.warning("HA port: %s: another one is taken; set haListenPort", escape(why))
    return open_listeners(host, 0)
