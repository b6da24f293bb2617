"""Who may connect to a master's HA port, and how many connections of it count.

Whoever reports offsets there is taken for a replica: it has messages acknowledged. So a place is
for hosts at which a slave of this name is registered at a name server, as many as there are slaves.
Where haAddressAllowList names hosts it decides alone, for slaves that connect from another address
than they register.
"""

from __future__ import annotations

import trio

from pyrmq.broker.replication.peers import Peers
from pyrmq.net.address import Address, format_address
from pyrmq.net.client.channel import Channels
from pyrmq.net.server.admin_access import AdminAccess, host_of

MAX_SLAVES = 64
"""Connections at a time; each has a thread."""
BETWEEN_LOOKS = 0.5
"""Seconds between two looks that strangers can cause."""
LOOK = 3.0
"""Seconds that a connection waits for name servers; they may all be away."""
NOT_ALLOWED = "haAddressAllowList does not have this address"


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
    """What the log says of a host without a place."""
    return (
        f"no name server lists a slave of this brokerName and brokerClusterName at {host}: the "
        "slave's brokerIP1 has to be the address that it connects from, or name that one in "
        "haAddressAllowList"
    )
