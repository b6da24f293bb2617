"""Progress of what takes long: on a terminal, on stderr, and nowhere else."""

from __future__ import annotations

import io

import pytest

from pyrmq.admin import Admin
from pyrmq.cli.mqadmin.output import Output
from pyrmq.cli.progress_line import ProgressLine
from pyrmq.server import Running
from tests.support.mqadmin import mqadmin


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProgressLine, "FIRST", 0.0)
    monkeypatch.setattr(ProgressLine, "TERMINAL", 0.0)
    monkeypatch.setattr(ProgressLine, "LOG", 0.0)


def test_a_line_that_changes() -> None:
    terminal = Terminal()
    line = ProgressLine(stream=terminal)
    line("topics", 1, 4)
    line("a\x1b[2J", 2, 0)
    line.clear()
    line.clear()
    assert terminal.getvalue() == "\r\x1b[Ktopics: 1 of 4 (25 %)\r\x1b[Ka\\x1b[2J: 2\r\x1b[K"


def test_nothing_in_a_pipe_and_lines_in_a_log() -> None:
    pipe, log = io.StringIO(), io.StringIO()
    ProgressLine(stream=pipe)("topics", 1, 4)
    ProgressLine(stream=log, logs=True)("topics", 1, 4)
    assert (pipe.getvalue(), log.getvalue()) == ("", "topics: 1 of 4 (25 %)\n")


def test_what_is_printed_takes_the_line_away() -> None:
    terminal, printed = Terminal(), io.StringIO()
    out = Output(printed, terminal)
    out.progress("topics", 1, 4)
    out.line("a row")
    out.progress("topics", 2, 4)
    out.note("a note")
    shown = "\r\x1b[Ktopics: {} of 4 ({} %)\r\x1b[K"
    assert terminal.getvalue() == shown.format(1, 25) + shown.format(2, 50) + "a note\n"
    assert printed.getvalue() == "a row\n"


async def test_who_asks_is_told(embedded: Running) -> None:
    told: list[tuple[str, int, int]] = []
    async with Admin(embedded.namesrv, progress=lambda *step: told.append(step)) as admin:
        rows = [row async for row in admin.topics.with_groups()]
        assert [step[:2] for step in told][-1] == ("topics", told[-1][2] - 1)
        assert len(told) >= len(rows) > 5
        told.clear()
        rows = [row async for row in admin.topics.flows()]
        assert told[0] == ("topics", 0, told[0][2])


async def test_a_command_without_a_terminal_shows_none(embedded: Running) -> None:
    ran = await mqadmin(embedded.namesrv, "topicList", "-c")
    assert (ran.code, ran.err) == (0, "")


def test_slow_lines_are_not_kept_back(monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []

    class Pipe(io.StringIO):
        def flush(self) -> None:
            flushed.append(self.getvalue())

    out = Output(Pipe(), io.StringIO())
    out.line("at once")
    assert flushed == []
    monkeypatch.setattr(out, "_flushed", 0.0)
    out.line("late")
    assert flushed == ["at once\nlate\n"]
