"""Calls reach only servers of the cluster.

An address, or a message id with one in it, may come from a text that somebody else wrote. A request
to a foreign server would show it what the cluster's servers accept: requests are signed.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrmq.admin.api import Admin
from pyrmq.admin.registered import address_in
from pyrmq.errors import ClientError, ConfigError
from pyrmq.mcp.arguments import Argument, Asked
from pyrmq.net.address import format_address, parse_address


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
        elif value and argument.leads_to == "message" and (address := address_in(value)):
            wanted[address] = f"at {address}, which the id {value} names"
    if not wanted:
        return
    brokers = (await admin.link.cluster_info()).brokers.values()
    known = {address for broker in brokers for address in broker.broker_addrs.values()}
    known |= {format_address(address) for address in admin.link.namesrv}
    for address, what in wanted.items():
        if address not in known:
            raise ClientError(f"no server of the cluster is {what}: see broker_list")
