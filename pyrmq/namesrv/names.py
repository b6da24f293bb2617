"""Names and addresses that brokers state: they enter routes, which clients believe."""

from __future__ import annotations

import re

from pyrmq.errors import ConfigError, InvalidParameterError
from pyrmq.model.names import MAX_ROUTED, is_routed_topic
from pyrmq.net.address import parse_address

MAX_NAME = 255
_NAME = re.compile(r"[%|a-zA-Z0-9._-]{1,255}")
"""What RocketMQ allows for topics, and the dot of host names, after which brokers are named."""
_HOST = re.compile(r"\[?[a-zA-Z0-9._%:-]{1,253}\]?")


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
