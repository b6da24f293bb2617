"""What a job says before an engine starts, and in words that help."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyrmq.cli import main
from spark_ext.jobs import (
    hot,
    local,
    report,
)
from spark_ext.jobs import (
    local_tables as exchange,
)
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.local_read import is_local, local_path
from spark_ext.jobs.source import Source
from tests.spark.small_store import write


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def session(**_: object) -> object:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("spark_ext.jobs.session.session", session)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("stores") / "broker-a"
    write(root, 20)
    groups = {"orders@billing": {"0": 1}, "orders@shipping": {"0": 1}}
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": groups}))
    return root


def failure(*arguments: object) -> str:
    result = CliRunner().invoke(main, ["pipeline", *map(str, arguments)])
    assert result.exit_code == 1
    return result.output + str(result.exception)


@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_nothing_starts_for_what_is_not_there(tmp_path: Path, engine: str) -> None:
    how = ("--engine", engine)
    away = tmp_path / "away"
    assert "away is no archive: there is no such folder" in failure("restore", away, *how)
    assert "is no archive: it has no" in failure("restore", tmp_path, "-n", "127.0.0.1:1", *how)
    assert "is no archive" in failure("archive", "--to", away, "--verify", *how)
    assert "no name server answers at 127.0.0.1:1" in failure("hot", "-n", "127.0.0.1:1", *how)
    assert "name store folders" in failure("lag", "-n", "127.0.0.1:1", *how)
    assert "lag needs all messages" in failure("lag", away, "--since", "2026-01-01", *how)


def test_a_restore_needs_a_name_server(store: Path, tmp_path: Path) -> None:
    root = tmp_path / "archive"
    done = CliRunner().invoke(main, ["pipeline", "archive", str(store), "--to", str(root)])
    assert "added 20 messages" in done.output
    assert "no name server answers" in failure("restore", root, "-n", "127.0.0.1:1")


def test_a_plot_needs_its_folder(store: Path, tmp_path: Path) -> None:
    text = failure("hot", store, "--plot", tmp_path / "away" / "hot.png")
    assert "there is no folder" in text
    assert "messages" not in text


def test_groups_that_are_near(store: Path) -> None:
    assert "is it shipping?" in failure("lag", store, "-g", "Shiping")
    assert "there is billing, shipping" in failure("lag", store, "-g", "zz")
    text = failure("lag", store, "-g", "billing", "-g", "shippin")
    assert "no offsets of shippin," in text, "one that is there does not hide it"


def test_a_store_without_traces(store: Path) -> None:
    text = failure("trace", store)
    assert "there is no trace topic RMQ_SYS_TRACE_TOPIC" in text


def test_times_are_shown_as_text(store: Path, tmp_path: Path) -> None:
    assert "startingTimestamp 2090-01-01T00:00:00Z is" in failure(
        "hot", store, "--since", "2090-01-01"
    )
    root = ("--to", tmp_path / "archive")
    run = ["pipeline", "archive", str(store), *map(str, root), "--since", "2026-01-01"]
    assert CliRunner().invoke(main, run).exit_code == 0
    text = failure("archive", store, *root, "--since", "2026-01-02T12:00")
    assert "begun with selection {'startingTimestamp': '2026-01-01T00:00:00Z'}" in text
    assert "not {'startingTimestamp': '2026-01-02T12:00:00Z'}" in text


def test_counts_of_one() -> None:
    assert [report.number(n, "row") for n in range(3)] == ["0 rows", "1 row", "2 rows"]


def test_columns_that_a_narrow_terminal_does_without() -> None:
    titles = ("topic", "messages", "share", "largest")
    rows = [["orders", 10, "97.8 %", "2.0 KiB"]]
    assert report.lines(titles, rows, 30, ("largest", "share")).splitlines()[0].split() == [
        "topic", "messages", "share",
    ]  # fmt: skip
    assert report.lines(titles, rows, 20, ("largest", "share")).split() == [
        "topic", "messages", "orders", "10",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [60, 80])
def test_hot_fits(store: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = hot.summary(hot.hot(local.engine(), Source((str(store),)))).splitlines()
    assert max(map(len, lines)) <= width
    assert not any(line.startswith("  ") for line in lines), "tables, not paragraphs"


def test_paths_of_this_machine() -> None:
    for path in ("a/b", "/a", "file:/a", "file:///a", "FILE:/a", "C:/x", "a:b"):
        assert is_local(path)
    for path in ("s3a://b/a", "hdfs:/a", "hdfs://h/a"):
        assert not is_local(path)
    paths = ("file:///a", "file:/a", "/a", "a")
    assert [local_path(path) for path in paths] == ["/a", "/a", "/a", "a"]


@pytest.mark.parametrize("able", [True, False])
def test_folders_change_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, able: bool) -> None:
    class Library:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def renameat2(self, *_: object) -> int:
            return -1

    if not able:
        monkeypatch.setattr(exchange.ctypes, "CDLL", Library)
        monkeypatch.setattr(exchange.ctypes, "get_errno", lambda: errno.EINVAL)
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / folder.name).touch()
    exchange.exchange(one, other)
    assert [f.name for f in one.iterdir()] == ["other"]
    assert [f.name for f in other.iterdir()] == ["one"]
    assert sorted(f.name for f in tmp_path.iterdir()) == ["one", "other"]


def test_an_overwrite_that_fails_leaves_what_was(tmp_path: Path) -> None:
    here = local.engine()
    table = here.values([(1,)], "n int")
    path = tmp_path / "table"
    here.write(table, str(path), "parquet", "error")
    before = [file.name for file in path.iterdir()]
    gone = here.values([(2,)], "n int")
    here.drop(gone.name)
    with pytest.raises(JobError, match="does not exist"):
        here.write(gone, str(path), "parquet", "overwrite")
    assert [file.name for file in path.iterdir()] == before
