"""Lines of the engine's threads come as records."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import pytest

from pyrmq.engine import Store, set_log_level
from pyrmq.logs.engine_lines import EngineLines, logger_of


def test_a_line_of_the_engine_is_a_record_with_its_time_and_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "index"
    folder.mkdir()
    (folder / "no\n\x1b[2Jfile").touch()
    before = time.time()
    lines = EngineLines()
    lines.start()
    Store(tmp_path).close()
    lines.stop()
    (record,) = [r for r in caplog.records if "not an index file" in r.message]
    assert (record.name, record.levelname) == ("pyrmq.engine.store", "WARNING")
    assert record.message.endswith(r"index/no\n\x1b[2Jfile")
    assert before - 1 <= record.created <= time.time()
    assert record.pathname.startswith("pyrmq_store")
    assert capfd.readouterr().err == ""


def test_without_it_they_go_to_stderr(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "file").touch()
    Store(tmp_path).close()
    assert "WARNING pyrmq.engine: not an index file" in capfd.readouterr().err
    assert not caplog.records


def test_levels_of_their_loggers_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "file").touch()
    caplog.set_level(logging.ERROR, "pyrmq.engine.store")
    lines = EngineLines()
    lines.start()
    Store(tmp_path).close()
    lines.stop()
    assert not caplog.records


def test_the_thread_ends_at_once() -> None:
    lines = EngineLines()
    lines.start()
    lines.stop()
    assert "pyrmq-engine-log" not in [thread.name for thread in threading.enumerate()]
    set_log_level("warning")


@pytest.mark.parametrize(
    ("target", "logger"),
    [
        ("pyrmq_store::ha::replicas", "pyrmq.engine.store"),
        ("_native::python", "pyrmq.engine.native"),
        ("", "pyrmq.engine"),
        ("a b", "pyrmq.engine"),
    ],
)
def test_loggers_are_those_of_crates(target: str, logger: str) -> None:
    assert logger_of(target) == logger
