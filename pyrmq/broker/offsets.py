"""How far groups have consumed: config/consumerOffset.json. [ConsumerOffsetManager]"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyrmq.broker import config_file
from pyrmq.broker.rows import Rows
from pyrmq.broker.tables import PersistentTable
from pyrmq.engine import PullGrants
from pyrmq.errors import NoPermissionError
from pyrmq.model.names import TRANSACTION_GROUP
from pyrmq.model.topic import DataVersion, as_int
from pyrmq.net.clock import now_ms

QueueOfGroup = tuple[str, str, int]
"""Topic, group and queue."""
Granted = Callable[[str, str, int, int, int], None]
"""Called with topic, group, pulls, messages and bytes."""


def _not_counted(topic: str, group: str, pulls: int, messages: int, nbytes: int) -> None:
    pass


class OffsetTable(PersistentTable):
    """Next offset to consume by (topic, group) and queue."""

    def __init__(self, path: Path, version_step: int, grants: PullGrants | None = None) -> None:
        """`grants`: pulls that the engine answers; what they commit is taken before anything is
        read or changed here."""
        super().__init__(path)
        self._grants = grants
        self.on_granted: Granted = _not_counted
        """Told of the pulls that the engine has answered."""
        self._step = max(version_step, 1)
        self._updates = 0
        self.offsets: dict[tuple[str, str], dict[int, int]] = {}
        self._topics: dict[str, list[str]] = {}
        """The topics that a group has offsets of."""
        self.resets: dict[QueueOfGroup, int] = {}
        """Offsets that an operator set, until the group pulls from there. What it commits before
        does not count."""
        self._pulled: dict[QueueOfGroup, int] = {}
        """Where the next pull of a group is expected."""
        self._offset_rows = Rows(self._offset_row)
        self._topic_rows = Rows(self._topic_row)
        value = config_file.load(path)
        self.version = DataVersion.from_json(value.get("dataVersion"))
        table = value.get("offsetTable")
        for key, queues in (table if isinstance(table, dict) else {}).items():
            topic, sep, group = str(key).partition("@")
            if sep and isinstance(queues, dict):
                self._queues(topic, group).update(
                    (as_int(q, -1), as_int(offset, 0)) for q, offset in queues.items()
                )

    def _offset_row(self, key: tuple[str, str]) -> bytes:
        return config_file.row("@".join(key), self.offsets[key])

    def _topic_row(self, group: str) -> bytes:
        return config_file.row(group, self._topics[group])

    def _queues(self, topic: str, group: str) -> dict[int, int]:
        """The offsets of a group, for the caller to change now."""
        key = (topic, group)
        self._offset_rows.change(key)
        queues = self.offsets.get(key)
        if queues is None:
            self._topic_rows.change(group)
            self._topics.setdefault(group, []).append(topic)
            queues = self.offsets[key] = {}
        return queues

    def take_granted(self) -> None:
        """Takes what the engine's answers to pulls have committed. Everything in this table comes
        after it."""
        if self._grants is None:
            return
        for topic, group, queue_id, following, commit, *counts in self._grants.drain():
            self._pulled[topic, group, queue_id] = following
            self.on_granted(topic, group, *counts)
            if commit is not None:
                self._keep_unless_reset(topic, group, queue_id, commit)

    def pulled(self, key: QueueOfGroup, following: int) -> None:
        """A pull was answered; `following`: where the next one is expected."""
        self._pulled[key] = following

    def next_pull(self, topic: str, group: str, queue_id: int) -> int:
        """Where the next pull is expected, 0 if there was none."""
        self.take_granted()
        return self._pulled.get((topic, group, queue_id), 0)

    def query(self, topic: str, group: str, queue_id: int) -> int | None:
        self.take_granted()
        return self.offsets.get((topic, group), {}).get(queue_id)

    def all_of(self, topic: str, group: str) -> Mapping[int, int]:
        """The offsets of a group by queue."""
        self.take_granted()
        return self.offsets.get((topic, group), {})

    def topics_of(self, group: str) -> list[str]:
        """Topics that a group has an offset of."""
        self.take_granted()
        return sorted(self._topics.get(group, ()))

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have an offset of this topic."""
        self.take_granted()
        return sorted(group for name, group in self.offsets if name == topic)

    def commit(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Stores a client's offset as it is; going back is a consumer's right."""
        self._check_group(group)
        self.take_granted()
        self._keep_unless_reset(topic, group, queue_id, offset)

    def _keep_unless_reset(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        if not self.resets or (topic, group, queue_id) not in self.resets:
            self.keep(topic, group, queue_id, offset)

    def reset(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Sets an offset by an operator's word; the group's next pull is sent there."""
        self._check_group(group)
        self.take_granted()
        self.keep(topic, group, queue_id, offset)
        self.resets[topic, group, queue_id] = offset
        if self._grants is not None:
            self._grants.revoke()

    def moved(self, key: QueueOfGroup, offset: int) -> int | None:
        """Where a pull from `offset` has to begin instead, None if it is right. A pull may be of a
        client that has not heard of the reset, or whose answer is lost: each is told."""
        reset = self.resets.get(key)
        if reset == offset:
            del self.resets[key]
            return None
        return reset

    def _check_group(self, group: str) -> None:
        if group == TRANSACTION_GROUP:
            raise NoPermissionError(f"the offsets of {group} are the broker's own")

    def keep(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Stores an offset, whoever it is of."""
        if self.offsets.get((topic, group), {}).get(queue_id) == offset:
            return
        self._queues(topic, group)[queue_id] = offset
        self._updates += 1
        if self._updates % self._step == 0:
            self.version.next(now_ms())
        self.changed()

    async def save_if_changed(self) -> None:
        self.take_granted()
        await super().save_if_changed()

    def to_json(self) -> dict[str, Any]:
        return {
            "dataVersion": self.version.to_json(),
            "groupTopicMap": self._topic_rows.freeze(),
            "offsetTable": self._offset_rows.freeze(),
        }
