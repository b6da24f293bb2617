"""--log-level, --log-file and --log-format of servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pyrmq.cli.settings import Settings
    from pyrmq.logs.setup import Logs, LogSettings

_LEVELS = ("debug", "info", "warning", "error")
_level_option = click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    help="What is logged.  [default: logLevel, else info]",
)
_file_option = click.option(
    "--log-file", type=click.Path(dir_okay=False), help="[default: logFile, else stderr]"
)
_format_option = click.option(
    "--log-format", type=click.Choice(["text", "json"]), help="[default: logFormat, else text]"
)


def log_options_of(command: Callable[..., None]) -> Callable[..., None]:
    """--log-level, --log-file and --log-format, as `log_options`."""

    @wraps(command)
    def run(
        log_level: str | None, log_file: str | None, log_format: str | None, **rest: Any
    ) -> None:
        command(log_options=LogOptions(log_level, log_file, log_format), **rest)

    return _level_option(_file_option(_format_option(run)))


@dataclass(frozen=True, slots=True)
class LogOptions:
    level: str | None
    file: str | None
    format: str | None

    def put(self, settings: Settings) -> None:
        settings.set_option("logFile", self.file, "--log-file")
        settings.set_option("logFormat", self.format, "--log-format")
        if self.level is not None:
            # Not pinned, as the others are: the level may change while the server runs.
            settings.values["logLevel"] = self.level
            settings.sources["logLevel"] = "the option --log-level"

    def words(self) -> list[str]:
        """For another process."""
        options = {"level": self.level, "file": self.file, "format": self.format}
        return [f"--log-{name}={value}" for name, value in options.items() if value is not None]

    def alone(self) -> LogSettings:
        """Where there are no keys of a configuration besides."""
        from pyrmq.logs.setup import LogSettings

        return LogSettings(self.level or "info", form=self.format or "text", file=self.file or "")


def early_log() -> Logs:
    """The log of the process, which waits until it is known where lines go. If the command fails,
    what it has logged is written before its error is shown."""
    from pyrmq.logs.setup import Logs, heed_signals

    heed_signals()
    logs = Logs.early()
    click.get_current_context().call_on_close(logs.writer.flush)
    return logs
