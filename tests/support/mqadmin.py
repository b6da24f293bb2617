"""`pyrmq mqadmin …` and `pyrmq admin …` in this process, from a trio test."""

from __future__ import annotations

import io
from dataclasses import dataclass

import trio
from click.testing import CliRunner

from pyrmq.cli import main as pyrmq
from pyrmq.cli.mqadmin.output import Output
from pyrmq.cli.mqadmin.run import main


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command ended with."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


async def mqadmin(namesrv: str, *arguments: str) -> Ran:
    """A flat command; `-n` is added where a name server is given."""
    out, err = io.StringIO(), io.StringIO()
    words = [*arguments, "-n", namesrv] if namesrv else [*arguments]
    code = await trio.to_thread.run_sync(main, words, Output(out, err))
    return Ran(code, out.getvalue(), err.getvalue())


async def admin(namesrv: str, *arguments: str, stdin: str | None = None) -> Ran:
    """`pyrmq admin …`; stdout is no terminal."""

    def run() -> Ran:
        words = ["admin", *arguments, *(["-n", namesrv] if namesrv else [])]
        result = CliRunner().invoke(pyrmq, words, input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return await trio.to_thread.run_sync(run)
