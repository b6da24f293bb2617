"""Entries of a consume queue, as they stand in its file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyrmq.admin import values
from pyrmq.admin.link import Part
from pyrmq.errors import ClientError
from pyrmq.model.codes import RequestCode
from pyrmq.net import fastjson


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One entry. `evaluated`, `bit_map`, `extension`, `message`: what the broker says of the
    filter of a group, absent where it says nothing. [ConsumeQueueData]"""

    index: int
    phys: int
    """Where the message is in the commit log."""
    size: int
    """Bytes of the message."""
    tags_code: int
    extension: str | None = None
    bit_map: str | None = None
    evaluated: bool = False
    message: str | None = None


@dataclass(frozen=True, slots=True)
class QueueEntries:
    """A part of a queue that has entries from `low` to before `high`. `subscription` and `filter`:
    of a group that was asked for."""

    broker: str
    low: int
    high: int
    entries: list[QueueEntry]
    subscription: dict[str, Any] | None = None
    filter: str | None = None


class QueueIndex(Part):
    """The part of `admin.messages` that shows entries of queues."""

    async def queue_entries(
        self,
        topic: str,
        queue_id: int,
        index: int,
        count: int = 10,
        *,
        broker: str | None = None,
        group: str | None = None,
    ) -> QueueEntries:
        """`count` entries from `index` on, of a broker (`host:port`), or of the first master of the
        topic's route. TopicNotExistError; ClientError if there is none at `index`.
        [QUERY_CONSUME_QUEUE]"""
        if broker is None:
            found = await self._link.brokers_of(topic)
            if not found:
                raise ClientError(f"no broker has topic {topic} now")
            broker = found[0].address
        ext: dict[str, Any] = {
            "topic": topic, "queueId": queue_id, "index": index, "count": count,
            **({"consumerGroup": group} if group else {}),
        }  # fmt: skip
        answer = await self._link.ask(broker, RequestCode.QUERY_CONSUME_QUEUE, ext)
        if not answer.body:
            raise ClientError(f"{broker}: {answer.remark or 'it has no such entry'}")
        body = fastjson.loads_object(answer.body)
        subscription = values.table(body, "subscriptionData")
        return QueueEntries(
            broker,
            values.number(body, "minQueueIndex"),
            values.number(body, "maxQueueIndex"),
            [
                QueueEntry(
                    index + at, values.number(row, "physicOffset"),
                    values.number(row, "physicSize"), values.number(row, "tagsCode"),
                    _text(row, "extendDataJson"), _text(row, "bitMap"), values.truth(row, "eval"),
                    _text(row, "msg"),
                )
                for at, row in enumerate(values.objects(body, "queueData"))
            ],
            {str(k): v for k, v in subscription.items()} or None,
            _text(body, "filterData"),
        )  # fmt: skip


def _text(row: dict[Any, Any], name: str) -> str | None:
    found = row.get(name)
    return None if found is None else str(found)
