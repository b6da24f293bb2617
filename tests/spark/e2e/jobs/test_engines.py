"""Both engines give the same tables and the same words, and each is chosen where it suits."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from pyrmq.cli import main
from spark_ext.jobs import (
    archive,
    archive_read,
    choice,
    deadletters,
    hot,
    lag,
    local,
    trace,
    transactions,
)
from spark_ext.jobs import (
    archive as archive_report,
)
from spark_ext.jobs.engine import SparkEngine, Where
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.source import Source
from tests.spark.e2e.jobs.samples import sample_module
from tests.spark.small_store import Writer, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

sample = sample_module()
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(sample.make(tmp_path_factory.mktemp("shop") / "broker-a").store)


JOBS: dict[str, Callable[[Where, Source], tuple[Any, str]]] = {
    "hot": lambda where, source: (
        (found := hot.hot(where, source)).table,
        hot.summary(found),
    ),
    "lag": lambda where, source: (
        found := lag.lag(where, source, as_of=NOW),
        lag.summary(found),
    ),
    "trace": lambda where, source: (
        (found := trace.trace(where, source)).groups,
        trace.summary(found),
    ),
    "transactions": lambda where, source: (
        found := transactions.transactions(where, source, as_of=NOW),
        transactions.summary(found),
    ),
    "deadletters": lambda where, source: (
        found := deadletters.deadletters(where, source, bodies=True),
        deadletters.summary(found),
    ),
}


def rows_of(table: Any) -> list[str]:
    """Rows as texts in one order; Spark hands out times without a zone, in this process's."""

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.astimezone(UTC).timestamp()
        if isinstance(value, bytes | bytearray):
            return bytes(value)
        return sorted(value.items()) if isinstance(value, dict) else value

    return sorted(
        str({name: plain(row[name]) for name in table.columns}) for row in table.collect()
    )


LONG = pytest.mark.thorough("Spark takes longest for it, and the others have the same functions")


@pytest.mark.slow
@pytest.mark.parametrize(
    "job", [pytest.param(job, marks=[LONG] if job == "trace" else []) for job in JOBS]
)
def test_both_find_the_same(spark: SparkSession, store: str, job: str) -> None:
    source = Source((store,), broker_names=("broker-a",))
    here, words = JOBS[job](local.engine(), source)
    there, wanted = JOBS[job](spark, source)
    assert list(here.columns) == list(there.columns)
    assert rows_of(here) == rows_of(there) != []
    assert words == wanted


def contents(root: Path) -> list[Any]:
    """What the manifests of an archive say, but for the names and sizes of files and the time."""
    found = []
    for path in sorted((root / "_manifest").glob("*.json")):
        value = json.loads(path.read_text())
        for name in ("finished", "fileBytes"):
            value.pop(name, None)
        for file in value.get("files", ()):
            file["path"] = file["path"].rpartition("/")[0]
            del file["fileBytes"]
        found.append(value)
    return found


