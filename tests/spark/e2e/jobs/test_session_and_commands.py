"""What needs no Spark: sessions that cannot be, commands without the packages, errors, reports."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyrmq.cli import main
from pyrmq.segments.offsets import shown
from spark_ext import times
from spark_ext.jobs import JOBS, report
from spark_ext.jobs.command import Moment
from spark_ext.jobs.early import near, need_archive
from spark_ext.jobs.engine import schema_of
from spark_ext.jobs.errors import JobError, first_cause
from spark_ext.jobs.local import take_place
from spark_ext.jobs.source import Source, exactly
from tests.spark.small_store import write

WITHOUT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
from click.testing import CliRunner
from pyrmq.cli import main
result = CliRunner().invoke(main, {arguments!r})
print(result.exit_code, result.output)
"""


def without(missing: list[str], *arguments: str, **environment: str) -> str:
    """The output of `pyrmq …` in a process where these packages cannot be imported."""
    code = WITHOUT.format(missing=missing, arguments=list(arguments))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout


def test_help_needs_no_spark() -> None:
    text = without(["pyspark", "pyarrow"], "pipeline", "--help")
    assert text.startswith("0 ")
    for job in JOBS:
        assert f"  {job} " in text


def test_a_job_without_spark(tmp_path: Path) -> None:
    """Those that run in this process do so; for the others it says what to install."""
    write(tmp_path / "store", 10)
    assert "10 messages" in without(["pyspark"], "pipeline", "hot", str(tmp_path / "store"))
    text = without(["pyspark"], "pipeline", "hot", "store", "--engine", "spark")
    assert "PySpark is not installed" in text
    assert "pip install 'pyrmq-broker[spark]'" in text
    store, root = str(tmp_path / "store"), str(tmp_path / "archive")
    assert "added 10 messages" in without(["pyspark"], "pipeline", "archive", store, "--to", root)
    assert "10 messages would" in without(["pyspark"], "pipeline", "restore", root, "--dry-run")
    assert without([], "pipeline", "hut").startswith("2 ")


def test_a_job_without_duckdb_says_what_to_install() -> None:
    text = without(["duckdb"], "pipeline", "hot", "store", "--engine", "local")
    assert "the engine local needs duckdb: pip install 'pyrmq-broker[pipeline]'" in text


def test_a_job_without_java_says_so(tmp_path: Path) -> None:
    arguments = ("pipeline", "hot", str(tmp_path), "--engine", "spark")
    assert "1 Error: Spark needs Java 17 or later" in without([], *arguments, PATH=str(tmp_path))


@pytest.mark.parametrize("job", JOBS)
def test_every_job_has_help(job: str) -> None:
    pytest.importorskip("pyspark")
    words = ["table", "write"] if job == "table" else [job]
    result = CliRunner().invoke(main, ["pipeline", *words, "--help"])
    assert result.exit_code == 0, result.output
    assert "--master" in result.output


def test_the_cause_of_an_error_is_found() -> None:
    text = """[PYTHON_DATA_SOURCE_ERROR] Failed to plan: Traceback (most recent call last):
  File "worker.py", line 3, in read
    raise UnknownTopicError("there is no topic Order")
pyrmq.errors.UnknownTopicError: there is no topic Order (there is Orders)

SQLSTATE: 38000
\tat org.apache.spark.Foo(Foo.scala:1)"""
    assert first_cause(text) == "there is no topic Order (there is Orders)"
    assert first_cause("[X] only this\nand more") == "[X] only this"
    assert first_cause("") == ""


def test_times() -> None:
    moment = Moment()
    assert moment.convert("1700000000123", None, None) == 1_700_000_000_123
    assert moment.convert("2023-11-14T22:13:20", None, None) == 1_700_000_000_000
    assert moment.convert("2023-11-14T23:13:20+01:00", None, None) == 1_700_000_000_000
    result = CliRunner().invoke(main, ["pipeline", "restore", "x", "--since", "yesterday"])
    assert result.exit_code == 2
    assert "milliseconds since 1970, or a time" in " ".join(result.output.split())
    seconds = CliRunner().invoke(main, ["pipeline", "hot", "x", "--since", "1700000000"])
    assert seconds.exit_code == 2
    assert "give 1700000000000" in " ".join(seconds.output.split())


