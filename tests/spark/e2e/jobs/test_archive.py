"""The archive's promise, on a stream of Parquet files: killed anywhere, no gap and no repeat."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import pytest
from click.testing import CliRunner

from pyrmq.cli import main
from pyrmq.errors import SegmentPathError
from pyrmq.segments.scan import Scan
from spark_ext.jobs import (
    archive,
    archive_local,
    archive_run,
    archive_write,
)
from spark_ext.jobs import (
    archive as archive_report,
)
from spark_ext.jobs.archive_local import Stream, archive_stream
from spark_ext.jobs.archive_manifest import Archived, File, Head, Manifest, Run
from spark_ext.jobs.archive_read import gaps, read_archive, verify
from spark_ext.jobs.archive_scan import schema
from spark_ext.jobs.engine import Engine, SparkEngine, schema_of
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.folder import Folder
from spark_ext.jobs.local_files import LocalFolder
from spark_ext.schema import WITH_PROPERTIES
from tests.spark import small_store
from tests.spark.e2e.jobs.conftest import at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 86_400_000
T = 1_700_000_000_000 // DAY * DAY
HEAD = Head({"subscribe": "A,B"}, WITH_PROPERTIES)


def message(n: int, topic: str = "A", time: int = 0, queue: int = 0) -> tuple[Any, ...]:
    return (
        topic, 7, bytearray(b"body %d" % n), {"colour": "red"}, "broker-a", queue, n, at(T),
        at(T + time), "TagA", f"key-{n}", n * 300,
    )  # fmt: skip


class Feed(Protocol):
    """A stream source: each `put` is a run."""

    engine: Any

    def put(self, *rows: tuple[Any, ...]) -> None: ...

    def archive(self, root: str, head: Head) -> Archived: ...


class LocalFeed:
    """Runs as Arrow batches; positions count them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.schema = schema(WITH_PROPERTIES)
        self._runs: list[Any] = []

    def put(self, *rows: tuple[Any, ...]) -> None:
        import pyarrow

        columns = [
            [list(row[n].items()) if isinstance(row[n], dict) else row[n] for row in rows]
            for n in range(len(WITH_PROPERTIES))
        ]
        arrays = [
            pyarrow.array(column, field.type)
            for column, field in zip(columns, self.schema, strict=True)
        ]
        self._runs.append(pyarrow.record_batch(arrays, schema=self.schema))

    def pin(self) -> None:
        pass

    def initial(self) -> dict[str, Any]:
        return {"at": 0}

    def latest(self, start: dict[str, Any]) -> dict[str, Any]:
        return {"at": min(start["at"] + 1, len(self._runs))}

    def batches(self, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
        return self._runs[start["at"] : end["at"]]

    def archive(self, root: str, head: Head) -> Archived:
        return archive_stream(cast(Any, self), root, head)


class SparkFeed:
    """A stream of files; each is a micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.engine = SparkEngine(spark)
        folder.mkdir()
        self._count = 0

    def put(self, *rows: tuple[Any, ...]) -> None:
        frame = self.spark.createDataFrame(list(rows), schema_of(WITH_PROPERTIES)).coalesce(1)
        fresh = self.folder / f"_{self._count}"
        frame.write.parquet(str(fresh))
        (part,) = fresh.glob("part-*.parquet")
        part.rename(self.folder / f"{self._count:04d}.parquet")
        self._count += 1

    def archive(self, root: str, head: Head) -> Archived:
        from spark_ext.jobs import archive_spark

        reader = self.spark.readStream.schema(schema_of(WITH_PROPERTIES)).option(
            "maxFilesPerTrigger", 1
        )
        stream = reader.parquet(str(self.folder))
        return archive_spark.archive_stream(self.spark, stream, root, head)


SPARK = pytest.mark.thorough("test_engines.py has an archive of Spark beside one of this process")


@pytest.fixture(params=["local", pytest.param("spark", marks=SPARK)])
def feed(request: pytest.FixtureRequest, tmp_path: Path) -> Feed:
    if request.param == "spark":
        return SparkFeed(request.getfixturevalue("spark"), tmp_path / "feed")
    from spark_ext.jobs.local import LocalEngine

    return LocalFeed(LocalEngine())


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "archive")


def rows_of(feed: Feed, root: str, **which: Any) -> list[Any]:
    return cast(list[Any], read_archive(feed.engine, root, **which).collect())


def run(feed: Feed, root: str, head: Head = HEAD) -> Archived:
    return feed.archive(root, head)


def offsets(feed: Feed, root: str) -> list[tuple[str, int]]:
    return sorted((row.topic, row.queueOffset) for row in rows_of(feed, root))


def test_days_and_manifest(feed: Feed, root: str) -> None:
    feed.put(message(0), message(1, time=DAY - 1), message(2, time=DAY), message(0, "B", queue=3))
    feed.put(message(3, time=DAY), message(0, "%RETRY%g", time=-1))
    spark = feed.spark if isinstance(feed, SparkFeed) else None
    if spark is not None:
        spark.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    try:
        added = run(feed, root)
    finally:
        if spark is not None:
            spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert (added.rows, len(added.runs)) == (6, 2)
    rows = sorted(rows_of(feed, root), key=lambda row: (row.topic, row.queueOffset))
    assert [(r.topic, r.queueOffset, str(r.day), r.run) for r in rows] == [
        ("%RETRY%g", 0, "2023-11-13", 1),
        ("A", 0, "2023-11-14", 0),
        ("A", 1, "2023-11-14", 0),
        ("A", 2, "2023-11-15", 0),
        ("A", 3, "2023-11-15", 1),
        ("B", 0, "2023-11-14", 0),
    ]
    a = rows[1]
    assert (a.flag, bytes(a.body), a.properties, a.tags, a.commitLogOffset) == (
        7, b"body 0", {"colour": "red"}, "TagA", 0,
    )  # fmt: skip
    first = json.loads((Path(root) / "_manifest" / "00000000.json").read_text())
    assert first["log"] == {"broker-a": {"first": 0, "last": 600}}
    assert first["queues"] == [
        {"brokerName": "broker-a", "first": 0, "last": 2, "queueId": 0, "rows": 3, "topic": "A"},
        {"brokerName": "broker-a", "first": 0, "last": 0, "queueId": 3, "rows": 1, "topic": "B"},
    ]
    assert sum(f["rows"] for f in first["files"]) == first["rows"] == 4
    for file in first["files"]:
        assert (Path(root) / file["path"]).stat().st_size == file["fileBytes"]
    assert verify(feed.engine, root) == []
    if spark is not None:
        assert spark.read.parquet(root).count() == 6, "and so for those who know no manifest"
    text = archive_report.summary(feed.engine, root, added)
    assert text.startswith("added 6 messages")
    assert "2023-11-13 to 2023-11-15" in text
    assert {
        (r.topic, str(r.day), r.rows) for r in archive_report.table(feed.engine, root).collect()
    } == {
        ("%RETRY%g", "2023-11-13", 1),
        ("A", "2023-11-14", 2),
        ("A", "2023-11-15", 1),
        ("B", "2023-11-14", 1),
    }


US = 86_400_000_000
TIMES = [-(1 << 62), -719_162 * US, -US, -1, 0, US - 1, US, 2_932_897 * US - 1, 1 << 62]
DAYS = [
    "0001-01-01", "0001-01-01", "1969-12-31", "1970-01-01", "1970-01-01", "1970-01-01",
    "1970-01-02", "9999-12-31", "9999-12-31",
]  # fmt: skip


@SPARK
def test_days_of_times_by_spark(spark: SparkSession) -> None:
    from spark_ext.jobs.archive_spark import day_of

    frame = spark.createDataFrame([(n,) for n in TIMES], "us bigint")
    rows = frame.select(day_of("timestamp_micros(us)").alias("day")).collect()
    assert [str(row.day) for row in rows] == DAYS


def test_days_of_times_that_python_does_not_know() -> None:
    import pyarrow

    kind = pyarrow.timestamp("us", "UTC")
    columns = [pyarrow.array(["A"] * len(TIMES)), pyarrow.array(TIMES, kind)]
    batch = pyarrow.record_batch(columns, ["topic", "storeTimestamp"])
    days = {
        time: archive_write.day_text(day)
        for (_, day), part in archive_write.by_topic_and_day(batch)
        for time in part.column(1).cast(pyarrow.int64()).to_pylist()
    }
    assert [days[time] for time in TIMES] == DAYS


def test_narrow_reads(feed: Feed, root: str) -> None:
    feed.put(*[message(n, time=n * DAY // 2) for n in range(6)], message(0, "B"))
    run(feed, root)

    def found(**how: Any) -> list[int]:
        return sorted(row.queueOffset for row in rows_of(feed, root, **how))

    assert found(topics=["B"]) == [0]
    assert found(days=["2023-11-15"]) == [2, 3]
    assert found(topics=["A"], since=T + DAY // 2, until=T + DAY) == [1]
    assert found(topics=["nobody"]) == []


def test_what_is_new_is_added(feed: Feed, root: str) -> None:
    feed.put(message(0))
    assert run(feed, root).rows == 1
    assert run(feed, root).rows == 0
    feed.put(message(1))
    feed.put(message(2))
    assert run(feed, root).rows == 2
    assert offsets(feed, root) == [("A", 0), ("A", 1), ("A", 2)]


class Killed(Exception):
    pass


POINTS = {
    "before anything": ("files.Folder.delete", "local_files.LocalFolder.delete"),
    "files written, not described": ("archive_spark._describe", "archive_contents.Contents.run"),
    "described, no manifest": ("archive_manifest.Manifest.add", "archive_manifest.Manifest.add"),
}


@pytest.mark.parametrize("point", POINTS)
def test_killed_in_a_run(
    feed: Feed, root: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.put(message(0))
    run(feed, root)
    feed.put(message(1), message(5, "B"))
    feed.put(message(2))

    def die(*_: object, **__: object) -> None:
        raise Killed("Killed")

    with monkeypatch.context() as patch:
        patch.setattr(f"spark_ext.jobs.{POINTS[point][isinstance(feed, LocalFeed)]}", die)
        with pytest.raises(Exception, match="Killed"):
            run(feed, root)
    assert offsets(feed, root) == [("A", 0)], "what is not finished is not seen"
    assert (Path(root) / "run=00000001").exists() == (point != "before anything")
    assert run(feed, root).rows == 3
    assert offsets(feed, root) == [("A", 0), ("A", 1), ("A", 2), ("B", 5)]
    assert verify(feed.engine, root) == []


def test_killed_behind_the_manifest(feed: Feed, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest is there, but Spark has not noted that the batch is done."""
    feed.put(message(0))
    add: Callable[..., None] = Manifest.add

    def add_and_die(*arguments: Any) -> None:
        add(*arguments)
        raise Killed("Killed")

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "add", add_and_die)
        with pytest.raises(Exception, match="Killed"):
            run(feed, root)
    assert offsets(feed, root) == [("A", 0)]
    feed.put(message(1))
    assert run(feed, root).rows == 1
    assert offsets(feed, root) == [("A", 0), ("A", 1)]
    assert verify(feed.engine, root) == []


