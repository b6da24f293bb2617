"""Names of topics and ends of queues: asked once in a round, whoever needs them."""

from __future__ import annotations

from dataclasses import dataclass

import trio

from pyrmq.admin import values
from pyrmq.admin.consume_stats import group_of_retry_topic
from pyrmq.admin.link import AdminLink
from pyrmq.admin.monitoring.rounds import Round
from pyrmq.admin.outcome import Outcomes
from pyrmq.errors import ClientError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import DLQ_PREFIX, RETRY_PREFIX


class TopicNames:
    """The topics of a round, for all who want them."""

    def __init__(self, link: AdminLink) -> None:
        self._link = link
        self._lock = trio.Lock()
        self._round = 0
        self._names: set[str] = set()

    async def of(self, round_: Round) -> set[str]:
        """PyrmqError if no name server can tell; also if it knows none, as one that has just
        started: nothing is gone because of that."""
        async with self._lock:
            if self._round != round_.number:
                names = await self._link.topics()
                if not names:
                    raise ClientError("the name server knows no topic: has it just started?")
                self._names, self._round = names, round_.number
            return self._names

    async def groups(self, round_: Round) -> set[str]:
        """The groups that have a retry topic, as far as they are watched."""
        return _groups(await self.of(round_), RETRY_PREFIX, round_)

    async def dead_letters(self, round_: Round) -> set[str]:
        """The groups that have a topic of dead letters, as far as they are watched."""
        return _groups(await self.of(round_), DLQ_PREFIX, round_)


def _groups(names: set[str], prefix: str, round_: Round) -> set[str]:
    wants = round_.settings.watched.wants
    found = set()
    for name in names:
        if name.startswith(prefix):
            plain = prefix == DLQ_PREFIX
            group = name[len(prefix) :] if plain else group_of_retry_topic(name)
            if group and wants(group):
                found.add(group)
    return found


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """The offset of the next message; when the newest was stored, ms since 1970, 0 if unknown."""

    offset: int
    updated: int


async def queue_ends(link: AdminLink, topic: str) -> Outcomes[dict[MessageQueue, QueueEnd]]:
    """Of each broker name of the topic's route. TopicNotExistError. [GET_TOPIC_STATS_INFO]"""

    async def one(address: str) -> dict[MessageQueue, QueueEnd]:
        answer = await link.ask_json(address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})
        return {
            queue: QueueEnd(
                max(values.number(row, "maxOffset"), 0), values.number(row, "lastUpdateTimestamp")
            )
            for queue, row in values.by_queue(values.table(answer, "offsetTable"))
            if isinstance(row, dict)
        }

    return await link.on_each(await link.brokers_of(topic), one)
