"""Lines of the engine's threads come as records."""

from __future__ import annotations

import json
import logging
import threading
import time
from pathlib import Path

import pytest

from pyrmq.engine import Store, set_log_level
from pyrmq.logs.about import MAX_VALUE
from pyrmq.logs.engine_lines import EngineLines, about_engine, logger_of
from pyrmq.logs.lines import JsonLines, Line


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
    assert record.__dict__["path"].endswith(r"index/no\n\x1b[2Jfile")
    assert capfd.readouterr().err == ""


def test_a_line_of_a_queue_has_topic_queue_and_folder_in_json(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path)
    for _ in range(3):
        store.put("orders", 2, b"x")
    store.close()
    # The next start finds a queue that says other places than the log.
    (file,) = (tmp_path / "consumequeue" / "orders" / "2").iterdir()
    entries = bytearray(file.read_bytes())
    entries[20:40] = bytes(20)
    file.write_bytes(entries)
    (tmp_path / "consumequeue" / "orders" / "notes").mkdir()
    lines = EngineLines()
    lines.start()
    Store(tmp_path).close()
    lines.stop()
    shown = [json.loads(JsonLines()(Line.of(record))) for record in caplog.records]
    (foreign,) = [row for row in shown if "is not a queue folder" in row["message"]]
    assert foreign["topic"] == "orders"
    assert foreign["path"] == str(tmp_path / "consumequeue" / "orders" / "notes")
    (damaged,) = [row for row in shown if row.get("queue") is not None]
    assert (damaged["topic"], damaged["queue"]) == ("orders", 2)
    assert damaged["path"] == str(tmp_path / "consumequeue" / "orders" / "2")
    assert damaged["logger"] == "pyrmq.engine.store"


def test_fields_are_escaped_and_bounded() -> None:
    found = about_engine([("topic", "a\nb"), ("queue", 3), ("path", "x" * 1000), ("group", "")])
    assert found == {"queue": 3, "topic": r"a\nb", "path": "x" * MAX_VALUE}


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
