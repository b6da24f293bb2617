"""Watches consumer groups: how far they are, and how their members run."""

from __future__ import annotations

from pyrmq.admin.link import AdminLink
from pyrmq.admin.monitoring.metrics import METRICS, Part
from pyrmq.admin.monitoring.names import TopicNames
from pyrmq.admin.monitoring.progress import progress
from pyrmq.admin.monitoring.rounds import Round, Turn
from pyrmq.admin.monitoring.running import running
from pyrmq.errors import ClientError
from pyrmq.model.names import retry_topic


class GroupWatcher:
    """Each group that has a retry topic, of which one broker of each name is asked."""

    name = "groups"

    def __init__(self, link: AdminLink, names: TopicNames) -> None:
        self._link = link
        self._names = names
        self._turn = Turn()

    async def watch(self, round_: Round) -> None:
        groups = await self._names.groups(round_)
        asks_members = any(
            round_.settings.watches(m.name) for m in METRICS.values() if m.part is Part.RUNNING
        )
        round_.listed((Part.PROGRESS, Part.RUNNING), groups)

        async def one(group: str) -> None:
            brokers = await self._link.brokers_of(retry_topic(group))
            if not brokers:
                raise ClientError("no broker has its retry topic")
            waiting = await progress(self._link, group, brokers, round_)
            if asks_members:
                await running(self._link, group, brokers, waiting, round_)

        await round_.each(groups, "group", one, self._turn)
