"""How far a table goes: by queue, the offsets that it has, and which log they are from.

Each commit that adds messages writes this into the summary of its snapshot and into the properties
of the table. Snapshots of others (a compaction, a delete) have none: then an ancestor says it, and
if the ancestors are expired, the property.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyrmq.tables.errors import TableError

ENDS = "pyrmq.ends"
"""In a snapshot's summary and in the table's properties: the JSON of `Ends`."""
TOPIC = "pyrmq.topic"
"""In both: the topic of the table."""
COMMIT = "pyrmq.commit"
"""In both: a uuid, made for each commit. Its data files have it in their names."""
LOST = "pyrmq.lost"
"""In a summary: JSON, ranges that retention had deleted before this commit could read them."""
VERSION = 1
MAX_QUEUES = 1 << 16
"""Queues of one table, over all brokers."""
MAX_TEXT = 8 << 20
"""Characters of the JSON that is read."""
_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Anchor:
    """A message of the log: where it is and when it was stored. Another log under the same name has
    another message at this place."""

    offset: int
    """Queue offset."""
    commitLogOffset: int
    """Offset in the broker's commit log, bytes."""
    storeTimestamp: int
    """Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """What the table has of a queue: the messages from `start` to before `end`."""

    start: int
    """Queue offset of the first message."""
    end: int
    """Queue offset of the next message: one after the last that the table has."""
    last: Anchor
    """The last message that the table has; its offset is `end` - 1."""


@dataclass(frozen=True)
class Ends:
    """What a table has of its topic."""

    topic: str
    brokers: Mapping[str, Mapping[int, QueueEnd]] = field(default_factory=dict)
    """By broker name and queue id. A queue without messages in the table is not in it."""

    def queue(self, broker: str, queue: int) -> QueueEnd | None:
        return self.brokers.get(broker, {}).get(queue)

    def queues(self) -> Iterator[tuple[str, int, QueueEnd]]:
        """All queues, by broker and id."""
        for broker in sorted(self.brokers):
            for queue in sorted(self.brokers[broker]):
                yield broker, queue, self.brokers[broker][queue]

    def offsets(self) -> dict[str, dict[str, dict[int, int]]]:
        """The next offset of each queue, as `starting_offsets` of `pyrmq.scan` takes it."""
        return {
            self.topic: {
                broker: {queue: found.end for queue, found in queues.items()}
                for broker, queues in self.brokers.items()
            }
        }

    def plus(self, added: Mapping[str, Mapping[int, QueueEnd]]) -> Ends:
        """With the ranges of a commit: each begins at or after the end of its queue."""
        brokers = {name: dict(queues) for name, queues in self.brokers.items()}
        for broker, queues in added.items():
            mine = brokers.setdefault(broker, {})
            for queue, new in queues.items():
                old = mine.get(queue)
                if old is not None and new.start < old.end:
                    raise TableError(
                        f"queue {queue} of {broker}: the table has offsets before {old.end}, and "
                        f"{new.start} would be added again",
                        "report this",
                    )
                mine[queue] = QueueEnd(new.start if old is None else old.start, new.end, new.last)
        return Ends(self.topic, brokers)

    def to_json(self) -> str:
        """TableError for more queues than a table may have."""
        count = sum(map(len, self.brokers.values()))
        if count > MAX_QUEUES:
            raise TableError(
                f"topic {self.topic} has {count} queues, and a table has at most {MAX_QUEUES}",
                "write the brokers to several tables",
            )
        brokers = {
            broker: {
                str(queue): [q.start, q.end, q.last.commitLogOffset, q.last.storeTimestamp]
                for queue, q in sorted(queues.items())
            }
            for broker, queues in sorted(self.brokers.items())
        }
        whole = {"v": VERSION, "topic": self.topic, "brokers": brokers}
        return json.dumps(whole, separators=(",", ":"), ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> Ends:
        """TableError for what `to_json` did not write."""
        if len(text) > MAX_TEXT:
            raise _unknown(f"has {len(text)} characters")
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise _unknown("is no JSON") from None
        if not isinstance(found, dict) or found.get("v") != VERSION:
            version = found.get("v") if isinstance(found, dict) else None
            raise _unknown(f"has version {version!r:.20}, not {VERSION}")
        topic, brokers = found.get("topic"), found.get("brokers")
        if not isinstance(topic, str) or not isinstance(brokers, dict):
            raise _unknown("has no topic and brokers")
        if sum(len(q) if isinstance(q, dict) else 0 for q in brokers.values()) > MAX_QUEUES:
            raise _unknown(f"has more than {MAX_QUEUES} queues")
        return Ends(topic, {name: _queues(name, queues) for name, queues in brokers.items()})


def _queues(broker: str, found: Any) -> dict[int, QueueEnd]:
    if not isinstance(found, dict):
        raise _unknown(f"has no queues of {broker!r:.80}")
    queues = {}
    for name, numbers in found.items():
        if not (name.isascii() and name.isdigit() and len(name) <= 10 and int(name) < 1 << 31):
            raise _unknown(f"has a queue {name!r:.20}")
        if not (
            isinstance(numbers, list)
            and len(numbers) == 4
            and all(type(n) is int and 0 <= n <= _MAX for n in numbers)
            and numbers[0] < numbers[1]
        ):
            raise _unknown(f"has no range of queue {name} of {broker!r:.80}")
        start, end, log, time = numbers
        queues[int(name)] = QueueEnd(start, end, Anchor(end - 1, log, time))
    return queues


def _unknown(what: str) -> TableError:
    return TableError(
        f"{ENDS} of the table {what}",
        "only `pyrmq pipeline table` may write this property: restore it, or write another table",
    )


def ends_of(table: Any) -> Ends | None:
    """What a pyiceberg Table has, at its current snapshot; None if it was never written by pyrmq.

    Of the newest ancestor of the current snapshot whose summary says it. If the ancestors are
    expired: of those that earlier metadata files have, and without these of the table's property,
    which the last commit set. A table that was rolled back has the ends of the snapshot that it was
    rolled back to, and the property may be of a later one."""
    if table.current_snapshot() is None:
        return None
    found = summary_of(table)
    if found is None and ENDS in table.properties:
        found = _expired(table) or table.properties
    return None if found is None else Ends.from_json(found[ENDS])


def summary_of(table: Any) -> Mapping[str, str] | None:
    """The summary of the newest ancestor of the current snapshot that has ends; None: none has."""
    for snapshot in ancestors(table):
        said = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if ENDS in said:
            summary: Mapping[str, str] = said
            return summary
    return None


def _expired(table: Any) -> Mapping[str, str] | None:
    """The same of the ancestors that were expired, as earlier metadata files have them."""
    from pyiceberg.serializers import FromInputFile

    # An expiry may have removed the id of the parent, too: the last one known is looked up first.
    at = list(ancestors(table))[-1].snapshot_id
    for entry in reversed(table.metadata.metadata_log):
        try:
            earlier = FromInputFile.table_metadata(table.io.new_input(entry.metadata_file))
        except FileNotFoundError:
            continue
        by_id = {one.snapshot_id: one for one in earlier.snapshots}
        while (one := by_id.pop(at, None)) is not None:
            if one.summary is not None and ENDS in one.summary.additional_properties:
                said: Mapping[str, str] = one.summary.additional_properties
                return said
            if one.parent_snapshot_id is not None:
                at = one.parent_snapshot_id
    return None


def ancestors(table: Any) -> Iterator[Any]:
    """The current snapshot of a table and those before it, as far as they are not expired."""
    by_id = {one.snapshot_id: one for one in table.metadata.snapshots}
    return line(by_id, table.metadata.current_snapshot_id)


def line(by_id: Mapping[int, Any], head: int | None) -> Iterator[Any]:
    """A snapshot and those that it comes from, as far as they are there."""
    left = dict(by_id)
    at = head
    while at is not None and (found := left.pop(at, None)) is not None:
        yield found
        at = found.parent_snapshot_id
