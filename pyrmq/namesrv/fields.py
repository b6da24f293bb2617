"""Checked fields of requests to the name server.

Brokers state names and addresses in them: they enter routes, which clients believe.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyrmq.engine import Command
from pyrmq.errors import ConfigError, InvalidParameterError
from pyrmq.model.names import MAX_ROUTED, is_routed_topic
from pyrmq.net.address import parse_address
from pyrmq.net.command import text as text

MAX_NAME = 255
_NAME = re.compile(r"[%|a-zA-Z0-9._-]{1,255}")
"""What RocketMQ allows for topics, and the dot of host names, after which brokers are named."""
_HOST = re.compile(r"\[?[a-zA-Z0-9._%:-]{1,253}\]?")
MAX_TIMEOUT_MS = 86_400_000


def check_name(what: str, name: str) -> None:
    """InvalidParameterError unless a cluster, a broker or a zone may have this name."""
    if not _NAME.fullmatch(name):
        raise InvalidParameterError(
            f"{what} {name[:64]!r} is illegal: 1 to {MAX_NAME} of the characters %|a-zA-Z0-9._-"
        )


def check_topic(name: str) -> None:
    """InvalidParameterError unless a broker may have a topic of this name."""
    if not is_routed_topic(name):
        raise InvalidParameterError(
            f"the topic {name[:64]!r} is illegal: 1 to {MAX_ROUTED} of the characters "
            "%|a-zA-Z0-9._+$@:#=~-"
        )


def check_address(what: str, text: str) -> None:
    """InvalidParameterError for what is no `host:port` that clients could connect to."""
    try:
        fine = _HOST.fullmatch(text.rpartition(":")[0]) and parse_address(text)[1] > 0
    except ConfigError:
        fine = False
    if not fine:
        raise InvalidParameterError(f"{what} {text[:64]!r} is not HOST:PORT")


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
    check_name("brokerName", name)
    return name


def cluster_name(command: Command) -> str:
    name = text(command, "clusterName")
    check_name("clusterName", name)
    return name


def address(command: Command) -> str:
    found = text(command, "brokerAddr")
    check_address("brokerAddr", found)
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
