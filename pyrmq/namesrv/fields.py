"""Fields of requests to the name server, checked."""

from __future__ import annotations

from dataclasses import dataclass

from pyrmq.engine import Command
from pyrmq.errors import InvalidParameterError
from pyrmq.namesrv import names
from pyrmq.net.server.request_fields import text as text

MAX_TIMEOUT_MS = 86_400_000


def number(command: Command, name: str, high: int, default: int | None = None) -> int:
    """A field with a number from 0 to `high`."""
    value = command.ext.get(name)
    if value is None and default is not None:
        return default
    value = text(command, name)
    if not (value.isascii() and value.isdecimal() and len(value) <= 19 and int(value) <= high):
        raise InvalidParameterError(f"{name} {value[:32]!r} is no number from 0 to {high}")
    return int(value)


def flag(command: Command, name: str) -> bool | None:
    """true, false, or None if there is no such field."""
    value = command.ext.get(name)
    if value is None:
        return None
    if value.lower() not in ("true", "false"):
        raise InvalidParameterError(f"{name} {value[:32]!r} is neither true nor false")
    return value.lower() == "true"


def broker_name(command: Command) -> str:
    name = text(command, "brokerName")
    names.check_name("brokerName", name)
    return name


def cluster_name(command: Command) -> str:
    name = text(command, "clusterName")
    names.check_name("clusterName", name)
    return name


def address(command: Command) -> str:
    found = text(command, "brokerAddr")
    names.check_address("brokerAddr", found)
    return found


@dataclass(frozen=True, slots=True)
class Place:
    """What a broker says of itself in each of its requests."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str

    @property
    def key(self) -> tuple[str, str]:
        return self.cluster, self.address


def place(command: Command) -> Place:
    return Place(
        cluster_name(command),
        broker_name(command),
        number(command, "brokerId", (1 << 63) - 1),
        address(command),
    )
