"""Watches what comes to the dead letters of groups."""

from __future__ import annotations

from pyrmq.admin.link import AdminLink
from pyrmq.admin.monitoring.metrics import Part
from pyrmq.admin.monitoring.names import TopicNames
from pyrmq.admin.monitoring.queue_ends import queue_ends
from pyrmq.admin.monitoring.rounds import Round, Turn, causes
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import DLQ_PREFIX


class DeadLetterWatcher:
    """Compares where the queues of `%DLQ%` topics end with the round before. What was there when
    it began does not count; a topic that came since then counts from its first message."""

    name = "dead letters"

    def __init__(self, link: AdminLink, names: TopicNames) -> None:
        self._link = link
        self._names = names
        self._turn = Turn()
        self._ends: dict[str, dict[MessageQueue, int]] = {}
        self._old: set[str] | None = None
        """Groups that had dead letters at the beginning, and were not asked yet."""

    async def watch(self, round_: Round) -> None:
        groups = await self._names.dead_letters(round_)
        round_.listed((Part.DEAD_LETTERS,), groups)
        if self._old is None:
            self._old = set(groups)
        for group in self._ends.keys() - groups:
            del self._ends[group]
        old = self._old

        async def one(group: str) -> None:
            await self._one(group, round_, old)

        await round_.each(groups, "dead letters of", one, self._turn)

    async def _one(self, group: str, round_: Round, old: set[str]) -> None:
        asked = await queue_ends(self._link, DLQ_PREFIX + group)
        before = self._ends.setdefault(group, {})
        first = group in old
        growth = 0
        for part in asked.values:
            for queue, end in part.items():
                if queue in before or not first:
                    growth += max(end.offset - before.get(queue, 0), 0)
                before[queue] = end.offset
        partial = bool(asked.failed)
        if growth or not first:
            round_.figure("dlq_growth", growth, group=group, partial=partial)
        if asked.failed:
            round_.problem(f"dead letters of {group}", *causes(asked.failed))
            return
        old.discard(group)
        if not first:
            round_.seen(Part.DEAD_LETTERS, group)
