"""Committed offsets of groups that pop, and the check points that they belong to.

A pop moves its group's offset and appends a check point. The file of offsets is written every few
seconds, so after a kill it is older than the log: a start reads the check points behind the place
that the file names (`popStart`), and what was popped before, acknowledged or not, is not popped
again. The other way round the file waits for the disk: an offset without its check point would mean
messages that nobody gets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

import trio

from pyrmq.broker.pop.popping import Popping
from pyrmq.broker.tables.tables import Tables
from pyrmq.engine import Pops, Store, popped_to
from pyrmq.model.names import TIMER_TOPIC

log = logging.getLogger(__name__)

FLUSH_WAIT = 5.0
"""Seconds that a file of offsets waits for the log to be on disk."""
POLL = 0.02
FAR = 1 << 17
"""Timer messages behind `popStart` for which the file is written though no offset has changed: a
start reads no more."""
Popped = tuple[bytes, bytes, int, int]
"""Topic, group, queue and the offset behind the last pop."""


def restore_offsets(store: Store, pops: Pops, tables: Tables) -> None:
    """Moves the offsets of groups to where they have popped. At a master's start, or when a slave
    becomes one. Blocking while it reads the log."""
    offsets = tables.offsets
    if offsets.pop_start is None:
        offsets.changed()  # from now on the file says it
        return
    began = time.monotonic()
    rows, unsure, read = popped_to(pops, offsets.pop_start)
    moved = _apply(store, tables, rows)
    if unsure is not None:
        (topic, group, queue, following), start = unsure
        known = offsets.query(topic.decode(errors="replace"), group.decode(errors="replace"), queue)
        # A change of the invisible time follows a pop, of which something would be known.
        if known is None or known == start:
            moved += _apply(store, tables, [(topic, group, queue, following)])
    if moved:
        log.info(
            "offsets of %d queues are those of pops in the log: %d timer messages read in %.1f s",
            moved,
            read,
            time.monotonic() - began,
        )


def _apply(store: Store, tables: Tables, rows: Iterable[Popped]) -> int:
    moved = 0
    for raw_topic, raw_group, queue, following in rows:
        try:
            topic, group = raw_topic.decode(), raw_group.decode()
        except UnicodeDecodeError:
            continue
        known = tables.topics.table.get(topic)
        if known is None or queue >= known.read_queue_nums:
            continue  # deleted since (a group that is new may not be in its file yet)
        if (topic, group, queue) in tables.offsets.resets:
            continue  # an operator has sent the group elsewhere
        if group == tables.offsets.table_group:
            continue  # it is no consumer, whatever a forged handle says
        following = min(following, store.queue_end(topic, queue))
        if tables.offsets.query(topic, group, queue) != following:
            tables.offsets.keep(topic, group, queue, following)
            moved += 1
    return moved


class PopsInLog:
    """What the table of offsets asks of a master's pops. [PopLog]"""

    def __init__(self, store: Store, popping: Popping) -> None:
        self._store = store
        self._popping = popping
        self._end = 0

    def start(self, before: int | None) -> int | None:
        self._end = int(self._store.stats()["maxPhyOffset"])
        # A thread may have set a check point whose offset is not committed yet.
        if self._popping.busy:
            return before
        return self.end()

    def end(self) -> int:
        """Where check points end, a place of the queue of timer messages."""
        return self._store.queue_end(TIMER_TOPIC, 0)

    def is_far(self, start: int | None) -> bool:
        """Whether a start would read much, although no offset may have changed."""
        return self.end() - (start or 0) > FAR

    async def on_disk(self) -> None:
        end = self._end
        with trio.move_on_after(FLUSH_WAIT):
            while self._store.flushed() < end:  # noqa: ASYNC110 - a native thread flushes
                await trio.sleep(POLL)
        if self._store.flushed() < end:
            raise OSError("check points of POP are not on disk: their offsets are not kept yet")
