"""Which topics were deleted, as long as the log has messages of theirs."""

from __future__ import annotations

from typing import Any

from pyrmq.engine import Store
from pyrmq.model.topic import as_int

MAX_DELETED = 4096
"""Names that are kept; the oldest go first."""


class DeletedTopics:
    """A start after a crash reads the end of the log again and may bring back queues of a topic
    that was deleted. By this table, which is kept in topics.json, they are known for what they are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ends: dict[str, int] = {}
        """Where the log ended when the topic was deleted."""

    def __contains__(self, topic: str) -> bool:
        return topic in self._ends

    def load(self, value: Any) -> None:
        """Takes what `to_json` gave."""
        table = value if isinstance(value, dict) else {}
        self._ends = {str(topic): as_int(end, 0) for topic, end in table.items()}

    def add(self, topic: str) -> None:
        stats = self._store.stats()
        kept = [(name, end) for name, end in self._ends.items() if end > stats["minPhyOffset"]]
        self._ends = dict(kept[1 - MAX_DELETED :])
        self._ends[topic] = stats["maxPhyOffset"]

    def discard(self, topic: str) -> None:
        """The topic was made again."""
        self._ends.pop(topic, None)

    def to_json(self) -> dict[str, int]:
        return dict(self._ends)