def test_leftovers_of_a_killed_job_are_not_taken_over(feed: Feed, root: str) -> None:
    """Spark's committer moves all that it finds below _temporary."""
    feed.put(message(0))
    run(feed, root)
    feed.put(message(1))
    whole = next((Path(root) / "run=00000000" / "topic=A").rglob("*.parquet"))
    left = Path(root) / "run=00000001/_temporary/0/task_1/topic=A/day=2023-11-14/part-x.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(whole.read_bytes())
    assert "not finish" in archive_report.summary(feed.engine, root)
    run(feed, root)
    assert offsets(feed, root) == [("A", 0), ("A", 1)]
    assert verify(feed.engine, root) == []


def test_another_selection_is_refused(feed: Feed, root: str) -> None:
    feed.put(message(0))
    run(feed, root)
    with pytest.raises(JobError, match="begun with selection"):
        run(feed, root, Head({"subscribe": "A"}, WITH_PROPERTIES))
    with pytest.raises(JobError, match="begun with columns"):
        run(feed, root, Head(HEAD.selection, [*WITH_PROPERTIES, "msgId"]))


def test_history_must_fit(feed: Feed, root: str) -> None:
    for n in range(2):
        feed.put(message(n))
    run(feed, root)
    checkpoint, manifests = Path(root) / "_checkpoint", Path(root) / "_manifest"
    checkpoint.rename(checkpoint.with_name("_away"))
    with pytest.raises(JobError, match="gone or older than the archive"):
        run(feed, root)
    checkpoint.with_name("_away").rename(checkpoint)
    last = manifests / "00000001.json"
    last.rename(manifests / "away")
    with pytest.raises(JobError, match=r"00000001\.json is missing"):
        run(feed, root)
    (manifests / "away").rename(last)
    first = manifests / "00000000.json"
    first.unlink()
    with pytest.raises(JobError, match=r"00000000\.json is missing, later ones"):
        run(feed, root)


