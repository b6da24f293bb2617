"""Addresses in texts of others lead only to servers of the cluster.

An offset id has the address of its broker in it, and the sender of a message chooses its unique id,
which may look like one. A request to a foreign server would show it what the cluster's servers
accept: requests are signed.
"""

from __future__ import annotations

from pyrmq.admin.link import AdminLink
from pyrmq.net.address import address_of_message_id, format_address, offset_of_message_id

MAX_PORT = 65_535


def address_in(message_id: str) -> str:
    """The `host:port` that an offset id names; empty for what can be none. A unique id has as many
    digits, and mostly a larger number where the port would be."""
    address, offset = address_of_message_id(message_id), offset_of_message_id(message_id)
    if address is None or offset is None or int(message_id[-24:-16], 16) > MAX_PORT:
        return ""
    return format_address(address)


async def broker_at(link: AdminLink, address: str) -> str:
    """The name of the broker that is registered with an address; empty if there is none."""
    for broker in (await link.cluster_info()).brokers.values():
        if address in broker.broker_addrs.values():
            return broker.broker_name
    return ""
