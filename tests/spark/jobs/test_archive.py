"""The archive's promise, on a stream of Parquet files: killed anywhere, no gap and no repeat."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from click.testing import CliRunner

from pyrmq.cli import main
from spark_ext.jobs import archive, archive_report
from spark_ext.jobs.archive import archive_stream
from spark_ext.jobs.archive_manifest import File, Head, Manifest, Run
from spark_ext.jobs.archive_read import gaps, read_archive, verify
from spark_ext.jobs.engine import schema_of
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.files import Folder
from spark_ext.schema import WITH_PROPERTIES
from tests.spark.jobs.conftest import at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY = 86_400_000
T = 1_700_000_000_000 // DAY * DAY
HEAD = Head({"subscribe": "A,B"}, WITH_PROPERTIES)


def message(n: int, topic: str = "A", time: int = 0, queue: int = 0) -> tuple[Any, ...]:
    return (
        topic, 7, bytearray(b"body %d" % n), {"colour": "red"}, "broker-a", queue, n, at(T),
        at(T + time), "TagA", f"key-{n}", n * 300,
    )  # fmt: skip


class Feed:
    """A stream source: each `put` is a file, and a micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        folder.mkdir()
        self._count = 0

    def put(self, *rows: tuple[Any, ...]) -> None:
        frame = self.spark.createDataFrame(list(rows), schema_of(WITH_PROPERTIES)).coalesce(1)
        fresh = self.folder / f"_{self._count}"
        frame.write.parquet(str(fresh))
        (part,) = fresh.glob("part-*.parquet")
        part.rename(self.folder / f"{self._count:04d}.parquet")
        self._count += 1

    def stream(self) -> DataFrame:
        reader = self.spark.readStream.schema(schema_of(WITH_PROPERTIES)).option(
            "maxFilesPerTrigger", 1
        )
        return reader.parquet(str(self.folder))


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path / "feed")


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "archive")


def run(feed: Feed, root: str, head: Head = HEAD) -> archive.Archived:
    return archive_stream(feed.spark, feed.stream(), root, head)


def offsets(spark: SparkSession, root: str) -> list[tuple[str, int]]:
    rows = read_archive(spark, root).select("topic", "queueOffset").collect()
    return sorted((row.topic, row.queueOffset) for row in rows)


def test_days_and_manifest(spark: SparkSession, feed: Feed, root: str) -> None:
    feed.put(message(0), message(1, time=DAY - 1), message(2, time=DAY), message(0, "B", queue=3))
    feed.put(message(3, time=DAY), message(0, "%RETRY%g", time=-1))
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert zone is not None
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    try:
        added = run(feed, root)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert (added.rows, len(added.runs)) == (6, 2)
    rows = read_archive(spark, root).orderBy("topic", "queueOffset").collect()
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
    assert verify(spark, root) == []
    assert spark.read.parquet(root).count() == 6, "and so for those who know no manifest"
    text = archive_report.summary(spark, root, added)
    assert text.startswith("added 6 messages")
    assert "2023-11-13 to 2023-11-15" in text
    assert {(r.topic, str(r.day), r.rows) for r in archive_report.table(spark, root).collect()} == {
        ("%RETRY%g", "2023-11-13", 1),
        ("A", "2023-11-14", 2),
        ("A", "2023-11-15", 1),
        ("B", "2023-11-14", 1),
    }


def test_days_of_times_that_python_does_not_know(spark: SparkSession) -> None:
    days = 86_400_000_000
    times = [-(1 << 62), -719_162 * days, -days, 0, 2_932_897 * days - 1, 1 << 62]
    frame = spark.createDataFrame([(n,) for n in times], "us bigint")
    rows = frame.select(archive.day_of("timestamp_micros(us)").alias("day")).collect()
    assert [str(row.day) for row in rows] == [
        "0001-01-01", "0001-01-01", "1969-12-31", "1970-01-01", "9999-12-31", "9999-12-31",
    ]  # fmt: skip


