"""Expressions that are evaluated as messages are stored: the bits, and what they rule out."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from pyrmq.engine import SqlFilter, Store, bitmap_bits, subscription_bits
from tests.store.golden_formats import read_units, unpack
from tests.store.tools import data, image, opened
from tests.store.unit.test_golden_formats import BITS_OF_SQL_GROUP
from tests.store.unit.test_golden_formats_engine import options
from tests.support.records import decode_records

EXT_FILE = 4096
LEN = 14
OPTIONS: dict[str, Any] = {
    "queue_ext": True,
    "queue_ext_file_size": EXT_FILE,
    "bitmap_len": LEN,
    "commit_log_file_size": 1 << 16,
}
OVER_3 = SqlFilter("number > 3")
BITS = [9, 33, 77]


def put(store: Store, *numbers: int) -> None:
    for n in numbers:
        store.put("T", 0, b"%d" % n, f"number\x01{n}\x02")


def evaluate(store: Store, sql: SqlFilter = OVER_3, bits: list[int] = BITS) -> SqlFilter:
    """Has it evaluated from now on; returns the filter of a pull."""
    told = store.set_expressions("T", [(sql, bits)])
    assert told is not None
    return sql.with_bits(bits, LEN, *told)


def found(store: Store, sql: SqlFilter, topic: str = "T") -> list[int]:
    numbers, offset = [], 0
    while offset < store.queue_range(topic, 0)[1]:
        result = store.get(topic, 0, offset, sql=sql)
        numbers += [int(record.body) for record in decode_records(data(result))]
        offset = result.next_offset
    return numbers


def bitmaps(root: Path) -> list[bytes]:
    """Of all units of the queue, in order."""
    raw = b"".join(p.read_bytes() for p in sorted((root / "consumequeue_ext/T/0").iterdir()))
    maps, at = [], 0
    while at < len(raw) and (size := struct.unpack_from(">h", raw, at)[0]) > 0:
        maps.append(raw[at + 20 : at + size])
        at += size
    return maps


def bitmap(*bits: int) -> bytes:
    return sum(1 << bit for bit in bits).to_bytes(LEN, "little")


def test_the_bits_on_disk(tmp_path: Path) -> None:
    with opened(tmp_path, **OPTIONS) as store:
        put(store, 5)
        sql = evaluate(store)
        put(store, 4, 3)
        odd = SqlFilter("number <> 4")
        store.set_expressions("T", [(OVER_3, BITS), (odd, [0, 9])])
        put(store, 7, 4, 3)
        assert store.set_expressions("T", []) is not None
        put(store, 8)
        assert found(store, sql) == [5, 4, 7, 4, 8]
    assert bitmaps(tmp_path) == [
        b"",
        bitmap(*BITS),
        bitmap(),
        bitmap(0, *BITS),
        bitmap(*BITS),
        bitmap(0, 9),
        b"",
    ]


def test_other_topics_and_unknown_ones(tmp_path: Path) -> None:
    with opened(tmp_path, **OPTIONS) as store:
        assert store.set_expressions("T", [(OVER_3, BITS)]) is None
        put(store, 4)
        evaluate(store)
        store.put("Other", 0, b"4", "number\x014\x02")
    assert bitmaps(tmp_path) == [b""]
    other = (tmp_path / "consumequeue_ext/Other/0").iterdir()
    assert struct.unpack_from(">h", next(other).read_bytes())[0] == 20


def test_after_a_kill(tmp_path: Path) -> None:
    """Recovery writes units without bits: they say nothing, and nothing is missed."""
    with opened(tmp_path / "live", **OPTIONS) as store:
        put(store, 1)
        sql = evaluate(store)
        put(store, *range(2, 200))
        copy = image(tmp_path / "live", tmp_path / "killed")
    with opened(copy, **OPTIONS) as store:
        assert found(store, sql) == list(range(4, 200))
        put(store, 3, 4)
        assert found(store, sql) == [*range(4, 200), 4]


def test_without_extension_files(tmp_path: Path) -> None:
    """The switch is off again, or was never on: what has no bits is read."""
    with opened(tmp_path, commit_log_file_size=1 << 16) as store:
        put(store, 1)
        sql = evaluate(store)
        put(store, 3, 4)
        assert found(store, sql) == [4]


def test_units_that_rocketmq_wrote(tmp_path: Path) -> None:
    """Its broker has evaluated `number > 3` for the group SQL."""
    unpack(tmp_path)
    root = tmp_path / "broker"
    bits = subscription_bits("SQL", "Plain", 20, 32)
    assert (bitmap_bits(20, 32), sorted(bits)) == (8 * LEN, sorted(BITS_OF_SQL_GROUP))
    units = list(read_units(root, "Plain", 0).values())
    with opened(root, **options("broker"), bitmap_len=LEN) as store:
        plain = found_at(store, OVER_3)
        assert found_at(store, OVER_3.with_bits(bits, LEN, 0, 0)) == plain
        # Bits that it never set rule out whatever has a bitmap.
        with_bitmap = {n for n, unit in enumerate(units) if unit.bitmap}
        assert with_bitmap & set(plain)
        other = found_at(store, OVER_3.with_bits([1], LEN, 0, 0))
        assert set(other) == set(plain) - with_bitmap


def found_at(store: Store, sql: SqlFilter) -> list[int]:
    """Queue offsets of what a filter finds in queue 0 of Plain."""
    offsets, offset = [], 0
    while offset < store.queue_range("Plain", 0)[1]:
        result = store.get("Plain", 0, offset, sql=sql)
        offsets += [record.queue_offset for record in decode_records(data(result))]
        offset = result.next_offset
    return offsets
