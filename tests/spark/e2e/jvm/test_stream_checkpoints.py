"""Either reader continues the checkpoint of the other: offsets are equal texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.version import __version__ as pyspark_version

from tests.spark.small_store import Writer
from tests.spark.streams import Query

pytestmark = pytest.mark.spark_versions
PYTHON, JVM = "pyrmq", "rocketmq"
limits = pytest.mark.skipif(
    pyspark_version.startswith("4.1."), reason="the source in Python has no limits on PySpark 4.1"
)
TURNS = [(PYTHON, JVM), (JVM, PYTHON)]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    # Both what JSON escapes and what sorts apart by numbers and by text.
    made = Writer(tmp_path / 'bröker "a"', queues=12)
    yield made
    made.close()


@pytest.fixture
def query(spark: SparkSession, writer: Writer, tmp_path: Path) -> Query:
    return Query(spark, writer.root, tmp_path / "checkpoint")


def rows_of(writer: Writer, first: int) -> list[int]:
    return [one.physical for one in writer.sent[first:]]


OPTIONS = {
    "all": {},
    "topics": {"subscribe": "payments,orders"},
    "queues": {"assign": '{"orders": {"bröker \\"a\\"": [11, 2, 1]}}'},
    "offsets": {
        "subscribe": "orders",
        "startingOffsets": '{"orders": {"bröker \\"a\\"": {"10": 3, "2": 6, "0": 1}}}',
    },
}


LONG_FORM = pytest.mark.thorough("the positions of all topics and of offsets have the same form")
IN_TURNS = [
    pytest.param(options, id=name, marks=[LONG_FORM] if name in ("topics", "queues") else [])
    for name, options in OPTIONS.items()
]


@limits
@pytest.mark.parametrize("turns", TURNS, ids=["-".join(turn) for turn in TURNS])
@pytest.mark.parametrize("options", IN_TURNS)
def test_in_turns(
    query: Query, writer: Writer, turns: tuple[str, str], options: dict[str, str]
) -> None:
    """Four runs, of which every second one is of the other reader; the last has nothing to do."""
    read: list[int] = []
    for count, reader in zip((150, 200, 100, 0), turns * 2, strict=True):
        writer.put(count)
        query.reader = reader
        read += query.run(maxOffsetsPerTrigger="40", **options)
        before = query.written()
        query.reader = turns[0] if reader == turns[1] else turns[1]
        assert query.run(maxOffsetsPerTrigger="40", **options) == []
        assert query.written() == before, "an offset that is equal makes no micro-batch"
    alone = Query(query.spark, query.store, query.checkpoint.with_name("alone"), JVM)
    assert sorted(read) == alone.run(**options)
    assert len(read) == len(set(read)) > 50


@limits
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_equal_as_text(query: Query, writer: Writer, options: dict[str, str]) -> None:
    """Each micro-batch of a limited query ends at the same text with both."""
    writer.put(300)
    texts = {}
    for reader in (PYTHON, JVM):
        one = Query(query.spark, query.store, query.checkpoint / reader, reader)
        one.run(maxOffsetsPerTrigger="35", **options)
        files = sorted((one.checkpoint / "offsets").glob("[0-9]*"), key=lambda p: int(p.name))
        texts[reader] = [file.read_text().splitlines()[2] for file in files]
    assert texts[JVM] == texts[PYTHON]
    assert len(texts[JVM]) > 1


@pytest.mark.parametrize("turns", TURNS, ids=["-".join(turn) for turn in TURNS])
def test_a_topic_that_is_added_by_the_other(
    query: Query, writer: Writer, turns: tuple[str, str]
) -> None:
    writer.put(100)
    query.reader = turns[0]
    first = query.run(subscribe="orders")
    query.reader = turns[1]
    assert sorted(first + query.run(subscribe="orders,payments")) == rows_of(writer, 0)


@limits
@pytest.mark.parametrize("turns", TURNS, ids=["-".join(turn) for turn in TURNS])
def test_a_batch_that_failed_is_read_again_by_the_other(
    query: Query, writer: Writer, turns: tuple[str, str]
) -> None:
    writer.put(100)
    query.reader = turns[0]
    frame = query.frame(maxOffsetsPerTrigger="60").writeStream.foreachBatch(_fail)
    started = frame.option("checkpointLocation", str(query.checkpoint)).start()
    with pytest.raises(Exception, match="of the test"):
        started.awaitTermination()
    writer.put(50)
    query.reader = turns[1]
    assert query.run(maxOffsetsPerTrigger="60") == rows_of(writer, 0)
    assert [len(rows) for rows in query.batches] == [60, 60, 30]


def _fail(*_: object) -> None:
    raise RuntimeError("a failure of the test")
