"""`option("history", …)` without a JVM: what is refused, which tasks there are, what they read."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import LongType, StructField, StructType

from pyrmq.errors import ConfigError, PyrmqError
from spark_ext import history, queries, selecting
from spark_ext.history import HistoryReader
from spark_ext.option import Query
from spark_ext.options import Options
from tests.tables.tailing import TABLE, Log, commit, keys


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path / "store")
    made.put(120)
    yield made
    made.close()


@pytest.fixture
def given(log: Log, tmp_path: Path) -> dict[str, str]:
    """A table of three commits, and a log behind it."""
    for _ in range(3):
        commit(tmp_path / "catalog", [log.root], most=10)
    return {
        "path": str(log.root),
        "brokerName": "b",
        "history": TABLE,
        "historyCatalog": str(tmp_path / "catalog"),
    }


def reader(given: dict[str, str]) -> HistoryReader:
    schema = queries.schema_of(given)
    made = queries.reader(given, schema, True)
    assert isinstance(made, HistoryReader)
    return made


def read(made: HistoryReader) -> list[Any]:
    """As a worker reads: from what was pickled."""
    tasks = pickle.loads(cloudpickle.dumps(made.partitions()))
    there = pickle.loads(cloudpickle.dumps(made))
    return [key for task in tasks for batch in there.read(task) for key in keys(batch)]


def test_small_files_share_a_task(log: Log, given: dict[str, str]) -> None:
    made = reader(given)
    assert [len(task.value) for task in made.partitions()] == [3, 1]
    assert sorted(read(made)) == sorted(log.sent)
    many = reader({**given, "splitBytes": "64k", "maxRecordsPerPartition": "7"})
    assert len(many.partitions()) > 3
    assert sorted(read(many)) == sorted(log.sent)


def test_names_of_columns_are_the_users(given: dict[str, str]) -> None:
    made = reader({**given, "columns": "QUEUEOFFSET,tags"})
    assert [field.name for field in made._schema.fields] == ["queueOffset", "tags"]
    schema = StructType([StructField("QueueOffset", LongType())])
    named = queries.reader(given, schema, False)
    batches = [batch for task in named.partitions() for batch in named.read(task)]
    assert {tuple(batch.schema.names) for batch in batches} == {("QueueOffset",)}


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"subscribe": "orders"}, "option subscribe is not for a read with history"),
        ({"assign": '{"orders":{"b":[0]}}'}, "option assign is not for"),
        ({"endingOffsets": "latest"}, "option endingOffsets is not for"),
        ({"key": "k"}, "option key is not for"),
        ({"body": "utf8"}, "option body is not for"),
        ({"decompress": "false"}, "option decompress is not for"),
        ({"properties": "raw"}, "properties=raw is not for"),
        ({"includeHeaders": "false"}, "properties=none is not for"),
        ({"columns": "nothing"}, "has no columns nothing"),
        ({"history": "mq.other"}, "has no table mq.other"),
        ({"historyCatalog": "/nowhere"}, "has no catalog.db"),
        ({"historyCatalog": "postgresql://user:word@host/db"}, "write them into"),
        ({"historyCatalog": "postgresql://host/db?password=word"}, "write them into"),
        ({"historyOnError": "perhaps"}, "historyOnError"),
    ],
)
def test_what_is_refused(given: dict[str, str], more: dict[str, str], text: str) -> None:
    with pytest.raises(PyrmqError, match=text) as caught:
        queries.schema_of({**given, **more})
    assert "user:word" not in str(caught.value)


@pytest.mark.parametrize("name", ["history", "historyCatalog", "historyOnError"])
def test_they_go_together(name: str) -> None:
    for query in (queries.schema_of, lambda g: queries.reader(g, StructType([]), False)):
        with pytest.raises(ConfigError, match="go together"):
            query({"path": "/store", name: "skip"})


def test_not_for_streams_and_jobs(given: dict[str, str]) -> None:
    with pytest.raises(PyrmqError, match="history does not belong to a streaming read"):
        Options(given, Query.STREAM)
    with pytest.raises(ConfigError, match="not for jobs"):
        selecting.build(Options(given, Query.BATCH), ("body",), "map")


def test_a_schema_that_the_table_does_not_have(given: dict[str, str]) -> None:
    for name, text in (("queueId", "table mq.orders has int"), ("n", "does not have: n")):
        made = queries.reader(given, StructType([StructField(name, LongType())]), False)
        with pytest.raises(ConfigError, match=text):
            made.partitions()


def test_through_brokers_options_of_the_table_stay_here(
    given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_ext import history_brokers

    asked: list[Any] = []

    class Fake:
        def __init__(self, pinned: Any, text: dict[str, str]) -> None:
            asked.append((pinned.topic, text))

        def splits(self, rows: Any, columns: Any) -> list[Any]:
            asked.append((rows, columns))
            return []

    monkeypatch.setattr(history_brokers, "BrokerTail", Fake)
    through = {
        **{name: text for name, text in given.items() if name not in ("path", "brokerName")},
        "nameServer": "127.0.0.1:9876",
        "subExpression": "A",
        "endingTimestamp": "2000-01-01",
        "failOnDataLoss": "false",
    }
    assert len(reader(through).partitions()) == 0  # by their statistics no file has such a time
    (topic, text), (rows, columns) = asked
    assert (topic, text) == (
        "orders",
        {"nameServer": "127.0.0.1:9876", "failOnDataLoss": "false"},
    )
    assert (rows.tags, rows.times) == (("A",), (None, 946_684_800_000))
    assert "body" in columns


def test_the_rules_name_options_that_there_are() -> None:
    from spark_ext.option_table import OPTIONS

    assert history._REFUSED.keys() <= {option.name for option in OPTIONS}
