"""`pyrmq.scan`: what Arrow's libraries make of it."""

from __future__ import annotations

import base64
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyrmq
from pyrmq.engine import joined_splits
from pyrmq.errors import MissingPackageError, SegmentOptionError
from pyrmq.segments.plan import plan
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.scan import Scan
from pyrmq.segments.selection import Selection
from pyrmq.segments.store import open_stores
from tests.segments.making import ROW, Made, as_rows, read
from tests.store.tools import image, log_file, overwrite
from tests.support.records import decode_records

Golden = tuple[Path, dict[str, Any]]


def test_the_store_of_the_real_broker(golden: Golden) -> None:
    root, expected = golden
    table = pyrmq.scan(
        root,
        include_system_topics=True,
        columns=[*ROW, "storeSize", "bodyCRC", "flag", "sysFlag", "reconsumeTimes", "msgId"],
    ).to_arrow()
    records = [decode_records(base64.b64decode(r["record"]))[0] for r in expected["records"]]
    assert table.num_rows == len(records)
    for name, values in {
        "topic": [r.topic for r in records],
        "queueId": [r.queue_id for r in records],
        "queueOffset": [r.queue_offset for r in records],
        "commitLogOffset": [r.physical_offset for r in records],
        "tags": [r.properties.get("TAGS") for r in records],
        "keys": [r.properties.get("KEYS") for r in records],
        "body": [r.body for r in records],
        "storeSize": [r.size for r in records],
        "bodyCRC": [r.body_crc for r in records],
        "flag": [r.flag for r in records],
        "sysFlag": [r.sys_flag for r in records],
        "reconsumeTimes": [r.reconsume_times for r in records],
        "msgId": [r.offset_msg_id for r in records],
    }.items():
        assert table.column(name).to_pylist() == values, name


def test_properties_of_the_real_broker(golden: Golden) -> None:
    root, expected = golden
    records = [decode_records(base64.b64decode(r["record"]))[0] for r in expected["records"]]
    scan = pyrmq.scan(root, include_system_topics=True, columns=["properties", "storeTimestamp"])
    table = scan.to_arrow()
    assert [dict(p) for p in table.column("properties").to_pylist()] == [
        r.properties for r in records
    ]
    times = [datetime.fromtimestamp(r.store_timestamp / 1000, UTC) for r in records]
    assert table.column("storeTimestamp").to_pylist() == times


def test_counts_are_the_queue_offsets(golden: Golden) -> None:
    root, _ = golden
    table = pyrmq.scan(root, columns=["topic", "queueId", "queueOffset"]).to_arrow()
    groups = table.group_by(["topic", "queueId"]).aggregate(
        [("queueOffset", "count"), ("queueOffset", "max"), ("queueOffset", "min")]
    )
    for group in groups.to_pylist():
        assert group["queueOffset_min"] == 0
        assert group["queueOffset_count"] == group["queueOffset_max"] + 1


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_as_a_table(made: Made, threads: int | None) -> None:
    assert as_rows(pyrmq.scan(made.root, columns=ROW).to_arrow(threads)) == made.of("A", "B", "C")


def test_as_a_stream_of_batches(made: Made) -> None:
    scan = pyrmq.scan(made.root, topic="A", columns=ROW, batch_rows=100)
    batches = list(scan.to_reader())
    assert {b.num_rows for b in batches[:-1]} == {100}
    assert as_rows(pa.Table.from_batches(batches)) == made.of("A")
    assert as_rows(pa.table(scan)) == made.of("A")
    assert as_rows(pa.table(scan)) == made.of("A")  # read anew


def test_ranges_that_follow_on_each_other_are_one_stream(made: Made) -> None:
    stores = open_stores([made.path])
    how = ReadOptions(columns=tuple(ROW))
    splits = plan(stores, Selection(), how, split_bytes=20_000, mode="scan")
    assert len(splits) > 20
    (one,) = joined_splits(splits)
    assert read([one]) == read(splits) == as_rows(pa.table(Scan(splits, how)))
    assert len(joined_splits(splits[:4] + splits[5:])) == 2


