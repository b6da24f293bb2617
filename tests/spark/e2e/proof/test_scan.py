"""pyrmq.scan: the same rows with no Spark, for pyarrow, Polars and DuckDB."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import pyrmq

from .material import Material, image
from .rows import ALL, DEFAULT, assert_same, from_arrow, in_order, narrowed
from .writer import Writer, number_of, place_of


def test_to_arrow(material: Material):
    table = pyrmq.scan(material.root, columns=ALL, include_system_topics=True).to_arrow()
    assert_same(in_order(from_arrow(table)), material.rows, "to_arrow")
    table = pyrmq.scan(str(material.root)).to_arrow(threads=3)
    found = in_order(from_arrow(table))
    assert_same(found, narrowed(material.user_rows, DEFAULT), "three threads")


def test_to_reader_and_stream(material: Material):
    reader = pyrmq.scan(material.root, topic="Orders", batch_rows=11).to_reader()
    batches = list(reader)
    assert max(batch.num_rows for batch in batches) <= 11
    expected = [r for r in material.rows if r["topic"] == "Orders"]
    found = [row for batch in batches for row in from_arrow(batch)]
    assert_same(in_order(found), narrowed(expected, DEFAULT), "to_reader")
    scanned = pyrmq.scan(material.root, topic="Orders", columns=["queueOffset", "tags"])
    table = pa.table(scanned)
    assert table.schema == scanned.schema
    assert from_arrow(table) == narrowed(expected, ["queueOffset", "tags"])


def test_selections(material: Material):
    times = sorted({row["storeTimestamp"] for row in material.rows})
    low, high = times[len(times) // 4], times[len(times) // 2]
    found = pyrmq.scan(
        material.root,
        topics=["Orders", "Load"],
        queues=[0, 2],
        tags="TagA || 标签",
        start_time=low,
        end_time=datetime.fromtimestamp(high / 1000, UTC),
        columns=ALL,
    ).to_arrow()
    expected = [
        r
        for r in material.rows
        if r["topic"] in ("Orders", "Load")
        and r["queueId"] in (0, 2)
        and r["tags"] in ("TagA", "标签")
        and low <= r["storeTimestamp"] < high
    ]
    assert expected
    assert_same(in_order(from_arrow(found)), expected, "selection")


def test_views(material: Material):
    table = pyrmq.scan(material.root, columns=["body"], topic="Load", views=True).to_arrow()
    assert table.schema.field("body").type == pa.binary_view()
    bodies = [r["body"] for r in material.rows if r["topic"] == "Load"]
    assert table["body"].to_pylist() == bodies


def test_views_outlive_the_files(material: Material, tmp_path: Path):
    """Mappings stay while batches do, though retention has deleted the files."""
    root = image(material.root, tmp_path / "store")
    table = pyrmq.scan(root, columns=["body"], topic="Load", views=True).to_arrow()
    for path in (root / "commitlog").iterdir():
        path.unlink()
    bodies = [r["body"] for r in material.rows if r["topic"] == "Load"]
    assert table["body"].to_pylist() == bodies


def test_polars(material: Material):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(pyrmq.scan(material.root, columns=["topic", "queueOffset", "body"]))
    expected = narrowed(material.user_rows, ["topic", "queueOffset", "body"])
    assert_same(frame.to_dicts(), expected, "Polars")


def test_duckdb(material: Material):
    duckdb = pytest.importorskip("duckdb")
    log = pyrmq.scan(material.root).to_reader()
    found = duckdb.query(
        "SELECT topic, count(*) AS n, sum(octet_length(body)) AS bytes FROM log GROUP BY topic"
    ).fetchall()
    expected: dict[str, tuple[int, int]] = {}
    for row in material.user_rows:
        count, size = expected.get(row["topic"], (0, 0))
        expected[row["topic"]] = count + 1, size + len(row["body"])
    assert {topic: (n, size) for topic, n, size in found} == expected
    assert log is not None


def test_a_live_store(tmp_path: Path):
    """Each scan is the log up to some point, later ones up to later points."""
    total, sizes = 30_000, []
    with Writer(tmp_path / "store", total) as writer:
        while True:
            last = not writer.running
            table = pyrmq.scan(
                tmp_path / "store", columns=["body", "topic", "queueId", "queueOffset"],
                verify_crc="all", plan="scan",
            ).to_arrow()  # fmt: skip
            numbers = [number_of(body) for body in table["body"].to_pylist()]
            assert numbers == list(range(len(numbers)))
            where = zip(*(table[n].to_pylist() for n in ("topic", "queueId", "queueOffset")),
                        strict=True)  # fmt: skip
            assert list(where) == [place_of(number) for number in numbers]
            sizes.append(len(numbers))
            if last:
                break
        writer.wait()
    assert sizes == sorted(sizes)
    assert sizes[-1] == total
    assert len(set(sizes)) > 3


@pytest.mark.parametrize("plan", ["index", "auto"])
def test_one_queue_of_a_live_store(tmp_path: Path, plan: str):
    """By its queue file, which is written behind the log: in order and without gaps."""
    total, sizes = 30_000, []
    with Writer(tmp_path / "store", total) as writer:
        while True:
            last = not writer.running
            columns = ["body", "queueOffset"]
            scanned = pyrmq.scan(
                tmp_path / "store", topic="W1", queues=[2], columns=columns, plan=plan
            )
            table = scanned.to_arrow()
            offsets = table["queueOffset"].to_pylist()
            assert offsets == list(range(len(offsets)))
            for body, offset in zip(table["body"].to_pylist(), offsets, strict=True):
                assert place_of(number_of(body)) == ("W1", 2, offset)
            sizes.append(len(offsets))
            if last:
                break
        writer.wait()
    assert sizes == sorted(sizes)
    assert sizes[-1] == total // 12