def test_damage_is_found(feed: Feed, root: str) -> None:
    feed.put(message(0), message(1, "B"))
    feed.put(message(2))
    run(feed, root)
    (a,) = (Path(root) / "run=00000000" / "topic=A").rglob("*.parquet")
    copy = a.with_name("part-copy.parquet")
    copy.write_bytes(a.read_bytes())
    assert [p.partition(" ")[2] for p in verify(feed.engine, root)] == ["is not in the manifest"]
    copy.unlink()
    (b,) = (Path(root) / "run=00000000" / "topic=B").rglob("*.parquet")
    b.unlink()
    assert [p.partition(" ")[2] for p in verify(feed.engine, root)] == ["is missing"]
    with pytest.raises(JobError, match="is no archive"):
        verify(feed.engine, str(Path(root).parent))


def test_a_damaged_file_is_never_left_out(feed: Feed, root: str) -> None:
    feed.put(message(0), message(1, "B"))
    run(feed, root)
    (file,) = (Path(root) / "run=00000000" / "topic=A").rglob("*.parquet")
    file.write_bytes(bytes(file.stat().st_size))
    spark = feed.spark if isinstance(feed, SparkFeed) else None
    if spark is not None:
        spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        with pytest.raises(Exception, match="parquet"):
            rows_of(feed, root)
    finally:
        if spark is not None:
            spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


