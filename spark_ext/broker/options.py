"""The option that the engine hands over as it is: addresses of name servers."""

from __future__ import annotations

from pyrmq.errors import ConfigError
from pyrmq.net.address import Address, parse_addresses


def name_servers(value: str) -> tuple[Address, ...]:
    """The addresses of the option `nameServer`. Raises ConfigError."""
    try:
        found = tuple(parse_addresses(value, "name server address"))
    except ConfigError as error:
        raise ConfigError(f"option nameServer is not HOST:PORT[;HOST:PORT]: {error}") from None
    if not found:
        raise ConfigError("option nameServer is empty: give HOST:PORT[;HOST:PORT]")
    return found
