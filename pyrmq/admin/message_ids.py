"""Message ids: what can be one, and what a unique one says of its making."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from pyrmq.errors import ClientError
from pyrmq.net.address import format_address

ID_DIGITS = (32, 56)
"""Hex digits of message ids: with an address of IPv4, of IPv6."""


@dataclass(frozen=True, slots=True)
class DecodedId:
    """What a unique message id says of its making."""

    host: str
    born: int
    """ms since 1970. The id holds the time within a month: it is that of the present month, or of
    the one before. [MessageClientIDSetter.getNearlyTimeFromID]"""


def check_id(message_id: str) -> None:
    """Raises ClientError if a text is no message id."""
    digits = set(message_id) <= set("0123456789abcdefABCDEF")
    if len(message_id) not in ID_DIGITS or not digits:
        raise ClientError(
            f"{message_id[:64]!r} is no message id: it has 32 hex digits (56 with IPv6)"
        )


def decode_id(message_id: str) -> DecodedId:
    """What a unique message id says. ClientError."""
    check_id(message_id)
    raw = bytes.fromhex(message_id)
    size = len(raw) - 12
    if size not in (4, 16):
        raise ClientError(f"{message_id} is no unique message id")
    host = format_address((_ip(raw[:size]), 0)).rpartition(":")[0].strip("[]")
    within = int.from_bytes(raw[size + 6 : size + 10], "big")
    now = datetime.now(UTC)
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    born = month + timedelta(milliseconds=within)
    if born > now:
        before = (month - timedelta(days=1)).replace(day=1)
        born = before + timedelta(milliseconds=within)
    return DecodedId(host, int(born.timestamp() * 1000))


def _ip(raw: bytes) -> str:
    return str(ip_address(raw))
