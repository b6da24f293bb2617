"""Users of the data source read names of options in errors, and never those of parameters."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import pyrmq
from pyrmq.errors import (
    CheckpointError,
    DataLossError,
    Parameter,
    PyrmqError,
    SegmentDamagedError,
    SegmentLayoutError,
)
from pyrmq.segments.stream import StreamPlanner
from spark_ext import selecting
from spark_ext.broker.plan import BrokerPlanner
from spark_ext.option import Query
from spark_ext.option_names import as_option, option_names
from spark_ext.option_table import GROUPS, NAME_OF, OPTIONS, SELECTING, TABLE
from spark_ext.options import Options
from spark_ext.readers import SegmentBatchReader, SegmentStreamReader41, read
from spark_ext.schema import DEFAULT, spark_schema
from tests.segments.unit.test_parameters import NAMED
from tests.spark import small_store

SEGMENTS = Path(pyrmq.__file__).parent / "segments"
ONLY_SCAN = {"queues", "threads", "views", "body"}
"""Parameters that no option sets."""


def options(query: Query = Query.BATCH, **given: str) -> Options:
    return Options({"path": "/store", **given}, query)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "broker-a"
    small_store.write(path, 600)
    return path


def test_every_parameter_that_errors_name_has_an_option() -> None:
    assert NAME_OF.keys() >= NAMED - ONLY_SCAN
    assert not ONLY_SCAN & NAME_OF.keys()
    assert len(NAME_OF) == sum(option.parameter is not None for option in OPTIONS)


def test_segments_name_no_option() -> None:
    """But for names that are columns or keys as well, such as `topic`."""
    foreign = {o.name for o in OPTIONS if o.parameter != o.name} - {
        "brokerName", "path", "paths", "body", "reader",
    }  # fmt: skip
    found: dict[str, int] = {}
    for path in [*SEGMENTS.glob("*.py"), SEGMENTS.parent / "errors.py"]:
        for word in re.findall(r"\w+", path.read_text(encoding="utf-8")):
            if word in foreign:
                found[word] = found.get(word, 0) + 1
    assert not found


def test_parameters_as_options() -> None:
    assert as_option(Parameter("pattern")) == "subscribePattern"
    assert as_option(Parameter("fail_on_data_loss", False)) == "failOnDataLoss=false"
    assert as_option(Parameter("timestamp_strategy", "latest")) == (
        "startingOffsetsByTimestampStrategy=latest"
    )
    assert as_option(Parameter("views")) == "views"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"startingTimestamp": "1795300000005", "endingTimestamp": "1795300000004"},
         "endingTimestamp 1795300000004 is before startingTimestamp 1795300000005"),
        ({"subscribe": "x" * 300}, "subscribe: .* is no topic name"),
    ],
)  # fmt: skip
def test_a_selection(given: dict[str, str], text: str) -> None:
    with pytest.raises(PyrmqError, match=text):
        selecting.selection(options(**given))


def planned(store: Path, **given: str) -> Any:
    checked = Options({"path": str(store), **given}, Query.BATCH)
    return SegmentBatchReader(checked, spark_schema(DEFAULT, "map")).partitions()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"startingTimestamp": str(2**46)},
         "startingTimestamp .* is later .*startingOffsetsByTimestampStrategy=latest reads nothing"),
        ({"startingOffsets": '{"%s": {"broker-a": {"0": 100000}}}'},
         "startingOffsets: offset 100000 .* is behind its end"),
        ({"startingOffsets": '{"%s": {"x": {"0": 1}}}'},
         "startingOffsets: there is no broker 'x' .*brokerName sets other names"),
        ({"brokerName": "a,b"}, "brokerName has 2 names for 1 stores"),
    ],
)  # fmt: skip
def test_a_plan(store: Path, given: dict[str, str], text: str) -> None:
    topic = next(p.name for p in (store / "consumequeue").iterdir())
    with pytest.raises(PyrmqError, match=text):
        planned(store, **{name: value.replace("%s", topic) for name, value in given.items()})


def test_a_plan_by_index_of_a_log_alone(store: Path) -> None:
    with pytest.raises(PyrmqError, match=r"plan=index is not possible .*plan=scan or plan=auto"):
        planned(store / "commitlog", plan="index")


def test_a_task(tmp_path: Path) -> None:
    small_store.write(tmp_path / "broker-a", 600)
    parts = planned(tmp_path / "broker-a")
    sorted((tmp_path / "broker-a" / "commitlog").iterdir())[0].unlink()
    with pytest.raises(DataLossError, match=r"deleted before .*failOnDataLoss=false continues"):
        list(read(parts[0]))


def test_damage(tmp_path: Path) -> None:
    small_store.write(tmp_path / "broker-a", 600)
    first = sorted((tmp_path / "broker-a" / "commitlog").iterdir())[0]
    raw = bytearray(first.read_bytes())
    raw[4:8] = b"\xff" * 4
    first.write_bytes(raw)
    part = planned(tmp_path / "broker-a")[0]
    with pytest.raises(SegmentDamagedError, match=r"onCorruption=skip leaves this out\)$") as found:
        list(read(part))
    assert str(found.value).count("onCorruption") == 1
    found.value.rename(str)
    assert "on_corruption='skip'" in str(found.value)
    assert "onCorruption" not in str(found.value)


def test_a_stream(store: Path) -> None:
    checked = Options({"path": str(store)}, Query.STREAM)
    reader = SegmentStreamReader41(checked, spark_schema(DEFAULT, "map"))
    start = reader.initialOffset()
    assert isinstance(reader._planner, StreamPlanner)
    other = {"log": {"broker-z": 0}, "version": 1}
    with pytest.raises(CheckpointError, match="stores and brokerName of before"):
        reader.partitions(other, other)
    assert reader.partitions(start, reader.latestOffset()) == []


def test_a_stream_that_pyspark_cannot_limit(store: Path) -> None:
    for name in ("maxOffsetsPerTrigger", "maxBytesPerTrigger"):
        checked = Options({"path": str(store), name: "5"}, Query.STREAM)
        with pytest.raises(PyrmqError, match=f"option {name} needs PySpark 4.2 or later"):
            SegmentStreamReader41(checked, spark_schema(DEFAULT, "map"))


def test_a_layout_that_only_brokers_read() -> None:
    with pytest.raises(SegmentLayoutError, match="option nameServer reads through"), option_names():
        raise SegmentLayoutError("DLedger", "read it elsewhere")


def test_through_brokers() -> None:
    given = Options({"nameServer": "127.0.0.1:1"}, Query.BROKER_BATCH)
    planner = BrokerPlanner(given, selecting.selection(given), None)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="stores and brokerName of before"):
        planner.splits({"version": 2}, {"version": 2})


def test_groups_and_options_that_select() -> None:
    assert GROUPS == {
        "path": ("path", "paths"),
        "topics": ("subscribe", "subscribePattern", "assign", "topic"),
        "properties": ("properties", "includeHeaders"),
        "secretKey": ("secretKeyFile", "secretKey"),
    }
    assert set(SELECTING) == {
        "subscribe", "subscribePattern", "assign", "topic", "includeSystemTopics", "subExpression",
        "key", "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp",
        "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
    }  # fmt: skip


def test_what_an_archive_keeps() -> None:
    from spark_ext.jobs.archive import KEPT

    assert {TABLE[name].name for name in KEPT} == {
        "subscribe", "subscribePattern", "assign", "topic", "includeSystemTopics", "subExpression",
        "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "decompress",
    }  # fmt: skip


def test_values_of_options_that_a_query_does_not_take() -> None:
    every = Options({"nameServer": "h:1"}, Query.BROKER_STREAM).of_all()
    assert (every["verifyCrc"], every["onCorruption"]) == ("tail", "fail")
    assert (every["endingOffsets"], every["endingTimestamp"], every["key"]) == (
        "latest",
        None,
        None,
    )
    assert every["startingOffsets"] == "latest"
    assert json.dumps(sorted(every)) == json.dumps(sorted(option.name for option in OPTIONS))
