"""What needs no Spark: sessions that cannot be, commands without the packages, errors, reports."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyrmq.cli import main
from spark_ext.jobs import JOBS, report
from spark_ext.jobs.command import Moment
from spark_ext.jobs.engine import schema_of
from spark_ext.jobs.errors import JobError, first_cause
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
    result = CliRunner().invoke(main, ["pipeline", job, "--help"])
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
    assert "must be milliseconds since 1970, or a time as 2026-01-31T12:00:00Z" in result.output
    for number, meant in (("1700000000", "1700000000000"), ("1700000000000000", "1700000000000")):
        result = CliRunner().invoke(main, ["pipeline", "hot", "x", "--since", number])
        assert result.exit_code == 2
        assert f"give {meant}" in result.output
    assert moment.convert("0", None, None) == 0


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
