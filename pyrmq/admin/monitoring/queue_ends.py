"""Where the queues of a topic end, and when their newest messages were stored."""

from __future__ import annotations

from dataclasses import dataclass

from pyrmq.admin import values
from pyrmq.admin.link import AdminLink
from pyrmq.admin.outcome import Outcomes
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue


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
