"""What a user gets to see who asks for what cannot be: the text must say what to do."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_ext
from pyrmq import __version__
from tests.spark import bare_python, small_store
from tests.spark.small_store import Sent

pytestmark = pytest.mark.both_readers


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("stores") / "broker-a"
    small_store.write(root, 600)
    return root


def error_text(spark: SparkSession, path: Path | str | None, **options: str) -> str:
    """The error that a read ends with."""
    reader = spark.read.format("rocketmq").options(**options)
    with pytest.raises(Exception) as caught:
        (reader.load() if path is None else reader.load(str(path))).collect()
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subcribe": "orders"}, "unknown option 'subcribe': did you mean subscribe?"),
        ({"subscribe": "order"}, "topic 'order' is not in the store .did you mean orders"),
        ({"startingOffsets": '{"orders":'}, "startingOffsets: .* does not parse"),
        ({"assign": '{"orders":{"broker-x":[0]}}'}, "no broker 'broker-x'.*broker-a"),
        ({"startingOffsets": '{"orders":{"broker-a":{"0":100000}}}'}, "startingOffsets.*100000"),
        ({"endingOffsets": '{"orders":{"broker-a":{"0":100000}}}'}, "endingOffsets.*100000"),
        ({"startingTimestamp": "99999999999999"}, "startingOffsetsByTimestampStrategy=latest"),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger does not belong to a batch read"),
        ({"subscribe": "orders", "subscribePattern": "o.*"}, "exclude each other"),
        ({"brokerName": "a,b"}, "brokerName"),
        ({"columns": "topic,bodi"}, "unknown column 'bodi' .did you mean body"),
    ],
)
def test_options(spark: SparkSession, store: Path, options: dict[str, str], text: str) -> None:
    assert re.search(text, error_text(spark, store, **options))


def test_nothing_named(spark: SparkSession) -> None:
    assert "nothing to read is named" in error_text(spark, None)


def test_places(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    assert "no such" in error_text(spark, tmp_path / "missing").lower()
    (tmp_path / "empty").mkdir()
    assert "there are no segments in it" in error_text(spark, tmp_path / "empty")
    (tmp_path / "foreign" / "commitlog").mkdir(parents=True)
    (tmp_path / "foreign" / "commitlog" / "notes.txt").write_text("hello")
    assert "20 digits" in error_text(spark, tmp_path / "foreign")


def test_a_missing_segment_is_loss(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "broker-a"
    sent = small_store.write(store, 900)
    _, second, third, *_ = sorted((store / "commitlog").iterdir())
    second.unlink()
    text = error_text(spark, store)
    for part in ("broker-a", str(int(second.name)), "failOnDataLoss=false"):
        assert part in text
    frame = spark.read.format("rocketmq").option("failOnDataLoss", "false").load(str(store))
    assert sorted(row[0] for row in frame.select("commitLogOffset").collect()) == [
        one.physical for one in sent if not int(second.name) <= one.physical < int(third.name)
    ]


def test_damage_says_where(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "broker-a"
    sent = small_store.write(store, 600)
    hurt = sent[400]
    assert hurt.physical > small_store.SEGMENT
    file = damage(store, hurt)
    text = error_text(spark, store, subscribe="orders,payments")
    for part in (
        "SegmentDamagedError",
        "onCorruption=skip leaves",
        "orders, payments",
        str(file),
        f"{hurt.physical}",
    ):
        assert part in text
    frame = spark.read.format("rocketmq").option("onCorruption", "skip").load(str(store))
    assert sorted(row[0] for row in frame.select("commitLogOffset").collect()) == [
        one.physical for one in sent if one is not hurt
    ]


def damage(store: Path, hurt: Sent) -> Path:
    """Overwrites the magic of a record."""
    file = next(
        path
        for path in sorted((store / "commitlog").iterdir(), reverse=True)
        if int(path.name) <= hurt.physical
    )
    with open(file, "r+b") as opened:
        opened.seek(hurt.physical - int(file.name) + 4)
        opened.write(b"\xff\xff\xff\xff")
    return file


def test_a_segment_truncated_between_plan_and_read(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "broker-a"
    small_store.write(store, 600)
    frame = spark.read.format("rocketmq").load(str(store))
    assert frame.count() == 600
    last = sorted((store / "commitlog").iterdir())[1]
    with open(last, "r+b") as file:
        file.truncate(1000)
    with pytest.raises(Exception, match=last.name):
        frame.collect()


def test_a_segment_deleted_between_plan_and_read(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "broker-a"
    small_store.write(store, 600)
    frame = spark.read.format("rocketmq").load(str(store))
    assert frame.count() == 600
    first = sorted((store / "commitlog").iterdir())[0]
    first.unlink()
    with pytest.raises(Exception, match=f"{first.name} was deleted before it was read"):
        frame.collect()


@pytest.mark.spark_versions
@pytest.mark.thorough("test_a_spark_without_the_wheel gets the same text from planning")
def test_executors_without_the_wheel(
    spark: SparkSession, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning has the wheel, tasks have a Python without it."""
    bare = bare_python.make(tmp_path / "bare")
    mixed = bare_python.only_in_tasks(bare)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(mixed))
    try:
        spark_ext.register(spark)
        text = error_text(spark, store)
    finally:
        monkeypatch.undo()
        spark_ext.register(spark)
    assert f"pip install 'pyrmq-broker[spark]=={__version__}'" in text
    assert str(bare) in text
    assert spark.read.format("rocketmq").load(str(store)).count() == 600


@pytest.mark.spark_versions
def test_a_spark_without_the_wheel(
    spark: SparkSession, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registering says so. Where nobody chose that Python, the one of this process runs instead."""
    bare = bare_python.make(tmp_path / "bare")
    other = bare_python.for_spark(bare)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(other))
    try:
        with pytest.raises(spark_ext.SparkSetupError) as caught:
            spark_ext.register(spark)
        other.rename(other.with_name("python3"))
        monkeypatch.setenv("PATH", str(other.parent), prepend=":")
        monkeypatch.delenv("PYSPARK_PYTHON")
        monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
        spark_ext.register(spark)
        assert spark.sparkContext.pythonExec == "python3"
        assert spark.read.format("rocketmq").load(str(store)).count() == 600
        monkeypatch.setenv("PYSPARK_PYTHON", "python3")
        with pytest.raises(spark_ext.SparkSetupError, match="No module named 'pyrmq'"):
            spark_ext.register(spark)
    finally:
        monkeypatch.undo()
        spark_ext.register(spark)
    text = str(caught.value)
    assert f"{other}, which has no pyrmq-broker[spark]" in text
    assert f"pip install 'pyrmq-broker[spark]=={__version__}'" in text
    assert (
        f"PYSPARK_PYTHON before Spark starts to a Python that has it, here {sys.executable}" in text
    )
