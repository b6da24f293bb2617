"""The thread that writes: nobody who logs waits, and what is lost is said."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.logs import writer
from pyrmq.logs.files import Outlet, RotatedFile, Stream
from pyrmq.logs.folding import Folding
from pyrmq.logs.lines import JsonLines, Line
from pyrmq.logs.writer import MAX_LINES, LogWriter
from tests.logs.records import record


def message(line: Line) -> str:
    return line.message


class Kept(Outlet):
    """Keeps what it gets; `fails`: as a full disk; `held`: until it is set, it hangs."""

    def __init__(self) -> None:
        self.text = ""
        self.fails = False
        self.held = threading.Event()
        self.held.set()
        self.reached = threading.Event()

    def write(self, data: bytes, lines: int) -> bool:
        self.reached.set()
        self.held.wait()
        if self.fails:
            return self._lose(lines, OSError(28, "No space left on device"))
        self.text += data.decode()
        return True


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def log(kept: Kept) -> Iterator[LogWriter]:
    made = LogWriter(Folding(0), kept, message)
    yield made
    kept.held.set()
    made.close()


def test_what_is_logged_before_the_start_is_written_after_it(log: LogWriter) -> None:
    other = Kept()
    log.handle(record("early"))
    log.start(message, {"": other})
    log.handle(record("late"))
    log.close()
    assert other.text == "early\nlate\n"


def test_without_a_start_it_goes_to_stderr_at_the_end(log: LogWriter, kept: Kept) -> None:
    log.handle(record("early"))
    log.close()
    assert kept.text == "early\n"


def test_a_disk_that_hangs_holds_nobody_up_and_what_is_lost_is_counted(
    log: LogWriter, kept: Kept
) -> None:
    kept.held.clear()
    log.start(message, {"": kept})
    log.handle(record("first"))
    kept.reached.wait()
    for n in range(MAX_LINES + 500):
        log.handle(record("%d", n))
    assert (log.dropped, log.lost) == (500, 500)
    kept.held.set()
    log.close()
    lines = kept.text.splitlines()
    assert lines[0] == "first"
    assert "500 log lines are lost: more came than could be written" in lines
    assert len(lines) == 1 + MAX_LINES + 1


def test_long_lines_that_wait_are_bounded_too(log: LogWriter, kept: Kept) -> None:
    kept.held.clear()
    log.start(message, {"": kept})
    log.handle(record("first"))
    kept.reached.wait()
    for _ in range(MAX_LINES - 10):
        log.handle(record("%s", "x" * 100_000))
    assert log.dropped > 0
    assert log._put - log._taken < writer.MAX_CHARACTERS + 20_000


def test_the_end_does_not_wait_for_ever(
    log: LogWriter, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LAST", 0.01)
    kept.held.clear()
    log.start(message, {"": kept})
    log.handle(record("first"))
    log.close()
    assert kept.text == ""


def test_a_full_disk_is_said_on_stderr_and_then_in_the_file(log: LogWriter, kept: Kept) -> None:
    file = Kept()
    file.name = "/var/log/b.log"
    file.fails = True
    log._outlets = {"": file}
    log._write([Line(0, logging.INFO, "x", "one", {})])
    log._write([Line(0, logging.INFO, "x", "two", {})])
    assert kept.text == (
        "the log /var/log/b.log cannot be written: No space left on device; its lines are lost\n"
    )
    file.fails = False
    log._write([Line(0, logging.INFO, "x", "three", {})])
    log._write([Line(0, logging.INFO, "x", "four", {})])
    assert file.text == "2 log lines are lost here: No space left on device\nthree\nfour\n"
    assert log.lost == 2


def test_loggers_have_their_files(log: LogWriter, kept: Kept) -> None:
    net, queues = Kept(), Kept()
    log.start(message, {"": kept, "pyrmq.net": net, "pyrmq.broker.tables": queues})
    for name in ("pyrmq.net", "pyrmq.net.server", "network", "pyrmq.broker.tables.topics", "x"):
        made = record(name)
        made.name = name
        log.handle(made)
    log.close()
    assert net.text == "pyrmq.net\npyrmq.net.server\n"
    assert queues.text == "pyrmq.broker.tables.topics\n"
    assert kept.text == "network\nx\n"


def test_the_thread_says_how_often_lines_came(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "TICK", 0.01)
    now = [0.0]
    log = LogWriter(Folding(60, lambda: now[0]), kept, message)
    log.start(message, {"": kept})
    log.handle(record("no"))
    log.handle(record("no"))
    said = threading.Event()
    write = kept.write

    def seen(data: bytes, lines: int) -> bool:
        done = write(data, lines)
        if "repeated" in kept.text:
            said.set()
        return done

    kept.write = seen  # type: ignore[method-assign]
    now[0] = 60.0
    assert said.wait(30)
    log.close()
    assert kept.text == "no\nno (repeated once more in the last 60 s)\n"


def test_a_line_that_cannot_be_made_is_said_and_harms_nobody(log: LogWriter, kept: Kept) -> None:
    log.handle(record("%d of %d", 1))
    log.handle(record("next"))
    log.close()
    assert kept.text == "a line cannot be made of '%d of %d': TypeError\nnext\n"


def test_letters_that_stderr_has_not_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "out"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    log = LogWriter(Folding(), Stream(fd, "ascii"), message)
    log.handle(record("grüße"))
    log.close()
    os.close(fd)
    assert path.read_bytes() == b"gr\\xfc\\xdfe\n"


PROGRAM = """
import logging, sys
from pathlib import Path
from pyrmq.logs.setup import Logs, LogSettings
logs = Logs.early()
logs.open(LogSettings(form="json", file=sys.argv[1], fold_seconds=0))
log = logging.getLogger("pyrmq.audit")
for n in range(int(sys.argv[2])):
    log.info("%d", n)
print(logs.writer.dropped)
"""


def test_a_flood_is_written_or_counted_and_the_end_of_a_process_writes_the_rest(
    tmp_path: Path,
) -> None:
    """100,000 lines as fast as they come."""
    path = tmp_path / "a.log"
    words = [sys.executable, "-c", PROGRAM]
    done = subprocess.run([*words, str(path), "100000"], capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    numbers = [int(row["message"]) for row in rows if row["message"].isdecimal()]
    assert numbers == sorted(numbers)
    assert len(numbers) + int(done.stdout) == 100_000
    assert done.stderr == ""


def test_a_file_gets_json(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log = LogWriter(Folding(), Kept(), message)
    log.start(JsonLines(), {"": RotatedFile(path, 1000, 1, daily=False)})
    log.handle(record("of %s", "t", topic="t"))
    log.close()
    assert json.loads(path.read_text())["topic"] == "t"
