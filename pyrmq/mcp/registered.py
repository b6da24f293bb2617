"""Calls reach only servers of the cluster.

An address, or a message id with one in it, may come from a text that somebody else wrote. A request
to a foreign server would show it what the cluster's servers accept: requests are signed.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrmq.admin.api import Admin
from pyrmq.errors import ClientError, ConfigError
from pyrmq.mcp.arguments import Argument, Asked
from pyrmq.net.address import (
    address_of_message_id,
    format_address,
    offset_of_message_id,
    parse_address,
)

MAX_PORT = 65_535


async def check(admin: Admin, arguments: Sequence[Argument], asked: Asked) -> None:
    """Raises ClientError if a call names a server that is not registered, nor a name server."""
    wanted = {}
    for argument in arguments:
        value = asked.get(argument.name)
        if value and argument.leads_to == "server":
            try:
                address = format_address(parse_address(value, argument.name))
            except ConfigError as e:
                raise ClientError(f"{e}: broker_list has the addresses") from None
            wanted[address] = f"at {value}"
        elif value and argument.leads_to == "message" and (address := _place_of(value)):
            wanted[address] = f"at {address}, which the id {value} names"
    if not wanted:
        return
    brokers = (await admin.link.cluster_info()).brokers.values()
    known = {address for broker in brokers for address in broker.broker_addrs.values()}
    known |= {format_address(address) for address in admin.link.namesrv}
    for address, what in wanted.items():
        if address not in known:
            raise ClientError(f"no server of the cluster is {what}: see broker_list")


def _place_of(message_id: str) -> str | None:
    """The address in an offset id. A unique id has another number where its port would be."""
    address, offset = address_of_message_id(message_id), offset_of_message_id(message_id)
    if address is None or offset is None or int(message_id[-24:-16], 16) > MAX_PORT:
        return None
    return format_address(address)