def test_skipped_damage_is_reported_in_a_stream_too(
    made: Made, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = image(made.root, tmp_path / "broker-a")
    overwrite(log_file(root), made.of("A")[5][3], b"\xee" * 30)
    with caplog.at_level("WARNING", "pyrmq.segments"):
        table = pa.table(pyrmq.scan(root, topic="A", columns=ROW, on_corruption="skip"))
    assert table.num_rows == len(made.of("A")) - 1
    assert "1 damaged parts" in caplog.text


def test_several_stores_in_one_stream(made: Made, golden: Golden) -> None:
    paths = [made.root, golden[0]]
    with pytest.raises(SegmentOptionError, match="would both be broker 'broker-a'"):
        pyrmq.scan(paths)
    names = ["broker-a", "store"]
    scan = pyrmq.scan(paths, columns=["brokerName", "topic"], broker_names=names)
    assert len(scan.splits) == 2
    table = pa.table(scan)
    assert set(table.column("brokerName").to_pylist()) == {"broker-a", "store"}
    assert table.num_rows == len(made.of("A", "B", "C")) + 296


def test_polars(made: Made) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(pyrmq.scan(made.root, columns=["topic", "queueId", "body"]))
    assert frame.height == len(made.of("A", "B", "C"))
    counts = dict(frame.group_by("topic").len().iter_rows())
    assert counts == {t: len(made.of(t)) for t in "ABC"}
    assert frame["body"].to_list() == [row[6] for row in made.of("A", "B", "C")]


def test_duckdb(made: Made) -> None:
    duckdb = pytest.importorskip("duckdb")
    messages = pyrmq.scan(made.root, columns=["topic", "body"])
    with duckdb.connect() as db:
        db.register("messages", messages.to_reader())
        found = db.sql("select topic, count(*), sum(octet_length(body)) from messages group by 1")
        got = {topic: (n, size) for topic, n, size in found.fetchall()}
    assert got == {t: (len(made.of(t)), sum(len(r[6]) for r in made.of(t))) for t in "ABC"}


def test_views_are_the_same_bodies(made: Made) -> None:
    scan = pyrmq.scan(made.root, topic="A", columns=ROW, views=True)
    assert scan.schema.field("body").type == pa.binary_view()
    assert as_rows(pa.table(scan)) == made.of("A")


def test_nothing_found_has_the_schema(made: Made) -> None:
    scan = pyrmq.scan(made.root, topic="A", start_time=datetime(2200, 1, 1, tzinfo=UTC))
    assert scan.splits == []
    assert pa.table(scan).schema == scan.schema
    assert scan.to_arrow().num_rows == 0


def test_columns_and_forms(made: Made) -> None:
    scan = pyrmq.scan(made.root, columns=["queueOffset", "topic"])
    assert scan.schema.names == ["queueOffset", "topic"]
    assert "properties" not in pyrmq.scan(made.root, properties="none").schema.names
    json_form = pyrmq.scan(made.root, topic="C", columns=["properties"], properties="json")
    assert json_form.schema.field("properties").type == pa.string()


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"columns": ["topics"]}, "did you mean topic?"),
        ({"columns": ["body", "body"]}, "a column twice"),
        ({"columns": ["properties"], "properties": "none"}, "leave out one of them"),
        ({"properties": "xml"}, "expected map, json, raw or none"),
        ({"verify_crc": "some"}, "expected none, tail or all"),
        ({"on_corruption": "ignore"}, "expected fail or skip"),
        ({"batch_rows": 0}, "batch_rows: 0"),
        ({"batch_bytes": 1 << 40}, "batch_bytes"),
        ({"topic": "A", "topics": ["B"]}, "give one of them"),
        ({"topics": "A"}, "give it as topic"),
        ({"tags": "A || "}, "empty tag"),
        ({"starting_offsets": "{"}, "starting_offsets: '{' does not parse"),
        ({"start_time": datetime(2026, 1, 1)}, "has no zone"),
        ({"assign": {"A": {"broker-a": []}}}, "assign: 'A' of 'broker-a' has []"),
    ],
)
def test_wrong_options(made: Made, options: dict[str, Any], part: str) -> None:
    with pytest.raises(SegmentOptionError) as caught:
        pyrmq.scan(made.root, **options)
    assert part in str(caught.value)


def test_threads_must_be_some(made: Made) -> None:
    with pytest.raises(SegmentOptionError, match="threads: 0"):
        pyrmq.scan(made.root).to_arrow(0)


def test_without_pyarrow_only_what_needs_it_fails(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = pyrmq.scan(made.root, topic="A", columns=ROW)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    stream = scan.__arrow_c_stream__()
    assert "arrow_array_stream" in repr(stream)
    with pytest.raises(MissingPackageError, match=r"needs pyarrow.*pip|needs pyarrow.*install"):
        scan.to_arrow()


def test_importing_pyrmq_loads_none_of_it() -> None:
    code = (
        "import sys, pyrmq; assert not [m for m in sys.modules if 'segments' in m or m in "
        "('pyarrow', 'numpy', 'pyrmq.engine')]; pyrmq.scan; "
        "assert 'pyarrow' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
