"""The native reader against what was pulled: every range, column and rule."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from pyrmq.engine import (
    ALL_COLUMNS,
    DEFAULT_COLUMNS,
    LogRange,
    RecordBytes,
    SegmentReader,
    segment_advance,
    segment_times,
)
from pyrmq.segments.read_options import ReadOptions

from . import rows as side
from .logs import filled
from .material import Material
from .native import batches, cuts, end_of, files_of, read, reader_of
from .rows import ALL, DEFAULT, assert_same, narrowed


def everything(material: Material, **options: object) -> list[side.Row]:
    files = files_of(material.log)
    return read(files, files[0][0], end_of(files), broker_name=material.broker, **options)


def test_columns_are_those_of_the_schema():
    assert tuple(DEFAULT_COLUMNS) == DEFAULT
    assert set(ALL_COLUMNS) == set(ALL)


def test_every_row_with_every_column(material: Material):
    assert_same(everything(material, columns=ALL, exact=True), material.rows, "all columns")


def test_the_default_columns(material: Material):
    assert_same(everything(material), narrowed(material.rows, DEFAULT), "default columns")


@pytest.mark.parametrize("column", ALL)
def test_each_column_alone(material: Material, column: str):
    assert_same(everything(material, columns=[column]), narrowed(material.rows, [column]), column)


def test_columns_in_any_order(material: Material):
    chance = random.Random(6)
    for _ in range(20):
        some = chance.sample(ALL, chance.randint(1, len(ALL)))
        found = everything(material, columns=some)
        assert_same(found, narrowed(material.rows, some), str(some))
        assert [list(row) for row in found[:1]] == [some]


@pytest.mark.parametrize("step", [97, 1000, 4096, 32768, 100_000])
def test_cuts_anywhere(material: Material, step: int):
    """Each record belongs to the range that it starts in, however the log is cut."""
    files = files_of(material.log)
    ranges = cuts(0, end_of(files), step)
    assert len(ranges) > 2
    found = []
    for start, end in ranges:
        part = read(files, start, end, columns=ALL, broker_name=material.broker)
        assert all(start <= row["commitLogOffset"] < end for row in part)
        found += part
    assert_same(found, material.rows, f"cuts of {step}")


@pytest.mark.parametrize("limits", [(1, 1 << 20), (7, 1 << 20), (10_000, 1), (10_000, 3000)])
def test_batches_close_at_their_limits(material: Material, limits: tuple[int, int]):
    files = files_of(material.log)
    batch_rows, batch_bytes = limits
    reader = reader_of(files, 0, end_of(files), columns=ALL, broker_name=material.broker,
                           batch_rows=batch_rows, batch_bytes=batch_bytes)  # fmt: skip
    parts = batches(reader)
    for part in parts:  # the messages of an inner batch stay together
        *others, last = part["commitLogOffset"].to_pylist()
        assert sum(offset != last for offset in others) < batch_rows
    assert len(parts) > 20
    assert len({part.schema for part in parts}) == 1
    found = [row for part in parts for row in side.from_arrow(part)]
    assert_same(found, material.rows, str(limits))


def test_the_stream_interface(material: Material):
    files = files_of(material.log)
    reader = reader_of(files, 0, end_of(files), columns=ALL, broker_name=material.broker)
    table = pa.RecordBatchReader.from_stream(reader).read_all()
    assert_same(side.from_arrow(table), material.rows, "stream")


def test_views_are_the_same_bodies(material: Material):
    files = files_of(material.log)
    reader = reader_of(files, 0, end_of(files), columns=["body"], views=True)
    table = pa.RecordBatchReader.from_stream(reader).read_all()
    assert table.schema.field("body").type == pa.binary_view()
    del reader
    assert table["body"].to_pylist() == [row["body"] for row in material.rows]


def test_bodies_as_they_are_stored(material: Material):
    """decompress=False: sysFlag and bodyLength say what is there."""
    found = everything(material, columns=ALL, decompress=False)
    plain = everything(material, columns=ALL)
    assert len(found) == len(plain)
    for stored, row in zip(found, plain, strict=True):
        if row["sysFlag"] & 0x1:
            assert len(stored["body"]) == row["bodyLength"]
            assert side.inflated(stored["body"], row["sysFlag"]) == row["body"]
        else:
            assert stored == row


@pytest.mark.parametrize("form", ["json", "raw"])
def test_properties_as_text(material: Material, form: str):
    import json

    found = everything(material, columns=["properties"], properties=form)
    for row, expected in zip(found, material.rows, strict=True):
        if form == "raw":
            assert row["properties"] == expected["propertiesRaw"]
        else:
            assert json.loads(row["properties"]) == expected["properties"]


def test_rules_by_topic_and_queue(material: Material):
    for topic in material.topics:
        expected = [row for row in material.rows if row["topic"] == topic]
        asked: list[str] = []

        def rule(name: str, wanted: str = topic, asked: list[str] = asked) -> bool:
            asked.append(name)
            return name == wanted

        assert_same(everything(material, columns=ALL, rule=rule), expected, topic)
        assert sorted(asked) == material.topics
    chance = random.Random(2)
    for _ in range(30):
        ranges = {
            topic: {
                queue: tuple(sorted(chance.choices(range(first, end + 1), k=2)))
                for (name, queue), (first, end) in material.queues.items()
                if name == topic and chance.random() < 0.7
            }
            for topic in material.topics
        }
        expected = [
            row
            for row in material.rows
            if row["queueId"] in ranges[row["topic"]]
            and row["queueOffset"] in range(*ranges[row["topic"]][row["queueId"]])
        ]
        found = everything(material, columns=ALL, rule=ranges.__getitem__)
        assert_same(found, expected, str(ranges))


def test_any_other_queue(material: Material):
    found = everything(material, columns=ALL, rule=lambda topic: {0: (3, 9), -1: (0, 2)})
    expected = [
        row
        for row in material.rows
        if (3 <= row["queueOffset"] < 9 if row["queueId"] == 0 else row["queueOffset"] < 2)
    ]
    assert_same(found, expected, "queue -1")


def test_tags_and_keys(material: Material):
    for tags in (["TagA"], ["标签", "TagB"], ["名"], ["Tag"], ["kind201", "T1"]):
        expected = [row for row in material.rows if row["tags"] in tags]
        assert_same(everything(material, columns=ALL, tags=tags), expected, str(tags))
    for key in ("shared", "key-7", "in-3", "größe", "key", f"{3:032X}"):
        expected = [
            row
            for row in material.rows
            if key in (row["keys"] or "").split() or key == row["transactionId"]
        ]
        assert_same(everything(material, columns=ALL, key=key), expected, key)


def test_store_times(material: Material):
    times = sorted({row["storeTimestamp"] for row in material.rows})
    chance = random.Random(9)
    for _ in range(30):
        start, end = sorted(chance.choices(times, k=2))
        expected = [row for row in material.rows if start <= row["storeTimestamp"] < end]
        found = everything(material, columns=ALL, start_time=start, end_time=end)
        assert_same(found, expected, f"{start} to {end}")


def test_positions_instead_of_a_walk(material: Material):
    chance = random.Random(4)
    places = sorted({(row["commitLogOffset"], row["storeSize"]) for row in material.rows})
    for count in (0, 1, 10, len(places)):
        some = sorted(chance.sample(places, count))
        packed = b"".join(struct.pack("<qq", *place) for place in some)
        wanted = {offset for offset, _ in some}
        expected = [row for row in material.rows if row["commitLogOffset"] in wanted]
        assert_same(everything(material, columns=ALL, positions=packed), expected, str(count))


def test_records_of_a_pull_answer(material: Material):
    """The same decoder reads what a broker sends."""
    data = b""
    for base, _, path in files_of(material.log):
        content = Path(path).read_bytes()
        sizes = {
            row["commitLogOffset"] - base: row["storeSize"]
            for row in material.rows
            if base <= row["commitLogOffset"] < base + len(content)
        }
        data += b"".join(content[at : at + size] for at, size in sorted(sizes.items()))
    form = ReadOptions(columns=tuple(ALL))
    reader = SegmentReader(RecordBytes(data), None, form, broker_name=material.broker)
    found = [row for batch in batches(reader) for row in side.from_arrow(batch)]
    assert_same(found, material.rows, "pull answer")


def test_through_an_opener(material: Material):
    """Segments that are not local files: read through whatever has read_at."""
    files = files_of(material.log)
    names = {f"segment {number}": path for number, (_, _, path) in enumerate(files)}
    far = [(base, length, name) for (base, length, _), name in zip(files, names, strict=True)]

    def opener(name: str) -> pa.NativeFile:
        return pa.OSFile(names[name])

    end = end_of(far, opener=opener)
    assert end == end_of(files)
    for step in (1000, 40_000):
        found = []
        for start, stop in cuts(0, end, step):
            found += read(far, start, stop, opener=opener, columns=ALL, broker_name=material.broker)
        assert_same(found, material.rows, f"through an opener, cuts of {step}")


def test_advance_counts_rows_and_bytes(material: Material):
    files = files_of(material.log)
    end = end_of(files)
    sizes = {row["commitLogOffset"]: row["storeSize"] for row in material.rows}
    starts = sorted(sizes)
    for limit in (1, 10, 100):
        at, seen = 0, []
        while at < end:
            to, count = segment_advance(LogRange(files, at, end), max_rows=limit)
            part = [row for row in material.rows if at <= row["commitLogOffset"] < to]
            assert len(part) == count
            assert count <= limit or len({row["commitLogOffset"] for row in part}) == 1
            assert to > at
            seen += part
            at = to
        assert_same(seen, material.rows, f"advance by {limit}")
    for limit in (1, 5000, 50_000):
        at = 0
        while at < end:
            to, _ = segment_advance(LogRange(files, at, end), max_bytes=limit)
            inside = [s for s in starts if at <= s < to]
            assert inside[-1] + sizes[inside[-1]] - at <= limit or len(inside) == 1
            at = to


def test_advance_by_the_rows_of_a_rule(material: Material):
    files = files_of(material.log)
    end = end_of(files)
    at, seen = 0, 0
    while at < end:
        to, count = segment_advance(LogRange(files, at, end), lambda t: t == "Load", max_rows=3)
        assert count <= 3
        at, seen = to, seen + count
    assert seen == sum(row["topic"] == "Load" for row in material.rows)


def test_times_of_the_files(material: Material):
    files = files_of(material.log)
    expected = []
    for base, length, _ in files:
        inside = [r for r in material.rows if base <= r["commitLogOffset"] < base + length]
        first = inside[0] if inside else None
        expected.append((first["storeTimestamp"], first["commitLogOffset"]) if first else None)
    assert segment_times(files) == expected


def test_stats_add_up(tmp_path: Path):
    log = filled(tmp_path / "log", 300)
    reader = reader_of(log.files(), 0, log.end, rule=lambda topic: topic == "T1")
    taken = sum(batch.num_rows for batch in batches(reader))
    stats = reader.stats()
    assert taken == stats["rows"] == sum(r.topic == "T1" for r in log.records)
    assert stats["records"] == 300
    assert stats["recordBytes"] == sum(r.size for r in log.records)
    assert (stats["skippedBytes"], stats["damagedParts"]) == (0, 0)
    assert reader.damage() == []
