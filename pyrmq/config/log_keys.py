"""The keys of the log, which brokers and name servers share. RocketMQ has none, but Logback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from pyrmq.config.table import LiveConfig, key
from pyrmq.errors import ConfigError
from pyrmq.logs.levels import LEVELS, LEVELS_OF_PROCESS, named_levels
from pyrmq.logs.setup import LogSettings

C = TypeVar("C", bound="LogKeys")


@dataclass(frozen=True)
class LogKeys:
    """Where lines go, and which."""

    log_level: str = key(
        "info",
        "What is logged: this level, and what is worse.",
        choices=LEVELS,
        live=True,
        section="Log ([logs.md](logs.md)); none of these is RocketMQ's",
    )
    log_levels: str = key(
        "",
        "Levels of some loggers, and of those below them.",
        check=named_levels,
        values="such as pyrmq.net=debug;pyrmq.engine=warning",
        live=True,
    )
    log_format: str = key(
        "text", "Lines for people, or an object of JSON each.", choices=("text", "json")
    )
    log_file: str = key("", "File of the log; empty: stderr, or logFolder.", values="a file")
    log_folder: str = key(
        "",
        "Folder of RocketMQ's log files (broker.log, namesrv.log, store.log, remoting.log and "
        "others), such as ${user.home}/logs/rocketmqlogs.",
        values="a folder",
    )
    log_max_file_size: int = key(
        128 << 20, "Bytes of a log file, then it is rotated.", low=4096, high=1 << 40
    )
    log_max_files: int = key(20, "Old log files that are kept, of each.", low=1, high=1000)
    log_rotate_daily: bool = key(
        False, "Whether log files are rotated when a day begins (local time), too."
    )
    log_compress: bool = key(
        False,
        "Whether old log files are compressed (gzip), as Logback does: broker.1.log.gz.",
    )
    log_fold_seconds: int = key(
        60, "Seconds for which repeated lines are counted; 0: each is written.", high=86_400
    )

    def check_log(self) -> None:
        """ConfigError for keys that do not go together."""
        if self.log_file and self.log_folder:
            raise ConfigError("logFile and logFolder exclude each other: remove one of them")

    @property
    def log_settings(self) -> LogSettings:
        return LogSettings(
            self.log_level,
            named_levels(self.log_levels),
            self.log_format,
            self.log_file,
            self.log_folder,
            self.log_max_file_size,
            self.log_max_files,
            self.log_rotate_daily,
            self.log_fold_seconds,
            self.log_compress,
        )


def follow_levels(live: LiveConfig[C]) -> None:
    """From now on, updates of the levels count at once, in all of the process."""

    def changed(before: C, now: C) -> None:
        levels = now.log_level, now.log_levels
        if levels != (before.log_level, before.log_levels):
            LEVELS_OF_PROCESS.apply(now.log_level, named_levels(now.log_levels))

    live.watch(changed)