def test_a_message_that_is_there_twice_is_found(feed: Feed, root: str) -> None:
    feed.put(message(0))
    feed.put(message(0))
    run(feed, root)
    assert verify(feed.engine, root) == ["broker-a A-0@0 is there 2 times"]


def test_what_is_missing_is_found(feed: Feed, root: str) -> None:
    feed.put(message(0), message(1), message(3), message(4), message(0, queue=1))
    feed.put(message(7), message(1, queue=1))
    run(feed, root)
    assert verify(feed.engine, root) == [], "files are as they were written"
    lines = [
        "broker-a A-0: offset 2 is missing, in run 0",
        "broker-a A-0: offsets 5 to 6 are missing, in run 1",
        "broker-a: run 1 begins at physical offset 300, those before it end at 1200: is it "
        "another log?",
    ]
    assert sorted(gaps(feed.engine, root)) == lines
    result = CliRunner().invoke(main, ["pipeline", "archive", "--to", root, "--verify"])
    assert result.exit_code == archive.GAPS == 3, result.output
    assert lines[0] in result.output


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version":2}', '{"version":1,"run":0}'])
def test_broken_manifests(feed: Feed, root: str, text: str) -> None:
    feed.put(message(0))
    run(feed, root)
    (Path(root) / "_manifest" / "00000000.json").write_text(text)
    with pytest.raises(JobError, match=r"00000000\.json"):
        read_archive(feed.engine, root)


class Files:
    """As much of a Folder as the check of a run's files asks for."""

    def __init__(self, **sizes: int) -> None:
        self._sizes = sizes

    def sizes(self, name: str) -> list[tuple[str, int]]:
        return list(self._sizes.items())

    def path_of(self, name: str) -> str:
        return name


def test_files_that_another_writer_took_are_not_acknowledged() -> None:
    files = [File(f"run=00000000/{name}", "A", "2023-11-14", 1, 5, 0, 0) for name in "ab"]
    run = Run(0, "", 2, 10, {}, [], files)
    archive_run.check_files(cast(Folder, Files(a=5, b=5, _SUCCESS=0)), "run=00000000", run)
    for there in (Files(), Files(a=5), Files(a=5, b=6), Files(b=5, c=5)):
        with pytest.raises(JobError, match="is another process at work here"):
            archive_run.check_files(cast(Folder, there), "run=00000000", run)


def test_files_beside_the_manifest_are_not_read(feed: Feed, root: str) -> None:
    feed.put(message(0), message(0, "%RETRY%g"))
    run(feed, root)
    for file in list((Path(root) / "run=00000000").rglob("*.parquet")):
        file.with_name("part-of-another.parquet").write_bytes(file.read_bytes())
    assert offsets(feed, root) == [("%RETRY%g", 0), ("A", 0)]


def test_one_at_a_time(feed: Feed, root: str) -> None:
    feed.put(message(0))
    with (
        archive_run.locked(LocalFolder(root)),
        pytest.raises(JobError, match="another process is archiving there"),
    ):
        run(feed, root)


def test_an_archive_does_not_pass_a_store_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store goes after a run was planned, as where its disk is unmounted."""
    root, away = tmp_path / "broker-a", tmp_path / "away"
    small_store.write(root, 600)
    head = Head({}, WITH_PROPERTIES)
    options = {"startingOffsets": "earliest", "failOnDataLoss": "false"}

    class Unmounted(Scan):
        def to_reader(self) -> Any:
            root.rename(away)
            return super().to_reader()

    def run() -> int:
        stream = Stream(options, [str(root)], WITH_PROPERTIES)
        return archive_stream(stream, str(tmp_path / "archive"), head).rows

    with monkeypatch.context() as patch:
        patch.setattr(archive_local, "Scan", Unmounted)
        with pytest.raises(SegmentPathError, match="is not there on host"):
            run()
    with pytest.raises(SegmentPathError, match="there is no such file or folder"):
        run()
    away.rename(root)
    assert run() == 600
    assert run() == 0
