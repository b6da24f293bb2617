"""`--console` of `pyrmq server`: the console as a process beside it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

if TYPE_CHECKING:
    from pyrmq.broker import BrokerConfig

ADDRESS = "127.0.0.1:8090"


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """`bind`: where it listens; None: there is none."""

    bind: str | None
    login: str | None

    @asynccontextmanager
    async def beside(self, namesrv: str, config: BrokerConfig) -> AsyncIterator[dict[str, str]]:
        """The console of this name server runs in it; gives what the ready line has of it.
        `config`: of the (first) broker."""
        if self.bind is None:
            yield {}
            return
        from pyrmq.processes.helper import Helper

        bind = self.bind
        login = self.login or ("broker" if config.has_users else "none")
        words = [sys.executable, "-m", "pyrmq", "console", "-n", namesrv, "--login", login]
        words += ["--lifeline", *_log_words(config)]

        def command(before: Mapping[str, str]) -> list[str]:
            """A port that was free at the first start is taken again."""
            at = urlsplit(before["console"]).netloc if "console" in before else bind
            return [*words, "--bind", at]

        async with Helper("console", command).running() as facts:
            yield facts


def console_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--console and --console-login, as `console`."""
    from functools import wraps

    @wraps(command)
    def run(console: str | None, console_login: str | None, **rest: Any) -> Any:
        if console_login is not None and console is None:
            raise click.UsageError("--console-login needs --console")
        return command(console=ConsoleOptions(console, console_login), **rest)

    for option in (
        click.option(
            "--console-login",
            metavar="none|broker|FILE",
            help="Who may use the console.  [default: broker if the server has users, else none]",
        ),
        click.option(
            "--console",
            is_flag=False,
            flag_value=ADDRESS,
            metavar="[HOST:PORT]",
            help=f"Serve the web console too, as a process beside this one.  [{ADDRESS}]",
        ),
    ):
        run = option(run)
    return run


def _log_words(config: BrokerConfig) -> list[str]:
    """Where the console logs: beside the broker's file, in a file of its own."""
    settings = config.log_settings
    words = ["--log-level", settings.level, "--log-format", settings.form]
    if settings.file:
        file = Path(settings.file).expanduser()
        return [*words, "--log-file", str(file.with_name(f"{file.stem}-console{file.suffix}"))]
    if settings.folder:
        return [*words, "--log-file", str(Path(settings.folder).expanduser() / "console.log")]
    return words
