"""Saying why nothing comes: once for each reason, not at every try."""

from __future__ import annotations

import logging

from pyrmq.escape import escape

log = logging.getLogger(__name__)


class Reports:
    """What a group waits for, by subject: a topic or a queue."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._last: dict[str, str] = {}

    def waiting(self, subject: str, why: str, level: int = logging.WARNING) -> None:
        """Logs a reason, unless it is the one that was logged last."""
        if self._last.get(subject) != why:
            self._last[subject] = why
            log.log(level, "group %s waits for %s: %s", self._group, escape(subject), escape(why))

    def settled(self, subject: str) -> None:
        """It goes on; the next reason is a new one."""
        self._last.pop(subject, None)
