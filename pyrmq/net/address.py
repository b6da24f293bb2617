"""Addresses: `host:port` texts, lists of them, and our own."""

from __future__ import annotations

import os
import re
import socket
from ipaddress import ip_address

from pyrmq.errors import ConfigError, leaves

Address = tuple[str, int]


_HOST = re.compile(r"[\w-]+(\.[\w-]+)*\.?")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
SEPARATORS = "`;` or `,` separates addresses"


def parse_address(text: str, what: str = "address") -> Address:
    """`host:port` or `[v6]:port`; the port is 0 to 65535. ConfigError."""
    host, _, port = text.strip().rpartition(":")
    # Python reads no number of thousands of digits, and says so with a ValueError.
    number = int(port) if port.isascii() and port.isdecimal() and len(port) < 10 else -1
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not 0 <= number <= 65535 or not is_host(host):
        raise ConfigError(f"{what} {_shortened(text)} is not HOST:PORT{_advice(text)}")
    return host, number


def is_host(text: str) -> bool:
    """Whether it may be the name of a host, or a numeric address."""
    if ":" not in text:
        return len(text) <= 255 and _HOST.fullmatch(text) is not None
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _advice(text: str) -> str:
    if _SCHEME.match(text.strip()):
        return ": leave out what stands before the host"
    if len(text.split()) > 1 or "\uff1b" in text or "\uff0c" in text:
        return f": {SEPARATORS}"
    if "\uff1a" in text:
        return ": the colon is a full-width one"
    return ""


def _shortened(text: str) -> str:
    return repr(text) if len(text) <= 200 else f"{text[:200]!r}…"


def parse_addresses(text: str, what: str = "address") -> list[Address]:
    """A list separated by `;`, as RocketMQ has it, or by `,`, with blanks around them or not; each
    once. ConfigError, also for port 0."""
    found: dict[Address, None] = {}
    for part in re.split("[;,]", text):
        if part.strip():
            address = parse_address(part, what)
            if address[1] == 0:
                raise ConfigError(f"{what} {_shortened(part)}: port 0 cannot be connected to")
            found[address] = None
    return list(found)


def unreachable(host: str, error: Exception) -> str:
    """Why no connection came about, in words: what the system says, with the host's name where that
    has no address. `error` may be trio's, whose causes are those of each address."""
    cause = leaves(error.__cause__)[-1] if error.__cause__ is not None else error
    if isinstance(cause, socket.gaierror):
        return f"the host name {host!r} does not resolve: {cause.strerror}"
    number = getattr(cause, "errno", None)
    return os.strerror(number) if number else str(error)


def format_address(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def ip_bytes(host: str) -> bytes:
    """4 or 16 bytes of a numeric address (a scope id is cut off)."""
    return ip_address(host.partition("%")[0]).packed


def message_id(address: Address, phys: int) -> str:
    """offsetMsgId: hex digits of a broker's address and a physical offset there."""
    host, port = address
    return (ip_bytes(host) + port.to_bytes(4, "big") + phys.to_bytes(8, "big")).hex().upper()


def address_of_message_id(text: str) -> Address | None:
    """The broker's address in an offsetMsgId, None if the text is none."""
    if len(text) not in (32, 56) or not text.isalnum():  # fromhex passes over blanks
        return None
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return None
    return str(ip_address(raw[:-12])), int.from_bytes(raw[-12:-8], "big") & 0xFFFF


def offset_of_message_id(text: str) -> int | None:
    """The physical offset in an offsetMsgId, None if the text is none."""
    if len(text) not in (32, 56) or not text.isalnum():  # fromhex passes over blanks
        return None
    try:
        offset = int.from_bytes(bytes.fromhex(text)[-8:], "big", signed=True)
    except ValueError:
        return None
    return offset if offset >= 0 else None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address to listen on."""
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def resolve(host: str) -> str:
    """The first numeric address of a host. ConfigError if it has none."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError) as e:
        raise ConfigError(unreachable(host, e)) from e


def own_ip() -> str:
    """The address that other hosts most likely reach us under; loopback without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket sends nothing; it only picks the outgoing interface.
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
