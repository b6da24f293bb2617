"""Every command line of both families, and what must hold of each whatever servers say."""

from __future__ import annotations

import io
import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from pyrmq.cli import main as pyrmq
from pyrmq.cli.mqadmin.output import Output
from pyrmq.cli.mqadmin.run import main
from tests.admin.e2e.bad_servers.between import Address, Between
from tests.admin.e2e.bad_servers.lines import LINES
from tests.support.mqadmin import Ran
from tests.system.interop.table.cases import EVERY
from tests.system.interop.table.tools import words_of

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]")
FLAT = tuple(case for case in EVERY if not case.until)
STREAMS = ("message print", "broker probe", "cluster rt", "dlq resend", "dlq export")
"""These print a line of JSON for each of many."""


@dataclass(frozen=True, slots=True)
class Behind:
    """Servers behind a door, and what places in command lines stand for."""

    door: Between
    namesrv: Address
    broker: Address
    places: dict[str, str]
    files: Path

    def flat(self, at: int) -> Ran:
        """Line `at` of mqadmin's table. Raises what the command raises."""
        case = FLAT[at]
        for name, content in case.files.items():
            (self.files / name).write_text(content)
        out, err = io.StringIO(), io.StringIO()
        words = [*words_of(case, self.places), "-n", self.places["namesrv"]]
        return Ran(main(words, Output(out, err)), out.getvalue(), err.getvalue())

    def tree(self, line: str, *more: str) -> Ran:
        """A line of the tree."""
        words = [w.format(**self.places) if "{" in w else w for w in shlex.split(line)]
        words = ["admin", *words, *more, "-n", self.places["namesrv"]]
        result = CliRunner().invoke(pyrmq, words, input="")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)


def check(ran: Ran, what: str) -> None:
    """An exit code of the four, no traceback, and nothing that a terminal obeys."""
    assert ran.code in (0, 1, 2, 3), what
    assert not _CONTROL.search(ran.out + ran.err), f"{what}: {ran.out + ran.err!r}"
    assert "Traceback" not in ran.err, what
    if ran.code in (2, 3):
        assert (ran.out + ran.err).strip(), f"{what} failed without a word"


def check_json(ran: Ran, line: str) -> None:
    """What stands on stdout is JSON, also if a part failed."""
    if not ran.out:
        assert ran.code or line.startswith(STREAMS), f"{line} shows nothing"
    elif line.startswith(STREAMS):
        for one in ran.lines:
            json.loads(one)
    else:
        json.loads(ran.out)


__all__ = ["FLAT", "LINES", "Behind", "check", "check_json"]
