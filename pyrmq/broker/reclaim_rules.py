"""How far each queue is done with, for the deletion of files before their time. Pure functions.

A message may be deleted early once nobody can ask for it any more: a table has it (reclaimGroup),
and all groups that consume the topic have consumed it. The broker's own topics have readers of
their own: half and op messages are done as far as transactions are settled, delayed messages as far
as they are delivered, records of POP as far as they are judged. Messages to retry are their
group's. What nobody has said anything of is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyrmq.model.names import (
    HALF_TOPIC,
    OP_TOPIC,
    OWN_OFFSETS,
    RETRY_PREFIX,
    REVIVE_GROUP,
    REVIVE_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANSACTION_GROUP,
    is_system_group,
)

ALL = 1 << 62
"""An offset: nothing of the queue is needed."""
OTHERS = None
"""In place of a queue id: all other queues of the topic."""
Row = tuple[str, int | None, int]
"""Topic, queue id or OTHERS, and the queue offset before which nothing is needed."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Who has to be done with a message. `what`: for operators. `offsets`: by queue id; in queues
    that it does not have it has read `otherwise`."""

    what: str
    offsets: Mapping[int, int]
    otherwise: int = 0

    def at(self, queue_id: int) -> int:
        return self.offsets.get(queue_id, self.otherwise)


@dataclass(frozen=True, slots=True)
class Known:
    """What the broker knows of readers.

    table_group: reclaimGroup. without_table: patterns of topics that need no table.
    groups_of: the groups that have offsets of a topic; offsets_of: a topic's offsets of a group.
    waiting: by topic the groups with connected members that subscribe to it.
    delays: by level, from the first, the offset up to which all is delivered.
    """

    table_group: str
    without_table: Collection[str]
    groups_of: Callable[[str], Iterable[str]]
    offsets_of: Callable[[str, str], Mapping[int, int]]
    waiting: Mapping[str, Collection[str]] = field(default_factory=dict)
    delays: Sequence[int] = ()

    def readers(self, topic: str) -> list[Reader]:
        """Everybody who has to be done with the messages of a topic."""
        if topic == TIMER_TOPIC:
            return []  # the engine says what of it is needed
        if topic == SCHEDULE_TOPIC:
            return [Reader("delayed messages that wait", dict(enumerate(self.delays)))]
        if topic in (HALF_TOPIC, OP_TOPIC):
            of = self.offsets_of(topic, TRANSACTION_GROUP)
            return [Reader("transactions that are not settled", of)]
        if topic.startswith(REVIVE_PREFIX):
            of = self.offsets_of(topic, REVIVE_GROUP)
            return [Reader("popped messages that are not settled", of)]
        groups = [g for g in self.groups_of(topic) if self._counts(g)]
        consumers = [
            Reader(f"group {g}, which has not consumed it", self.offsets_of(topic, g))
            for g in groups
        ]
        consumers += [
            Reader(f"group {g}, which is connected and has committed nothing", {})
            for g in self.waiting.get(topic, ())
            if g not in groups and self._counts(g)
        ]
        return self._owners(topic, groups) + consumers

    def _counts(self, group: str) -> bool:
        return group != self.table_group and group not in OWN_OFFSETS and not is_system_group(group)

    def _owners(self, topic: str, groups: Collection[str]) -> list[Reader]:
        """Who has to have read a topic although nobody may consume it."""
        if self.needs_no_table(topic):
            return []
        if topic.startswith(RETRY_PREFIX):
            if any(is_retry_of(topic, group) for group in groups):
                return []
            return [Reader("the group of these messages to retry, which has not consumed them", {})]
        of = self.offsets_of(topic, self.table_group)
        return [Reader(f"no table has it yet (group {self.table_group})", of)]

    def needs_no_table(self, topic: str) -> bool:
        return any(
            topic.startswith(name[:-1]) if name.endswith("*") else topic == name
            for name in self.without_table
        )

    def rows(self, topic: str) -> list[Row]:
        """How far the queues of a topic are done with."""
        readers = self.readers(topic)
        if not readers:
            return [(topic, OTHERS, ALL)]
        queues = {queue_id for reader in readers for queue_id in reader.offsets}
        rows: list[Row] = [
            (topic, queue_id, min(reader.at(queue_id) for reader in readers))
            for queue_id in sorted(queues)
            if queue_id >= 0
        ]
        rows.append((topic, OTHERS, min(reader.otherwise for reader in readers)))
        return rows

    def why(self, topic: str, queue_id: int) -> str:
        """Who keeps the first message of a queue that is needed."""
        readers = self.readers(topic)
        last = min(readers, key=lambda reader: reader.at(queue_id), default=None)
        what = "nobody" if last is None else last.what
        return f"topic {topic}, queue {queue_id}: {what}"


def is_retry_of(topic: str, group: str) -> bool:
    """Whether a topic has the messages that a group is to consume again. Retry topics of POP have
    the topic behind the group. [KeyBuilder]"""
    name = RETRY_PREFIX + group
    return topic == name or topic.startswith((name + "+", name + "_"))
