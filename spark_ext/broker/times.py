"""Queue offsets of store times, as brokers find them.

A broker's answer is the nearest message where none is of exactly that time: before RocketMQ 5.0 it
may be the one before, also behind the last one. So the message that is named is looked at.
[DefaultMessageStore.getOffsetInQueueByTime, ConsumeQueue.getOffsetInQueueByTime]
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from pyrmq.engine import Command
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.net.client.protocol import Ext
from pyrmq.net.client.requests import PullStatus, pull_fields, read_pull
from pyrmq.net.command import check_success, number
from pyrmq.segments.offsets import QueueTimes, entries, later_than_all
from pyrmq.segments.selection import Selection
from spark_ext.broker.cluster import Cluster

Bounds = Mapping[MessageQueue, tuple[int, int]]
_SYS_FLAG = struct.Struct(">i")
_SYS_FLAG_AT, _BORN_HOST_AT = 36, 48
_BORN_HOST_V6 = 0x10
_TIME = struct.Struct(">q")


def starts(cluster: Cluster, selection: Selection, bounds: Bounds) -> dict[MessageQueue, int]:
    """Where each queue starts by `starting_times`; OffsetOutOfRangeError for a time that is later
    than every message it is for, unless the strategy says otherwise."""
    times = selection.starting_times or {}
    chosen = _times_of(times, bounds)
    found = offsets_at(cluster, chosen, bounds)
    if selection.timestamp_strategy == "error":
        for entry in entries(times):
            own = [q for q in chosen if entry.covers(q.topic, q.broker_name, q.queue_id)]
            if all(found[q] >= bounds[q][1] for q in own):
                raise later_than_all(entry)
    return {q: found.get(q, least) for q, (least, _) in bounds.items()}


def ends(cluster: Cluster, selection: Selection, bounds: Bounds) -> dict[MessageQueue, int]:
    """Where each queue ends by `ending_times`, exclusive."""
    found = offsets_at(cluster, _times_of(selection.ending_times or {}, bounds), bounds)
    return {q: found.get(q, most) for q, (_, most) in bounds.items()}


def _times_of(times: QueueTimes, bounds: Bounds) -> dict[MessageQueue, int]:
    return {
        queue: entry.time
        for entry in entries(times)
        for queue in bounds
        if entry.covers(queue.topic, queue.broker_name, queue.queue_id)
    }


def offsets_at(
    cluster: Cluster, times: Mapping[MessageQueue, int], bounds: Bounds
) -> dict[MessageQueue, int]:
    """Of each queue the offset of its first message of that time or later; its end without one."""

    def search(queue: MessageQueue) -> tuple[int, Ext]:
        place: Ext = {
            "topic": queue.topic,
            "queueId": queue.queue_id,
            "bname": queue.broker_name,
            "timestamp": times[queue],
        }
        return RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, place

    answers = cluster.ask_queues(list(times), search, check_success)
    found = {
        queue: min(max(number(answer, "offset"), bounds[queue][0]), bounds[queue][1])
        for queue, answer in answers.items()
    }

    def look(queue: MessageQueue) -> tuple[int, Ext]:
        fields = pull_fields(
            queue.topic, queue.queue_id, found[queue], 1, broker=queue.broker_name, expression="*"
        )
        return RequestCode.PULL_MESSAGE, fields

    inside = [queue for queue, offset in found.items() if offset < bounds[queue][1]]
    for queue, answer in cluster.ask_queues(inside, look, lambda given: given).items():
        stored = _store_time(answer)
        if stored is not None and stored < times[queue]:
            found[queue] += 1
    return found


def _store_time(answer: Command) -> int | None:
    """Of the first message of an answer to a pull; None if it has none."""
    pulled = read_pull(answer)
    if pulled.status is not PullStatus.FOUND or len(pulled.body) < _BORN_HOST_AT + 28:
        return None
    (flag,) = _SYS_FLAG.unpack_from(pulled.body, _SYS_FLAG_AT)
    host = 20 if flag & _BORN_HOST_V6 else 8
    return int(_TIME.unpack_from(pulled.body, _BORN_HOST_AT + host)[0])
