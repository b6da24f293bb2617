"""Levels of loggers: of all, and of some. They may change while a server runs.

They are those of the process: two brokers in one have the same.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from pyrmq.engine import set_log_level

log = logging.getLogger(__name__)

LEVELS = ("debug", "info", "warning", "error")
TOP = "pyrmq"
ENGINE = "pyrmq.engine"
MAX_NAMED = 100


def named_levels(text: str) -> dict[str, str]:
    """`LOGGER=LEVEL;LOGGER=LEVEL`. ValueError."""
    found = {}
    for part in filter(None, map(str.strip, re.split("[;,]", text))):
        name, _, level = (word.strip() for word in part.partition("="))
        if not re.fullmatch(r"[A-Za-z_][\w.-]{0,99}", name, re.ASCII) or level not in LEVELS:
            raise ValueError(f"LOGGER=LEVEL expected, separated by `;`, of {', '.join(LEVELS)}")
        found[name] = level
    if len(found) > MAX_NAMED:
        raise ValueError(f"at most {MAX_NAMED} loggers")
    return found


class Levels:
    """`apply` sets them; `debug` and `back` are for an operator with no more than a shell."""

    def __init__(self) -> None:
        self._configured: tuple[str, Mapping[str, str]] = ("info", {})
        self._named: set[str] = set()

    def apply(self, level: str, named: Mapping[str, str]) -> None:
        self._configured = level, dict(named)
        self._set(level, named)

    def debug(self) -> None:
        """Everything is logged, until `back` or `apply`."""
        self._set("debug", {})
        log.info("the log level is debug, by a signal")

    def back(self) -> None:
        self._set(*self._configured)
        log.info("log levels are as configured, by a signal")

    def _set(self, level: str, named: Mapping[str, str]) -> None:
        for name in self._named - {TOP}:
            logging.getLogger(name).setLevel(logging.NOTSET)
        wanted = {TOP: level, **named}
        for name, value in wanted.items():
            logging.getLogger(name).setLevel(value.upper())
        self._named = set(wanted)
        of_engine = [v for name, v in wanted.items() if name.startswith(f"{ENGINE}.")]
        of_engine.append(wanted.get(ENGINE, wanted[TOP]))
        set_log_level(min(of_engine, key=LEVELS.index))


LEVELS_OF_PROCESS = Levels()
