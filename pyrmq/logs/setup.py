"""Sets up the log of a process: of a server that is a program, or of a program with one inside."""

from __future__ import annotations

import atexit
import logging
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyrmq.logs.engine_lines import EngineLines
from pyrmq.logs.files import RotatedFile, Stream
from pyrmq.logs.folding import SECONDS, Folding
from pyrmq.logs.levels import LEVELS_OF_PROCESS, TOP
from pyrmq.logs.lines import JsonLines, TextLines
from pyrmq.logs.writer import LogWriter

ROCKETMQ_FILES = {
    "pyrmq.namesrv": "namesrv.log",
    "pyrmq.engine": "store.log",
    "pyrmq.broker.delay": "store.log",
    "pyrmq.broker.timer": "store.log",
    "pyrmq.broker.replication": "store.log",
    "pyrmq.net": "remoting.log",
    "pyrmq.txn": "transaction.log",
    "pyrmq.broker.pop": "pop.log",
    "pyrmq.broker.stats": "stats.log",
    "pyrmq.broker.tables.consumer_filters": "filter.log",
    "pyrmq.audit": "auth_audit.log",
}
"""Where the loggers of these names, and those below them, write with `logFolder`. The others write
to broker.log, or, in a name server, to namesrv.log."""
OLD = "otherdays"
"""The folder of RocketMQ's old log files."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What the keys of docs/logs.md say."""

    level: str = "info"
    levels: Mapping[str, str] = field(default_factory=dict)
    form: str = "text"
    file: str = ""
    folder: str = ""
    max_file_size: int = 128 << 20
    max_files: int = 20
    rotate_daily: bool = False
    fold_seconds: int = SECONDS
    compress: bool = False


class Logs:
    """The log of this process, from `Logs.early()` on; `open` says where it goes. Whoever embeds
    a server and wants its log written so calls both, with the logger "pyrmq"."""

    def __init__(self, writer: LogWriter, logger: logging.Logger) -> None:
        self.writer = writer
        self._logger = logger
        self._engine = EngineLines()

    @classmethod
    def early(cls, logger: logging.Logger | None = None) -> Logs:
        """Lines wait until `open`. `logger`: whose records are written; None: those of all."""
        try:
            stderr = Stream(sys.stderr.fileno(), sys.stderr.encoding)
        except (OSError, AttributeError, ValueError):  # a test has another one, or there is none
            stderr = Stream(2)
        writer = LogWriter(Folding(), stderr, TextLines())
        logger = logger or logging.getLogger()
        if logger is logging.root:
            for other in list(logger.handlers):
                logger.removeHandler(other)
            logger.setLevel(logging.WARNING)  # that of other packages
        logger.addHandler(writer)
        logging.getLogger(TOP).setLevel(logging.INFO)
        return cls(writer, logger)

    def open(self, settings: LogSettings, of: str = "", *, is_namesrv: bool = False) -> None:
        """ConfigError if a file cannot be written. `of`: the broker that the lines are of, where
        several share one configuration: each has files of its own."""
        outlets = outlets_of(settings, of, is_namesrv=is_namesrv)
        for outlet in outlets.values():
            outlet.open("logFolder" if settings.folder else "logFile")
        LEVELS_OF_PROCESS.apply(settings.level, settings.levels)
        self.writer.folding.seconds = settings.fold_seconds
        form = JsonLines(of) if settings.form == "json" else TextLines("" if outlets else of)
        self.writer.start(form, outlets or {"": self.writer.stderr})
        self._engine.start()
        atexit.register(self.close)

    def close(self) -> None:
        """Writes what waits. At the end of a process that happens by itself."""
        atexit.unregister(self.close)
        self._engine.stop()
        self._logger.removeHandler(self.writer)
        self.writer.close()


def outlets_of(
    settings: LogSettings, of: str, *, is_namesrv: bool = False
) -> dict[str, RotatedFile]:
    """The files by the loggers that write there; none: all goes to stderr."""

    def rotated(path: Path, old: Callable[[int], Path] | None = None) -> RotatedFile:
        sizes = settings.max_file_size, settings.max_files
        daily, compress = settings.rotate_daily, settings.compress
        return RotatedFile(path, *sizes, daily=daily, old=old, compress=compress)

    if settings.file:
        path = Path(settings.file).expanduser()
        return {"": rotated(path.with_name(f"{path.stem}-{of}{path.suffix}") if of else path)}
    if not settings.folder:
        return {}
    folder = Path(settings.folder).expanduser() / of
    files: dict[str, RotatedFile] = {}
    names = {**ROCKETMQ_FILES, "": "namesrv.log" if is_namesrv else "broker.log"}
    for name in names.values():
        stem = name.removesuffix(".log")
        files[name] = rotated(folder / name, partial(_old, folder / OLD, stem))
    return {logger: files[name] for logger, name in names.items()}


def _old(folder: Path, stem: str, number: int) -> Path:
    """As RocketMQ names old files."""
    return folder / f"{stem}.{number}.log"


def heed_signals() -> None:
    """SIGUSR1: everything is logged. SIGUSR2: what is configured."""
    signal.signal(signal.SIGUSR1, lambda *_: LEVELS_OF_PROCESS.debug())
    signal.signal(signal.SIGUSR2, lambda *_: LEVELS_OF_PROCESS.back())