def test_what_needs_no_spark_to_be_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(**_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("spark_ext.jobs.choice.session", never)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    there = tmp_path / "there"
    (there / "_manifest").mkdir(parents=True)
    for arguments, wanted in (
        (("restore", tmp_path / "none", "-n", address), "no such folder"),
        (("restore", f"file://{tmp_path}", "--dry-run"), "is no archive"),
        (("restore", there, "-n", address), "no name server answers"),
        (("archive", "--to", tmp_path / "none", "--verify"), "no such folder"),
        (("archive", "-n", address, "--to", there), "no name server answers"),
        (("archive", "-n", "nonsense", "--to", there), "is not HOST:PORT"),
        (("hot", "-n", address), "no name server answers"),
        (("lag", "-n", address), "name store folders, not a name server"),
    ):
        result = CliRunner().invoke(main, ["pipeline", *map(str, arguments)])
        assert (result.exit_code, wanted in result.output) == (1, True), result.output


def test_a_bare_path_may_be_one_of_sparks() -> None:
    need_archive("/none", ("yarn", ()))
    need_archive("hdfs://none/none")
    assert near("Grou", ["group", "other"]) == "is it group?"
    assert near("x", ["group", "other"]) == "there is group, other"
    assert near("x", []) == "there is none"


def test_times_and_counts_for_people() -> None:
    assert shown(1_700_000_000_000) == "2023-11-14T22:13:20Z"
    assert times.moment(shown(1_700_000_000_123)) == 1_700_000_000_123
    assert [report.number(n, "run") for n in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
    text = report.wrapped("12345678 messages, 123.4 MiB of records, 12 topics, 123 queues", 60)
    assert max(map(len, text.splitlines())) <= 60


def test_sources() -> None:
    with pytest.raises(JobError, match="not both"):
        Source()
    with pytest.raises(JobError, match="not both"):
        Source(("a",), "127.0.0.1:9876")
    assert schema_of(["topic", "queueOffset"]) == "`topic` string, `queueOffset` bigint"
    with pytest.raises(JobError, match="no such columns: nope"):
        schema_of(["nope"])
    assert exactly(["%DLQ%a", "b|c"]) == r"%DLQ%a|b\|c"
    source = Source(("a", "b"), broker_names=("x", "y"), since=5, options={"splitBytes": "1m"})
    assert source.stream_options(["T"], None, True) == {
        "paths": '["a", "b"]',
        "brokerName": "x,y",
        "subscribe": "T",
        "includeSystemTopics": "true",
        "startingTimestamp": "5",
        "splitBytes": "1m",
    }


def test_a_job_that_needs_all_messages() -> None:
    Source(("a",), options={"onCorruption": "skip"}).need_all("lag")
    for source, named in (
        (Source(("a",), since=5), "--since"),
        (Source(("a",), until=5), "--until"),
        (Source(("a",), options={"SUBEXPRESSION": "A"}), "-o SUBEXPRESSION"),
    ):
        with pytest.raises(JobError, match=f"lag needs all messages .* leave out {named}$"):
            source.need_all("lag")
    Source(("a",), since=5, until=6).need_all("transactions", times=True)
    with pytest.raises(JobError, match="leave out -o key"):
        Source(("a",), options={"key": "A"}).need_all("transactions", times=True)


def test_reports() -> None:
    text = report.lines(["name", "n"], [["a\x1b[0m", 5], ["b", 12], [None, None]])
    assert text.splitlines() == [
        "name       n",
        r"a\x1b[0m   5",
        "b         12",
        "-          -",
    ]
    assert report.duration(999) == "999 ms"
    assert report.duration(90_000) == "90.0 s"
    assert report.duration(7_200_000) == "2.0 h"
    assert report.size(3 << 20) == "3.0 MiB"
    assert report.share(1, 3) == "33.3 %"
    assert report.share(1, 0) == "-"
    assert report.cell("x" * 100) == "x" * 29 + ".." + "x" * 29
    assert report.moment(datetime(2026, 1, 31, 12, tzinfo=UTC)) == "2026-01-31 12:00:00Z"


def test_reports_in_60_columns() -> None:
    titles = ("group", "topic", "queues", "backlog", "longest queue", "gone", "behind by")
    long = "a-group-of-a-team-that-likes-names-%d"
    rows = [[long % n, f"topic-with-a-long-name-{n}", 8, 10**n, n, 0, "3.5 min"] for n in (1, 9)]
    wide = report.lines(titles, rows, 200)
    assert long % 1 in wide
    assert len(wide.splitlines()) == 3
    middle = report.lines(titles, rows, 90)
    assert len(middle.splitlines()) == 3
    assert max(map(len, middle.splitlines())) <= 90
    assert "a-gro..es-1" in middle or ".." in middle
    narrow = report.lines(titles, rows, 60)
    assert max(map(len, narrow.splitlines())) <= 60
    assert narrow.splitlines()[0] == long % 1
    assert "backlog: 1000000000" in narrow
    assert report.lines(("a", "b"), [], 60) == "a  b"
    assert report.shortened("abcdefghij", 7) == "abc..ij"


def test_an_overwrite_that_fails_leaves_the_old_result(tmp_path: Path) -> None:
    old, fresh = tmp_path / "table", tmp_path / ".table.1"
    old.mkdir()
    (old / "a").touch()
    with pytest.raises(FileNotFoundError):
        take_place(fresh, old)
    assert [p.name for p in tmp_path.rglob("*")] == ["table", "a"]
    fresh.mkdir()
    take_place(fresh, old)
    assert [p.name for p in tmp_path.rglob("*")] == ["table"]
