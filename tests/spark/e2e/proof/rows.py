"""Rows of both sides in one form: what consumers received, and what came out as Arrow.

A row is a dict by column name; times are ms since 1970, `properties` is a dict. The side of the
consumers is made by the codec of tests/support, which shares no code with pyrmq.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tests.support.records import Record, decode_properties

Row = dict[str, Any]

COMPRESSED = 0x1
INNER_BATCH = 0x80
NEED_UNWRAP = 0x40
KINDS = {0: "zlib", 0x100: "lz4", 0x200: "zstd", 0x300: "zlib"}
"""Compression by bits 8 to 10 of sysFlag."""

DEFAULT = (
    "topic", "flag", "body", "properties", "brokerName", "queueId", "queueOffset",
    "bornTimestamp", "storeTimestamp", "tags", "keys", "commitLogOffset",
)  # fmt: skip
"""Columns that a read gives unless told otherwise, in their order."""
MORE = (
    "bodyLength", "sysFlag", "storeSize", "bodyCRC", "reconsumeTimes",
    "preparedTransactionOffset", "msgId", "transactionId", "bornHost", "storeHost",
    "propertiesRaw",
)  # fmt: skip
ALL = (*DEFAULT, *MORE)
TIMES = ("bornTimestamp", "storeTimestamp")


def inflated(body: bytes, sys_flag: int) -> bytes:
    """The body as a consumer gets it."""
    if not sys_flag & COMPRESSED:
        return body
    kind = KINDS[sys_flag & 0x700]
    if kind == "zlib":
        return zlib.decompress(body)
    return pa.input_stream(pa.BufferReader(body), compression=kind).read()


def _host(host: tuple[str, int]) -> str:
    return f"[{host[0]}]:{host[1]}" if ":" in host[0] else f"{host[0]}:{host[1]}"


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def rows_of(record: Record, broker: str) -> Iterator[Row]:
    """The rows of one record: one, or one for each message of an inner batch."""
    row: Row = {
        "topic": record.topic,
        "flag": record.flag,
        "body": inflated(record.body, record.sys_flag),
        "brokerName": broker,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "bornTimestamp": record.born_timestamp,
        "storeTimestamp": record.store_timestamp,
        "commitLogOffset": record.physical_offset,
        "bodyLength": len(record.body),
        "sysFlag": record.sys_flag,
        "storeSize": record.size,
        "bodyCRC": record.body_crc,
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_offset,
        "msgId": record.offset_msg_id,
        "bornHost": _host(record.born_host),
        "storeHost": _host(record.store_host),
    }
    if not record.sys_flag & INNER_BATCH:
        yield row | _properties(record.properties_raw)
        return
    data, offset = row["body"], record.queue_offset
    while data:
        size, _, _, flag, length = struct.unpack_from(">iiiii", data)
        (text,) = struct.unpack_from(">h", data, 20 + length)
        assert 22 + length + text == size, f"inner batch at {record.physical_offset}"
        yield row | {
            "flag": flag,
            "body": data[20 : 20 + length],
            "bodyLength": length,
            "queueOffset": offset,
            **_properties(data[22 + length : size]),
        }
        data, offset = data[size:], offset + 1


def _properties(raw: bytes) -> Row:
    text = _text(raw)
    found = decode_properties(text)
    return {
        "properties": found,
        "propertiesRaw": text,
        "tags": found.get("TAGS"),
        "keys": found.get("KEYS"),
        "transactionId": found.get("UNIQ_KEY"),
    }


def rows_of_all(records: Iterable[Record], broker: str) -> list[Row]:
    """Rows in log order."""
    return in_order(row for record in records for row in rows_of(record, broker))


def in_order(rows: Iterable[Row]) -> list[Row]:
    """By broker and place in the log; the messages of an inner batch by queue offset."""
    return sorted(
        rows, key=lambda row: (row["brokerName"], row["commitLogOffset"], row["queueOffset"])
    )


def from_arrow(table: pa.Table | pa.RecordBatch) -> list[Row]:
    """The rows of a table, in its order."""
    columns = {}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        if name in TIMES:
            values = [v if v is None else v // 1000 for v in column.cast(pa.int64()).to_pylist()]
        elif name == "properties" and pa.types.is_map(column.type):
            values = [dict(pairs) for pairs in column.to_pylist()]
        else:
            values = column.to_pylist()
        columns[name] = values
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def narrowed(rows: Iterable[Row], columns: Sequence[str]) -> list[Row]:
    """The same rows with these columns only."""
    return [{name: row[name] for name in columns} for row in rows]


def assert_same(found: list[Row], expected: list[Row], what: str = "") -> None:
    """Row for row in order, column for column; reports the first difference, not all of them."""
    for at, (row, other) in enumerate(zip(found, expected, strict=False)):
        if row != other:
            names = sorted(set(row) | set(other))
            wrong = [n for n in names if row.get(n, "missing") != other.get(n, "missing")]
            pairs = {
                n: (_short(row.get(n, "missing")), _short(other.get(n, "missing"))) for n in wrong
            }
            raise AssertionError(f"{what}: row {at} of {len(expected)}: (found, expected) {pairs}")
    assert len(found) == len(expected), f"{what}: {len(found)} rows, {len(expected)} expected"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:180]}... ({len(text)} characters)"
