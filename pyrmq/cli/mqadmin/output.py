"""Where mqadmin's commands print: lines and columns on stdout, failures on stderr."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TextIO

from pyrmq.admin.outcome import Outcome, Outcomes
from pyrmq.cli.progress_line import ProgressLine
from pyrmq.errors import PyrmqError, RequestTimeoutError, ResponseError
from pyrmq.escape import escape

MOST_FAILURES = 50
"""Failures of one command that are told one by one."""
FLUSH = 0.5
"""Seconds after which a line is not kept back."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, the width that cells are filled up to, `right` where they end at the
    right, `cut` for the most characters of a cell (0: all), `cells` for a width of cells other than
    the heading's. Width 0 fills nothing. `gap`: blanks behind the column."""

    head: str
    width: int = 0
    right: bool = False
    cut: int = 0
    gap: int = 2
    cells: int | None = None


class Output:
    """What a command prints, and whether it failed. All text is escaped: a name cannot move the
    cursor, or begin a line."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self.progress = ProgressLine(stream=self._err)
        self._flushed = time.monotonic()
        self._told: list[str] = []
        self.failures = 0
        """Targets, or parts of the work, that failed."""
        self.successes = 0
        """Targets that did not."""

    def line(self, text: str = "") -> None:
        """One line."""
        self._write(escape(text))

    def _write(self, line: str) -> None:
        self.progress.clear()
        self._out.write(f"{line}\n")
        now = time.monotonic()
        if now - self._flushed > FLUSH:  # who reads a pipe sees what comes slowly
            self._out.flush()
            self._flushed = now

    def tabbed(self, *cells: str) -> None:
        """One line of cells with tabs between them."""
        self._write("\t".join(escape(cell) for cell in cells))

    def lines(self, text: str) -> None:
        """Text that may have several lines, such as JSON of ours."""
        for one in text.split("\n"):
            self.line(one)

    def head(self, columns: Sequence[Column]) -> None:
        """The headings of a table."""
        self.line(_row(columns, [c.head for c in columns], heading=True))

    def row(self, columns: Sequence[Column], *cells: Any) -> None:
        """A row of a table: a cell for each column."""
        self.line(_row(columns, [str(cell) for cell in cells], heading=False))

    def flush(self) -> None:
        self._out.flush()

    def note(self, text: str) -> None:
        """A line on stderr that is neither result nor failure."""
        self.progress.clear()
        try:
            self._err.write(f"{escape(text)}\n")
            self._err.flush()
        except BrokenPipeError:  # nobody reads it: the exit code still says that it failed
            self._err = io.StringIO()
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())

    def failed(self, error: PyrmqError | str, what: str = "") -> None:
        """A part of the work that failed; the command goes on, and ends with 3 or 2."""
        self.failures += 1
        if self.failures > MOST_FAILURES:
            return
        text = error if isinstance(error, str) else describe(error)
        text = f"{what}: {text}" if what and what not in text else text
        self._told.append(text)
        self.note(text)

    def finish(self) -> None:
        """Says how many failures were not told."""
        if self.failures > MOST_FAILURES:
            self.note(f"{self.failures - MOST_FAILURES} more failed")

    def lacks(self, missing: Sequence[str]) -> None:
        """Brokers that should be there and were not asked: what they have is not in what was
        printed. Those that failed before are not told again."""
        for text in missing:
            if not any(text.partition(" is missing")[0] in told for told in self._told):
                self.successes += 1  # what is there was printed
                self.failed(text)

    def succeeded(self) -> None:
        """A part of the work that was done."""
        self.successes += 1

    def missing(self, failed: Sequence[Outcome[Any]]) -> None:
        """Servers whose part is missing in what was printed."""
        self.succeeded()
        for outcome in failed:
            self.failed(outcome.problem)

    def outcomes(self, outcomes: Outcomes[Any], success: str) -> None:
        """A line for each server that did it, in which `{}` is its address; the others fail."""
        for outcome in outcomes:
            if outcome.error is None:
                self.succeeded()
                self.line(success.replace("{}", outcome.target))
            else:
                self.failed(outcome.error, outcome.target)

    @property
    def exit_code(self) -> int:
        """0: all went well; 2: all failed; 3: some did."""
        if not self.failures:
            return 0
        return 3 if self.successes else 2


def _row(columns: Sequence[Column], cells: Sequence[str], *, heading: bool) -> str:
    parts = []
    for column, text in zip(columns, cells, strict=True):
        width = column.width if heading or column.cells is None else column.cells
        # Escaped before it is measured: an escape takes more columns than what it stands for.
        cell = text if heading else escape(text)
        if column.cut and not heading:
            cell = cell[: column.cut]
        cell = cell.rjust(width) if column.right else cell.ljust(width)
        parts.append(cell + " " * column.gap)
    return "".join(parts).rstrip(" ")


def describe(error: BaseException) -> str:
    """An error in one line: code, text, hint and the server that said it."""
    if isinstance(error, ResponseError) and error.answered:
        where = f" BROKER: {error.server}" if error.server else ""
        text = error.args[0] if error.args else ""
        hint = f" ({error.hint})" if error.hint else ""
        return f"CODE: {error.code}  DESC: {text}{where}{hint}"
    if isinstance(error, RequestTimeoutError | PyrmqError):
        return str(error)
    return f"{type(error).__name__}: {error}"