def test_narrow_reads(spark: SparkSession, feed: Feed, root: str) -> None:
    feed.put(*[message(n, time=n * DAY // 2) for n in range(6)], message(0, "B"))
    run(feed, root)

    def found(**how: Any) -> list[int]:
        return sorted(r.queueOffset for r in read_archive(spark, root, **how).collect())

    assert found(topics=["B"]) == [0]
    assert found(days=["2023-11-15"]) == [2, 3]
    assert found(topics=["A"], since=T + DAY // 2, until=T + DAY) == [1]
    assert found(topics=["nobody"]) == []


def test_what_is_new_is_added(spark: SparkSession, feed: Feed, root: str) -> None:
    feed.put(message(0))
    assert run(feed, root).rows == 1
    assert run(feed, root).rows == 0
    feed.put(message(1))
    feed.put(message(2))
    assert run(feed, root).rows == 2
    assert offsets(spark, root) == [("A", 0), ("A", 1), ("A", 2)]


class Killed(Exception):
    pass


POINTS: dict[str, tuple[Any, str]] = {
    "before anything": (Folder, "delete"),
    "files written, not described": (archive, "_describe"),
    "described, no manifest": (Manifest, "add"),
}


EARLIER = pytest.mark.thorough("the latest moment leaves the most behind")


@pytest.mark.parametrize(
    "point",
    [*(pytest.param(name, marks=EARLIER) for name in list(POINTS)[:-1]), list(POINTS)[-1]],
)
def test_killed_in_a_run(
    spark: SparkSession, feed: Feed, root: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.put(message(0))
    run(feed, root)
    feed.put(message(1), message(5, "B"))
    feed.put(message(2))

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(*POINTS[point], die)
        with pytest.raises(Exception, match="Killed"):
            run(feed, root)
    assert offsets(spark, root) == [("A", 0)], "what is not finished is not seen"
    assert (Path(root) / "run=00000001").exists() == (point != "before anything")
    assert run(feed, root).rows == 3
    assert offsets(spark, root) == [("A", 0), ("A", 1), ("A", 2), ("B", 5)]
    assert verify(spark, root) == []


def test_killed_behind_the_manifest(
    spark: SparkSession, feed: Feed, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest is there, but Spark has not noted that the batch is done."""
    feed.put(message(0))
    add: Callable[..., None] = Manifest.add

    def add_and_die(*arguments: Any) -> None:
        add(*arguments)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "add", add_and_die)
        with pytest.raises(Exception, match="Killed"):
            run(feed, root)
    assert offsets(spark, root) == [("A", 0)]
    feed.put(message(1))
    assert run(feed, root).rows == 1
    assert offsets(spark, root) == [("A", 0), ("A", 1)]
    assert verify(spark, root) == []


def test_leftovers_of_a_killed_job_are_not_taken_over(
    spark: SparkSession, feed: Feed, root: str
) -> None:
    """Spark's committer moves all that it finds below _temporary."""
    feed.put(message(0))
    run(feed, root)
    feed.put(message(1))
    whole = next((Path(root) / "run=00000000" / "topic=A").rglob("*.parquet"))
    left = Path(root) / "run=00000001/_temporary/0/task_1/topic=A/day=2023-11-14/part-x.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(whole.read_bytes())
    assert "not finish" in archive_report.summary(spark, root)
    run(feed, root)
    assert offsets(spark, root) == [("A", 0), ("A", 1)]
    assert verify(spark, root) == []


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


def test_damage_is_found(spark: SparkSession, feed: Feed, root: str) -> None:
    feed.put(message(0), message(1, "B"))
    feed.put(message(2))
    run(feed, root)
    (a,) = (Path(root) / "run=00000000" / "topic=A").rglob("*.parquet")
    copy = a.with_name("part-copy.parquet")
    copy.write_bytes(a.read_bytes())
    assert [p.partition(" ")[2] for p in verify(spark, root)] == ["is not in the manifest"]
    copy.unlink()
    (b,) = (Path(root) / "run=00000000" / "topic=B").rglob("*.parquet")
    b.unlink()
    assert [p.partition(" ")[2] for p in verify(spark, root)] == ["is missing"]
    with pytest.raises(JobError, match="is no archive"):
        verify(spark, str(Path(root).parent))


def test_a_damaged_file_is_never_left_out(spark: SparkSession, feed: Feed, root: str) -> None:
    feed.put(message(0), message(1, "B"))
    run(feed, root)
    (file,) = (Path(root) / "run=00000000" / "topic=A").rglob("*.parquet")
    file.write_bytes(bytes(file.stat().st_size))
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        with pytest.raises(Exception, match="parquet"):
            read_archive(spark, root).collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


def test_a_message_that_is_there_twice_is_found(spark: SparkSession, feed: Feed, root: str) -> None:
    feed.put(message(0))
    feed.put(message(0))
    run(feed, root)
    assert verify(spark, root) == ["broker-a A-0@0 is there 2 times"]


@pytest.mark.thorough("test_archive_gaps.py has what is found, from manifests alone")
def test_what_is_missing_is_found(spark: SparkSession, feed: Feed, root: str) -> None:
    feed.put(message(0), message(1), message(3), message(4), message(0, queue=1))
    feed.put(message(7), message(1, queue=1))
    run(feed, root)
    assert verify(spark, root) == [], "files are as they were written"
    lines = [
        "broker-a A-0: offset 2 is missing, in run 0",
        "broker-a A-0: offsets 5 to 6 are missing, in run 1",
        "broker-a: run 1 begins at physical offset 300, those before it end at 1200: is it "
        "another log?",
    ]
    assert sorted(gaps(spark, root)) == lines
    result = CliRunner().invoke(main, ["pipeline", "archive", "--to", root, "--verify"])
    assert result.exit_code == archive.GAPS == 3, result.output
    assert lines[0] in result.output


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version":2}', '{"version":1,"run":0}'])
def test_broken_manifests(spark: SparkSession, feed: Feed, root: str, text: str) -> None:
    feed.put(message(0))
    run(feed, root)
    (Path(root) / "_manifest" / "00000000.json").write_text(text)
    with pytest.raises(JobError, match=r"00000000\.json"):
        read_archive(spark, root)


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
    archive.check_files(cast(Folder, Files(a=5, b=5, _SUCCESS=0)), "run=00000000", run)
    for there in (Files(), Files(a=5), Files(a=5, b=6), Files(b=5, c=5)):
        with pytest.raises(JobError, match="is another process at work here"):
            archive.check_files(cast(Folder, there), "run=00000000", run)


def test_files_beside_the_manifest_are_not_read(spark: SparkSession, feed: Feed, root: str) -> None:
    feed.put(message(0), message(0, "%RETRY%g"))
    run(feed, root)
    for file in list((Path(root) / "run=00000000").rglob("*.parquet")):
        file.with_name("part-of-another.parquet").write_bytes(file.read_bytes())
    assert offsets(spark, root) == [("%RETRY%g", 0), ("A", 0)]


def test_one_at_a_time(feed: Feed, root: str) -> None:
    feed.put(message(0))
    with (
        archive._locked(Folder(feed.spark, root)),
        pytest.raises(JobError, match="another process is archiving there"),
    ):
        run(feed, root)
