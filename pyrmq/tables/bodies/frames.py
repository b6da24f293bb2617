"""Headers before the payload of a body: Confluent's wire format and Avro's single-object
encoding."""

from __future__ import annotations

from pyrmq.tables.bodies.misfit import Misfit

CONFLUENT = "confluent"
SINGLE_OBJECT = "single-object"
NONE = "none"
HEADERS = (NONE, CONFLUENT, SINGLE_OBJECT)

_CONFLUENT_BYTES = 5
_SINGLE_OBJECT_BYTES = 10
_MAX_INDEXES = 32
"""Messages within each other that Confluent's header of Protobuf may name."""


def confluent(body: bytes) -> tuple[int, bytes]:
    """Schema id and payload: byte 0, four bytes of id (big-endian)."""
    if len(body) < _CONFLUENT_BYTES or body[0] != 0:
        raise Misfit((), "the body does not begin with Confluent's header: byte 0 and a schema id")
    return int.from_bytes(body[1:5], "big"), body[_CONFLUENT_BYTES:]


def confluent_message(payload: bytes) -> bytes:
    """Without the indexes of the message, which stand before a Protobuf payload."""
    count, at = _varint(payload, 0)
    if count % 2 or count // 2 > _MAX_INDEXES:  # zigzag, and never negative
        raise Misfit((), "Confluent's header has wrong message indexes")
    for _ in range(count // 2):
        _, at = _varint(payload, at)
    return payload[at:]


def single_object(body: bytes) -> tuple[bytes, bytes]:
    """Fingerprint of the schema and payload: C3 01, eight bytes of fingerprint (little-endian)."""
    if len(body) < _SINGLE_OBJECT_BYTES or body[:2] != b"\xc3\x01":
        raise Misfit((), "the body does not begin with Avro's single-object header: C3 01")
    return body[2:_SINGLE_OBJECT_BYTES], body[_SINGLE_OBJECT_BYTES:]


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    found = 0
    for shift in range(0, 35, 7):
        if at >= len(payload):
            break
        byte = payload[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
    raise Misfit((), "Confluent's header has no message indexes")
