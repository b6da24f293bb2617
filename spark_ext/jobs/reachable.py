"""Whether there is a name server, asked before an engine starts."""

from __future__ import annotations

import socket

from pyrmq.errors import ConfigError
from pyrmq.net.address import format_address, parse_addresses
from spark_ext.jobs.errors import JobError

TIMEOUT = 3.0
"""Seconds for each address."""


def need_name_server(text: str) -> None:
    """JobError unless one of these takes connections."""
    try:
        addresses = parse_addresses(text, "name server address")
    except ConfigError as error:
        raise JobError(f"--namesrv: {error}") from None
    refused = []
    for address in addresses:
        try:
            socket.create_connection(address, TIMEOUT).close()
        except OSError as error:
            refused.append(f"{format_address(address)} ({error.strerror or error})")
        else:
            return
    where = "; ".join(refused) or "no address is given"
    raise JobError(f"no name server answers: {where}; is it running, and is that its port?")
