"""Store records, property strings, batch bodies and message ids, from the published layout only.

Shares no code with pyrmq. Sources: MessageDecoder, CommitLog.checkMessageAndReturnSize
(storage sheet 2.1, 2.4, 2.7, 2.8; remoting sheet 5.2, 5.4). All integers are big-endian.
"""

from __future__ import annotations

import ipaddress
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tests.support.wire import WireError

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
SYS_BORN_V6 = 0x10
SYS_STORE_V6 = 0x20


@dataclass(frozen=True, slots=True)
class Record:
    """One commit-log record; times in ms since the epoch, hosts as (address, port)."""

    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: tuple[str, int]
    store_timestamp: int
    store_host: tuple[str, int]
    reconsume_times: int
    prepared_offset: int
    body: bytes
    topic: str
    properties_raw: bytes

    @property
    def properties(self) -> dict[str, str]:
        return decode_properties(self.properties_raw.decode())

    @property
    def offset_msg_id(self) -> str:
        return message_id(self.store_host, self.physical_offset)


def crc31(data: bytes) -> int:
    """CRC-32 with the sign bit cleared (UtilAll.crc32)."""
    return zlib.crc32(data) & 0x7FFFFFFF


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 code units, as a signed 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for (unit,) in struct.iter_unpack(">H", units):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def encode_properties(properties: Mapping[str, str]) -> str:
    """``name 01 value 02`` repeated, the last 02 included."""
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


def decode_properties(text: str) -> dict[str, str]:
    """Pairs with an empty name or value vanish, the first 01 splits, later duplicates win."""
    found = {}
    for chunk in text.split("\x02"):
        name, mark, value = chunk.partition("\x01")
        if mark and name and value:
            found[name] = value
    return found


def message_id(host: tuple[str, int], physical_offset: int) -> str:
    """offsetMsgId: upper-case hex of address, port (int32) and physical offset."""
    address = ipaddress.ip_address(host[0]).packed
    return (address + struct.pack(">iq", host[1], physical_offset)).hex().upper()


def parse_message_id(text: str) -> tuple[tuple[str, int], int]:
    """The ((address, port), physical offset) of an offsetMsgId of 32 or 56 digits."""
    if len(text) not in (32, 56) or text != text.upper():
        raise WireError(f"offsetMsgId {text!r}")
    data = bytes.fromhex(text)
    port, offset = struct.unpack(">iq", data[-12:])
    return (str(ipaddress.ip_address(data[:-12])), port), offset


def encode_batch(messages: Iterable[tuple[bytes, Mapping[str, str]]]) -> bytes:
    """Batch send body: per message size, magic 0, crc 0, flag 0, body, properties."""
    out = bytearray()
    for body, properties in messages:
        raw = encode_properties(properties).encode()
        size = 4 + 4 + 4 + 4 + 4 + len(body) + 2 + len(raw)
        out += struct.pack(">iiiii", size, 0, 0, 0, len(body)) + body
        out += struct.pack(">h", len(raw)) + raw
    return bytes(out)


def encode_record(record: Record) -> bytes:
    """The bytes of a record; ``size`` and ``body_crc`` are computed, not taken."""
    topic = record.topic.encode()
    tail = struct.pack(">b" if record.magic == MAGIC_V1 else ">h", len(topic)) + topic
    tail += struct.pack(">h", len(record.properties_raw)) + record.properties_raw
    head = struct.pack(
        ">IIiiqqiq",
        record.magic, crc31(record.body), record.queue_id, record.flag, record.queue_offset,
        record.physical_offset, record.sys_flag, record.born_timestamp,
    )  # fmt: skip
    head += _encode_host(record.born_host) + struct.pack(">q", record.store_timestamp)
    head += _encode_host(record.store_host)
    head += struct.pack(">iqi", record.reconsume_times, record.prepared_offset, len(record.body))
    rest = head + record.body + tail
    return struct.pack(">i", 4 + len(rest)) + rest


def decode_records(data: bytes) -> list[Record]:
    """All records of a pull body, which must be whole records back to back."""
    return list(iter_records(data))


def iter_records(data: bytes) -> Iterator[Record]:
    at = 0
    while at < len(data):
        record = decode_record(data, at)
        yield record
        at += record.size


def decode_record(data: bytes, start: int = 0) -> Record:
    """Decode one record and verify magic, lengths and body CRC."""
    try:
        return _decode_record(data, start)
    except (struct.error, UnicodeDecodeError) as error:
        raise WireError(f"record at {start} of {len(data)} bytes: {error}") from None


def _decode_record(data: bytes, start: int) -> Record:
    size, magic = struct.unpack_from(">iI", data, start)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise WireError(f"record at {start}: magic {magic:#x}")
    if size < 91 or start + size > len(data):
        raise WireError(f"record at {start}: size {size}, {len(data) - start} bytes left")
    fixed = struct.unpack_from(">iiiqqiq", data, start + 8)
    crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp = fixed
    born_host, at = _decode_host(data, start + 48, bool(sys_flag & SYS_BORN_V6))
    (store_timestamp,) = struct.unpack_from(">q", data, at)
    store_host, at = _decode_host(data, at + 8, bool(sys_flag & SYS_STORE_V6))
    reconsume_times, prepared_offset, length = struct.unpack_from(">iqi", data, at)
    body, at = _take(data, at + 16, length, "body")
    form = ">b" if magic == MAGIC_V1 else ">h"
    (length,) = struct.unpack_from(form, data, at)
    topic, at = _take(data, at + struct.calcsize(form), length, "topic")
    (length,) = struct.unpack_from(">h", data, at)
    properties, at = _take(data, at + 2, length, "properties")
    if at != start + size:
        raise WireError(f"record at {start}: size {size}, but its fields take {at - start}")
    if crc31(body) != crc:
        raise WireError(f"record at {start}: body CRC {crc:#x}, computed {crc31(body):#x}")
    return Record(
        size, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp,
        born_host, store_timestamp, store_host, reconsume_times, prepared_offset, body,
        topic.decode(), properties,
    )  # fmt: skip


def _take(data: bytes, at: int, length: int, what: str) -> tuple[bytes, int]:
    if length < 0 or at + length > len(data):
        raise WireError(f"{what} of {length} bytes at {at} of {len(data)}")
    return data[at : at + length], at + length


def _encode_host(host: tuple[str, int]) -> bytes:
    return ipaddress.ip_address(host[0]).packed + struct.pack(">i", host[1])


def _decode_host(data: bytes, at: int, is_v6: bool) -> tuple[tuple[str, int], int]:
    address, at = _take(data, at, 16 if is_v6 else 4, "host")
    (port,) = struct.unpack_from(">i", data, at)
    return (str(ipaddress.ip_address(address)), port), at + 4