@pytest.mark.slow
def test_archives_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Each engine verifies and reads what the other wrote, and goes on with it."""
    writer = Writer(tmp_path / "broker-a")
    writer.put(300)
    source = Source((str(tmp_path / "broker-a"),), options={"maxBytesPerTrigger": "45k"})
    here, there = local.engine(), SparkEngine(spark)
    roots = {"local": tmp_path / "local", "spark": tmp_path / "spark"}
    for engine in (here, there):
        archive.archive(engine, source, str(roots[engine.name]))
    writer.put(100)
    writer.close()
    for engine, root in ((there, roots["local"]), (here, roots["spark"])):
        added = archive.archive(engine, source, str(root))
        assert added.rows == 100
    ours, theirs = contents(roots["local"]), contents(roots["spark"])
    assert len(ours) > 3
    assert ours == theirs
    texts = []
    for engine, root in itertools.product((here, there), roots.values()):
        assert archive_read.verify(engine, str(root)) == []
        assert archive_read.gaps(engine, str(root)) == []
        texts.append(rows_of(archive_read.read_archive(engine, str(root))))
        assert len(archive_report.table(engine, str(root)).collect()) > 3
    assert len(texts[0]) == 400
    assert texts == [texts[0]] * 4


def test_stores_by_a_pattern(store: str) -> None:
    here = local.engine()
    by_name, by_pattern = (
        lag.lag(here, Source((p,)), as_of=NOW) for p in (store, f"{store[:-1]}?")
    )
    assert rows_of(by_pattern) == rows_of(by_name)


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_tables_that_were_written(store: str, tmp_path: Path, kind: str) -> None:
    """What is read again, as lag does for its plot, is what was written; also in turns."""
    here = local.engine()
    measured = lag.lag(here, Source((store,)), as_of=NOW)
    path = str(tmp_path / "a table {x} 'y'")
    here.write(measured, path, kind, "error")
    with pytest.raises(JobError, match="choose the mode"):
        here.write(measured, path, kind, "error")
    here.write(measured, path, kind, "append")
    again = here.read(path, kind, lag.SCHEMA)
    assert rows_of(again) == sorted(rows_of(measured) * 2)
    here.write(measured, path, kind, "overwrite")
    assert rows_of(here.read(path, kind, lag.SCHEMA)) == rows_of(measured)
    with pytest.raises(JobError, match="writes to this machine, not s3://b/t"):
        here.write(measured, "s3://b/t", kind, "error")


@pytest.mark.thorough("test_tables_that_were_written has the other half")
@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_one_writes_the_other_reads(
    spark: SparkSession, store: str, tmp_path: Path, kind: str
) -> None:
    here, there = local.engine(), SparkEngine(spark)
    measured = lag.lag(here, Source((store,)), as_of=NOW)
    path = str(tmp_path / "table")
    here.write(measured, path, kind, "error")
    there.write(there.read(path, kind, lag.SCHEMA), str(tmp_path / "b"), kind, "error")
    assert rows_of(here.read(str(tmp_path / "b"), kind, lag.SCHEMA)) == rows_of(measured)


def run(*arguments: object) -> Any:
    return CliRunner().invoke(main, ["pipeline", *map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("hot", "-n", "127.0.0.1:9876"), "reads files, not brokers: name store folders"),
        (("hot", "s3://bucket/store"), "reads files of this machine, not s3://bucket/store"),
        (("hot", "store", "--out", "hdfs://x/t"), "writes to this machine, not to hdfs://x/t"),
        (("trace", "store", "--master", "local[2]"), "--master and --conf are of Spark"),
        (("archive", "store", "--to", "s3a://b/a"), "writes to this machine, not to s3a://b/a"),
        (("archive", "store", "--to", "hdfs:/a"), "writes to this machine, not to hdfs:/a"),
        (("archive", "--to", "s3a://b/a", "--verify"), "of this machine, not s3a://b/a"),
        (("restore", "s3a://b/a", "--dry-run"), "reads files of this machine, not s3a://b/a"),
    ],
)
def test_what_local_cannot_do(arguments: tuple[str, ...], wanted: str) -> None:
    result = run(*arguments, "--engine", "local")
    assert isinstance(result.exception, JobError) or result.exit_code == 1
    text = result.output + str(result.exception)
    assert wanted in text
    assert "take --engine spark" in text


def test_who_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def session(**how: object) -> object:
        asked.append(how)
        return object()

    monkeypatch.setattr("spark_ext.jobs.choice.session", session)
    store = tmp_path / "broker-a"
    write(store, 10)

    def name(wanted: str = "auto", *paths: str, **how: Any) -> str:
        return choice.choose(wanted, paths or (str(store),), None, **how).name

    assert name() == "local"
    assert name("auto", f"file://{store}") == "local"
    assert name("spark") == "spark"
    assert name("auto", "s3://a/b") == "spark"
    assert name(master="local[3]") == "spark"
    assert asked[-1] == {"master": "local[3]", "settings": None}
    assert name(outputs=["s3://a/t"]) == "spark"
    with pytest.raises(JobError, match=r"no name server answers at 127\.0\.0\.1:1"):
        choice.choose("auto", (), "127.0.0.1:1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:1;127.0.0.1:{server.getsockname()[1]}"
        assert choice.choose("auto", (), address).name == "spark"
    monkeypatch.setattr(choice, "LOCAL_BYTES", 1)
    assert choice.log_bytes([str(store)]) > 1
    assert choice.log_bytes([str(tmp_path / "broker-?")]) == choice.log_bytes([str(store)])
    assert name() == "spark"
    assert name("local") == "local"


def test_a_bare_path_of_an_archive_may_be_one_of_hdfs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def session(**_: object) -> object:
        raise JobError("Spark is asked")

    monkeypatch.setattr("spark_ext.jobs.choice.session", session)
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    write(tmp_path / "broker-a", 10)
    command = ("archive", tmp_path / "broker-a", "--to")
    assert "Spark is asked" in run(*command, tmp_path / "archive").output
    assert "added 10 messages" in run(*command, f"file:{tmp_path}/archive").output


def test_an_error_while_reading_is_its_own(tmp_path: Path) -> None:
    """DuckDB passes on only a text: the job has the error that says what to do."""
    store = tmp_path / "broker-a"
    sent = write(store, 400)
    (first, *_) = sorted((store / "commitlog").iterdir())
    with first.open("r+b") as file:
        file.seek(sent[5].physical)
        file.write(b"\xff" * 30)
    result = run("hot", store, "--engine", "local")
    assert result.exit_code == 1
    assert "onCorruption" in result.output + str(result.exception)
    skipped = run("hot", store, "--engine", "local", "-o", "onCorruption=skip")
    assert "399 messages" in skipped.output


def test_without_matplotlib_nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    find = choice.importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *more: None if name == "matplotlib" else find(name)
    )
    result = run("hot", "no-such-store", "--plot", "x.png")
    assert "pip install 'pyrmq-broker[plot]'" in result.output + str(result.exception)
