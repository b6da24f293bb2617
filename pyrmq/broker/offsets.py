"""How far groups have consumed: config/consumerOffset.json. [ConsumerOffsetManager]"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyrmq.broker import config_file
from pyrmq.broker.tables import PersistentTable
from pyrmq.errors import NoPermissionError
from pyrmq.model.names import TRANSACTION_GROUP
from pyrmq.model.topic import DataVersion, as_int
from pyrmq.net.clock import now_ms


class OffsetTable(PersistentTable):
    """Next offset to consume by (topic, group) and queue."""

    def __init__(self, path: Path, version_step: int) -> None:
        super().__init__(path)
        self._step = max(version_step, 1)
        self._updates = 0
        self.offsets: dict[tuple[str, str], dict[int, int]] = {}
        value = config_file.load(path)
        self.version = DataVersion.from_json(value.get("dataVersion"))
        table = value.get("offsetTable")
        for key, queues in (table if isinstance(table, dict) else {}).items():
            topic, sep, group = str(key).partition("@")
            if sep and isinstance(queues, dict):
                self.offsets[topic, group] = {
                    as_int(q, -1): as_int(offset, 0) for q, offset in queues.items()
                }

    def query(self, topic: str, group: str, queue_id: int) -> int | None:
        return self.offsets.get((topic, group), {}).get(queue_id)

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have an offset of this topic."""
        return sorted(group for name, group in self.offsets if name == topic)

    def commit(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Stores a client's offset as it is; going back is a consumer's right."""
        if group == TRANSACTION_GROUP:
            raise NoPermissionError(f"the offsets of {group} are the broker's own")
        self.keep(topic, group, queue_id, offset)

    def keep(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Stores an offset, whoever it is of."""
        queues = self.offsets.setdefault((topic, group), {})
        if queues.get(queue_id) == offset:
            return
        queues[queue_id] = offset
        self._updates += 1
        if self._updates % self._step == 0:
            self.version.next(now_ms())
        self.changed()

    def to_json(self) -> dict[str, Any]:
        by_group: dict[str, list[str]] = {}
        for topic, group in self.offsets:
            by_group.setdefault(group, []).append(topic)
        return {
            "dataVersion": self.version.to_json(),
            "groupTopicMap": by_group,
            "offsetTable": {f"{t}@{g}": dict(q) for (t, g), q in self.offsets.items()},
        }
