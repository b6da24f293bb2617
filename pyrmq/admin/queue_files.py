"""Entries of a consume queue, and messages of a compaction log, as they stand in their files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyrmq.admin import values
from pyrmq.admin.link import Part
from pyrmq.errors import ClientError, ProtocolError
from pyrmq.model.codes import RequestCode
from pyrmq.model.record import ReceivedMessage, decode_record
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


MAX_RECORD = 64 << 20
"""Most bytes of a message that is read. RocketMQ's brokers take 4 MiB unless told otherwise."""


def messages_of(path: str | Path) -> Iterator[ReceivedMessage]:
    """The messages of a file in order, up to its end, to blanks, or to what is no message; bodies
    stay compressed. The file is only read. OSError; ProtocolError, which says where, for a file
    that goes on with what is no message."""
    with Path(path).open("rb") as file:
        end = os.fstat(file.fileno()).st_size
        at = 0
        while at + 4 <= end:
            head = file.read(4)
            size = int.from_bytes(head, "big", signed=True)
            if size == 0:  # not written yet
                return
            if not 4 < size <= min(MAX_RECORD, end - at):
                raise ProtocolError(f"no message at byte {at}: {size} bytes cannot be one")
            record = head + file.read(size - 4)
            try:
                yield decode_record(record, inflate_body=False)
            except ProtocolError as e:
                raise ProtocolError(f"no message at byte {at}: {e}") from None
            at += size
