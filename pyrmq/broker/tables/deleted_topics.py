"""Topics that were deleted while the log still has messages of theirs: config/deletedTopics.json.

RocketMQ has no such file, and leaves it alone. A queue of a deleted topic goes on where it ended,
as a recovery finds the old messages in the log, by their offsets. The engine hides what was before;
it has to be told of it at every start.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.config_file import PersistentTable, Rows
from pyrmq.engine import Store
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.topic import as_int

log = logging.getLogger(__name__)

UNKNOWN_LOG_END = 1 << 62
MAX_DELETED = 65_536
"""Topics that are kept; of more the oldest are forgotten."""


@dataclass(slots=True)
class Deleted:
    """One topic. It may have been made again since."""

    log_end: int
    """Where the log ended: what is behind it is not of the deleted topic."""
    batch: bool
    """Whether its queues hold inner batches; those of the topic to come do, then."""
    queues: dict[int, int] = field(default_factory=dict)
    """By queue the offset before which everything is hidden."""
    unfinished: bool = True
    """The engine has not been told, as far as is known."""

    def to_json(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "logEnd": self.log_end,
            "queues": {str(queue): offset for queue, offset in self.queues.items()},
            "unfinished": self.unfinished,
        }

    @classmethod
    def from_json(cls, value: dict[Any, Any]) -> Deleted:
        queues = value.get("queues")
        found = {
            as_int(queue, -1): as_int(offset, 0)
            for queue, offset in (queues if isinstance(queues, dict) else {}).items()
        }
        return cls(
            as_int(value.get("logEnd"), 0),
            value.get("batch") is True,
            {queue: offset for queue, offset in found.items() if queue >= 0 and offset > 0},
            value.get("unfinished") is True,
        )


class DeletedTopics(PersistentTable):
    """It is saved before topics.json, so that no topic is made again without it.

    A topic that is not in the table is ABSENT. It is BEGUN while it is `unfinished`, else HIDDEN.

    | State | `begin` | `finish` | `undo_unfinished` | the log begins behind `log_end` |
    |---|---|---|---|---|
    | ABSENT | BEGUN | HIDDEN; without messages ABSENT | ABSENT | |
    | BEGUN | BEGUN | HIDDEN | ABSENT; HIDDEN if it was before | never: it is not known |
    | HIDDEN | BEGUN, what is hidden stays so | HIDDEN | HIDDEN | ABSENT |

    At the start the engine is told what BEGUN and HIDDEN ones hide. Beyond MAX_DELETED the oldest
    become ABSENT.
    """

    def __init__(self, path: Path, store: Store) -> None:
        """Hides what is to be hidden. Blocking."""
        super().__init__(path)
        self._store = store
        self.topics: OrderedDict[str, Deleted] = OrderedDict()
        """In the order of their deletion."""
        self._rows = Rows(self._row)
        table = config_file.load(path).get("deletedTopics")
        found = {
            str(topic): Deleted.from_json(value)
            for topic, value in (table if isinstance(table, dict) else {}).items()
            if isinstance(value, dict)
        }
        for topic in sorted(found, key=lambda topic: found[topic].log_end):
            self._change(topic, found[topic])
        if self._hide():
            config_file.save(path, self.to_json())

    def _row(self, topic: str) -> bytes:
        return config_file.row(topic, self.topics[topic].to_json())

    def _change(self, topic: str, deleted: Deleted) -> None:
        self._rows.change(topic)
        self.topics[topic] = deleted
        self.topics.move_to_end(topic)

    def _forget(self, topic: str) -> None:
        self._rows.remove(topic)
        del self.topics[topic]

    def _hide(self) -> bool:
        """Tells the engine. Whether a queue ends before its offset: a machine that lost its power
        has lost messages that were hidden, and new ones must not be in their place."""
        changed = False
        for topic, deleted in list(self.topics.items()):
            ends: dict[int, int] = {}
            for queue_id, offset in deleted.queues.items():
                self._store.hide_messages(topic, queue_id, offset)
                ends[queue_id] = min(offset, self._store.queue_range(topic, queue_id)[1])
            if ends != deleted.queues:
                changed = True
                log.warning(
                    "%s: the queues of the deleted topic %s end before what it hides: %s",
                    escape(self.path.name),
                    escape(topic),
                    escape(_ends_instead(ends, deleted.queues)),
                    extra=about(topic=topic),
                )
                deleted.queues = {queue_id: end for queue_id, end in ends.items() if end > 0}
                self._rows.change(topic)
            self._store.forget_topic(topic)  # until its configuration is read, if it was made again
        return changed

    def begin(self, topic: str, batch: bool) -> None:
        """A topic is being deleted."""
        known = self.topics.get(topic)
        self._change(topic, Deleted(UNKNOWN_LOG_END, batch, known.queues if known else {}))
        self.changed()

    def finish(self, ends: Mapping[str, Iterable[tuple[int, int]]]) -> None:
        """The engine hides what is before these offsets, by topic and queue."""
        stats = self._store.stats()
        for topic, queues in ends.items():
            known = self.topics.get(topic)
            hidden = {queue: offset for queue, offset in queues if offset > 0}
            if hidden or known is not None:  # without messages too: delayed ones may be under way
                batch = known is not None and known.batch
                self._change(topic, Deleted(stats["maxPhyOffset"], batch, hidden, False))
        self._forget_oldest(stats["minPhyOffset"])
        self.changed()

    def _forget_oldest(self, first: int) -> None:
        """Forgets those whose messages the log, which begins at `first`, has no more, and those
        that are too many."""
        while self.topics:
            oldest, deleted = next(iter(self.topics.items()))
            if deleted.log_end > first:
                if len(self.topics) <= MAX_DELETED:
                    break
                log.error(
                    "messages of the deleted topic %s may come back",
                    escape(oldest),
                    extra=about(topic=oldest),
                )
            self._forget(oldest)

    def undo_unfinished(self, topics: Iterable[str]) -> None:
        """These topics are there: if a deletion of one did not finish, it did not begin either."""
        left = {}
        for topic in topics:
            known = self.topics.get(topic)
            if known is not None and known.unfinished:
                if known.queues:
                    left[topic] = known.queues.items()
                else:
                    self._forget(topic)
                    self.changed()
        if left:
            self.finish(left)

    def first_offset(self, topic: str, queue_id: int) -> int:
        """Where a queue began when its topic was made."""
        known = self.topics.get(topic)
        return 0 if known is None else known.queues.get(queue_id, 0)

    def is_batch(self, topic: str) -> bool | None:
        """Whether the queues that a new topic finds hold inner batches; None if it finds none."""
        known = self.topics.get(topic)
        return None if known is None or not known.queues else known.batch

    def to_json(self) -> dict[str, Any]:
        return {"deletedTopics": self._rows.freeze()}


def _ends_instead(ends: Mapping[int, int], before: Mapping[int, int]) -> str:
    changed = ((queue, end) for queue, end in sorted(ends.items()) if end != before[queue])
    return ", ".join(f"queue {queue} at {end} instead of {before[queue]}" for queue, end in changed)
