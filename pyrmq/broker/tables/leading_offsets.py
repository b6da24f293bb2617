"""Sets consumer offsets that lead, that is, stand behind the end of their queue, back at the start.

A power cut with ASYNC_FLUSH takes messages that were consumed, and a restored file may be of
another time than the store. Without this a group would skip the messages that come next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Store
from pyrmq.escape import escape
from pyrmq.model.names import TRANSACTION_GROUP

log = logging.getLogger(__name__)

EndOf = Callable[[str, int], int | None]
"""By topic and queue the offset of the next message, None if that is not known."""


def bring_back_to_store(offsets: OffsetTable, topics: TopicTable, store: Store) -> None:
    """Sets offsets back that are behind what their queues have. Messages that no slave is known to
    have count as well: consumers that were further wait at their place."""
    ends = {(topic, queue): store.queue_end(topic, queue) for topic, queue, _, _ in store.queues()}

    def end_of(topic: str, queue: int) -> int | None:
        unused = 0 if topics.get(topic) is not None else None
        return ends.get((topic, queue), unused)

    bring_back(offsets, end_of)


def bring_back(offsets: OffsetTable, end_of: EndOf) -> int:
    """Sets offsets behind the end of their queue back to it. Logs each with both values; returns
    how many."""
    offsets.take_granted()
    count = 0
    for (topic, group), queues in offsets.offsets.items():
        if group == TRANSACTION_GROUP:
            continue  # the engine checks these
        leading = {
            queue: (offset, end)
            for queue, offset in queues.items()
            if (end := end_of(topic, queue)) is not None and offset > end
        }
        if not leading:
            continue
        moved = ", ".join(
            f"queue {queue} at {end} instead of {offset}"
            for queue, (offset, end) in sorted(leading.items())
        )
        log.error(
            "%s leads: group %s continues topic %s at the end of its queues: %s",
            escape(offsets.path.name),
            escape(group),
            escape(topic),
            escape(moved),
        )
        offsets.set_back(topic, group, {queue: end for queue, (_, end) in leading.items()})
        count += len(leading)
    count += _bring_back_resets(offsets, end_of)
    if count:
        offsets.new_version()
    return count


def _bring_back_resets(offsets: OffsetTable, end_of: EndOf) -> int:
    """The same of resets that a group has not heard of: its next pull is sent there."""
    count = 0
    for (topic, group, queue), offset in list(offsets.resets.items()):
        end = end_of(topic, queue)
        if end is not None and offset > end:
            log.error(
                "%s leads: group %s was reset in queue %d of topic %s to %d, it is sent to %d",
                escape(offsets.path.name),
                escape(group),
                queue,
                escape(topic),
                offset,
                end,
            )
            offsets.resets[topic, group, queue] = end
            count += 1
    return count
