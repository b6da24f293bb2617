"""Unpacking zlib data that somebody else packed: bounded, and all of it."""

from __future__ import annotations

import zlib

from pyrmq.errors import ProtocolError


def inflate(raw: bytes, limit: int, what: str) -> bytes:
    """The content of a zlib stream. ProtocolError, naming `what`, if it is none, is cut short, or
    has more than `limit` bytes."""
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(raw, limit)
    except zlib.error as e:
        raise ProtocolError(f"{what}: {e}") from e
    if inflater.unconsumed_tail:
        raise ProtocolError(f"{what} has more than {limit} bytes")
    if not inflater.eof:
        raise ProtocolError(f"{what} ends too early")
    return data
