"""Addresses: `host:port` texts, lists of them, and our own."""

from __future__ import annotations

import socket
from ipaddress import ip_address

from pyrmq.errors import ConfigError

Address = tuple[str, int]


def parse_address(text: str, what: str = "address") -> Address:
    """`host:port` or `[v6]:port`. ConfigError."""
    host, sep, port = text.strip().rpartition(":")
    # Python reads no number of thousands of digits, and says so with a ValueError.
    number = int(port) if port.isdecimal() and len(port) < 10 else -1
    if not sep or not host or not 0 <= number <= 65535:
        raise ConfigError(f"{what} {text!r} is not HOST:PORT")
    return host.strip("[]"), number


def parse_addresses(text: str, what: str = "address") -> list[Address]:
    """A list separated by `;`."""
    return [parse_address(part, what) for part in text.split(";") if part.strip()]


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
    if len(text) not in (32, 56):
        return None
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return None
    return str(ip_address(raw[:-12])), int.from_bytes(raw[-12:-8], "big") & 0xFFFF


def offset_of_message_id(text: str) -> int | None:
    """The physical offset in an offsetMsgId, None if the text is none."""
    if len(text) not in (32, 56):
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
    except OSError as e:
        raise ConfigError(f"host {host!r} has no address: {e}") from e


def own_ip() -> str:
    """The address that other hosts most likely reach us under; loopback without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket sends nothing; it only picks the outgoing interface.
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
