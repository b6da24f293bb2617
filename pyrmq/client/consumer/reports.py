"""Logs why nothing arrives: once for each reason, not at every try and not for every queue."""

from __future__ import annotations

import logging

from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import MessageQueue

log = logging.getLogger(__name__)


class Reports:
    """What a group waits for, by subject: a text, or a queue."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._last: dict[str | MessageQueue, str] = {}

    def waiting(self, subject: str | MessageQueue, why: str, level: int = logging.WARNING) -> None:
        """Logs a reason, unless it was logged last, or another queue of this topic on this broker
        waits for the same reason."""
        if self._last.get(subject) == why:
            return
        said = isinstance(subject, MessageQueue) and any(
            isinstance(other, MessageQueue)
            and (other.topic, other.broker_name) == (subject.topic, subject.broker_name)
            and reason == why
            for other, reason in self._last.items()
        )
        self._last[subject] = why
        if not said:
            what = subject if isinstance(subject, str) else _broker(subject)
            log.log(
                level,
                "group %s waits for %s: %s",
                self._group,
                escape(what),
                escape(why),
                extra=about(
                    group=self._group,
                    topic=subject if isinstance(subject, str) else subject.topic,
                    broker=None if isinstance(subject, str) else subject.broker_name,
                ),
            )

    def resolved(self, subject: str | MessageQueue) -> None:
        """The wait is over; the next reason is logged again."""
        self._last.pop(subject, None)


def _broker(queue: MessageQueue) -> str:
    return f"broker {queue.broker_name} (topic {queue.topic}, queue {queue.queue_id} or more)"
