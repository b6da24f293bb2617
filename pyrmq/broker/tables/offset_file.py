"""How offsets stand in config/consumerOffset.json: rows by topic@group, with numbers by queue."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.topic import as_int

log = logging.getLogger(__name__)

_NONE = -(1 << 63)
"""No offset of a client or a file."""
QueueOfGroup = tuple[str, str, int]
"""Topic, group and queue."""


def is_number(value: Any) -> bool:
    return as_int(value, 0) == as_int(value, 1)


def read_offset(file: str, key: str, queue: str, value: Any) -> int:
    """An offset of the file; 0, told, for what is none."""
    offset = as_int(value, _NONE)
    if offset != _NONE:
        return offset
    topic, _, group = key.partition("@")
    log.error(
        "%s says %s of queue %s of %s, which is no offset: 0 is used, the group gets all "
        "messages of the queue again",
        escape(file),
        escape(repr(value)[:100]),
        escape(str(queue)),
        escape(key),
        extra=about(topic=topic, group=group, path=file),
    )
    return 0


def by_queue(table: object) -> dict[QueueOfGroup, int]:
    """A table of the file by topic, group and queue; what is no row of it is left out."""
    found = {}
    for key, queues in (table if isinstance(table, dict) else {}).items():
        topic, sep, group = str(key).partition("@")
        for q in queues if sep and isinstance(queues, dict) else ():
            found[topic, group, as_int(q, -1)] = as_int(queues[q], 0)
    return found


def by_group(values: Mapping[QueueOfGroup, int]) -> dict[str, dict[int, int]]:
    """The table that `by_queue` reads."""
    found: dict[str, dict[int, int]] = {}
    for (topic, group, queue_id), value in values.items():
        found.setdefault(f"{topic}@{group}", {})[queue_id] = value
    return found
