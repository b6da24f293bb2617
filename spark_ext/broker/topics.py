"""Which queues of a cluster a selection means, and where in them it starts and ends."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyrmq.errors import (
    DataLossError,
    OffsetOutOfRangeError,
    SegmentOptionError,
    TopicNotExistError,
    UnknownTopicError,
)
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.segments.offsets import EARLIEST, LATEST, QueueOffsets, QueueTimes, entries, shown
from pyrmq.segments.selection import Selection, unknown_topic
from spark_ext.broker import times
from spark_ext.broker.cluster import Cluster

log = logging.getLogger(__name__)

Bounds = dict[MessageQueue, tuple[int, int]]


def find_queues(
    cluster: Cluster,
    selection: Selection,
    *,
    may_come: bool,
    all_assigned: bool = False,
    absent: Callable[[UnknownTopicError], None] | None = None,
) -> list[MessageQueue]:
    """All queues that are meant and there. UnknownTopicError and SegmentOptionError for what is
    named but not there, unless it `may_come`, as in a stream; `absent` is told of such topics.
    `all_assigned`: a queue of `assign` that is not there, of a topic that is, is an error always.
    """
    out: list[MessageQueue] = []
    for topic in _topics(cluster, selection):
        try:
            queues = cluster.route(topic, fresh=True).subscribe_queues(topic)
        except TopicNotExistError:
            if selection.named_topics is not None and not may_come:
                raise _unknown(topic, cluster) from None
            if selection.named_topics is not None and absent is not None:
                absent(_unknown(topic, cluster))
            continue
        if not queues and selection.named_topics is not None and not may_come:
            raise SegmentOptionError(
                f"topic {topic} cannot be read: no broker lets consumers read it",
                "its perm needs the bit 4",
            )
        if selection.assign is not None:
            queues = _assigned(selection, topic, queues, may_come and not all_assigned)
        elif selection.queues:
            queues = [q for q in queues if q.queue_id in selection.queues]
        out += queues
    return sorted(out)


def _unknown(topic: str, cluster: Cluster) -> UnknownTopicError:
    return unknown_topic(topic, cluster.topics(), "the cluster")


def _topics(cluster: Cluster, selection: Selection) -> list[str]:
    if selection.named_topics is not None:
        return list(selection.named_topics)
    known = {topic for topic in cluster.topics() if selection.selects(topic)}
    if not selection.include_system_topics:
        clusters, brokers = cluster.names()
        known -= clusters | brokers | {f"{name}_REPLY_TOPIC" for name in clusters}
    return sorted(known)


def _assigned(
    selection: Selection, topic: str, queues: list[MessageQueue], may_come: bool
) -> list[MessageQueue]:
    assert selection.assign is not None
    there = set(queues)
    out = []
    for broker, ids in selection.assign[topic].items():
        for queue_id in ids:
            queue = MessageQueue(topic, broker, queue_id)
            if queue in there:
                out.append(queue)
            elif not may_come:
                raise _no_such_queue("assign", queue, queues)
    return out


def _no_such_queue(
    option: str, queue: MessageQueue, there: list[MessageQueue]
) -> SegmentOptionError:
    counts: dict[str, int] = {}
    for other in there:
        if other.topic == queue.topic:
            counts[other.broker_name] = counts.get(other.broker_name, 0) + 1
    shown = ", ".join(f"{name} with {n} queues" for name, n in sorted(counts.items()))
    return SegmentOptionError(
        f"{option}: there is no queue {queue.queue_id} of topic {queue.topic} on broker "
        f"{queue.broker_name}",
        f"the topic can be read on {shown}" if shown else "no broker has the topic for reading",
    )


def starts(
    cluster: Cluster,
    selection: Selection,
    bounds: Bounds,
    *,
    fail_on_data_loss: bool,
) -> dict[MessageQueue, int]:
    """Where each queue of `bounds` is read from."""
    if selection.start_time is not None:
        return _by_time(cluster, selection, bounds)
    if selection.starting_times is not None:
        check_times(selection.starting_times, "startingOffsetsByTimestamp", selection, bounds)
        return times.starts(cluster, selection, bounds)
    if isinstance(selection.starting_offsets, str):
        at = 0 if selection.starting_offsets == "earliest" else 1
        return {queue: ends[at] for queue, ends in bounds.items()}
    named = _named(selection, selection.starting_offsets, "startingOffsets", bounds)
    out = {}
    for queue, (least, most) in bounds.items():
        offset = named.get(queue, EARLIEST)
        if offset > most:
            raise _beyond("startingOffsets", queue, offset, least, most)
        if 0 <= offset < least:
            text = f"startingOffsets names {offset} for {place(queue)}, which now starts at {least}"
            if fail_on_data_loss:
                raise DataLossError(text)
            log.warning("%s: starting there", escape(text))
        out[queue] = most if offset == LATEST else max(offset, least)
    return out


def ends(cluster: Cluster, selection: Selection, bounds: Bounds) -> dict[MessageQueue, int]:
    """Where each queue's reading ends, exclusive. By time it may be a message late: tasks compare
    store times, and brokers before 5.0 name the nearest message, which may be the last to read."""
    if selection.end_time is not None:
        found = cluster.offsets(
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, list(bounds), timestamp=selection.end_time
        )
        return {q: min(max(found[q] + 1, least), most) for q, (least, most) in bounds.items()}
    if selection.ending_times is not None:
        check_times(selection.ending_times, "endingOffsetsByTimestamp", selection, bounds)
        return times.ends(cluster, selection, bounds)
    if isinstance(selection.ending_offsets, str):
        return {queue: most for queue, (_, most) in bounds.items()}
    named = _named(selection, selection.ending_offsets, "endingOffsets", bounds)
    out = {}
    for queue, (least, most) in bounds.items():
        offset = named.get(queue, LATEST)
        if offset > most:
            raise _beyond("endingOffsets", queue, offset, least, most)
        out[queue] = most if offset == LATEST else offset
    return out


def place(queue: MessageQueue) -> str:
    return f"topic {queue.topic}, broker {queue.broker_name}, queue {queue.queue_id}"


def _by_time(cluster: Cluster, selection: Selection, bounds: Bounds) -> dict[MessageQueue, int]:
    time = selection.start_time
    assert time is not None
    found = cluster.offsets(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, list(bounds), timestamp=time)
    out = {q: min(max(found[q], least), most) for q, (least, most) in bounds.items()}
    late = all(out[q] == most for q, (_, most) in bounds.items())
    there = any(most > least for least, most in bounds.values())
    if late and there and selection.timestamp_strategy == "error":
        raise OffsetOutOfRangeError(
            f"startingTimestamp {shown(time)} is later than every message",
            "startingOffsetsByTimestampStrategy=latest starts at the end in this case",
        )
    return out


def _named(
    selection: Selection, offsets: QueueOffsets, option: str, bounds: Bounds
) -> dict[MessageQueue, int]:
    out = {}
    for topic, brokers in offsets.items():
        _check_selected(option, topic, selection)
        for broker, of_broker in brokers.items():
            for queue_id, offset in of_broker.items():
                queue = MessageQueue(topic, broker, queue_id)
                if queue not in bounds:
                    raise _no_such_queue(option, queue, list(bounds))
                out[queue] = offset
    return out


def check_times(named: QueueTimes, option: str, selection: Selection, bounds: Bounds) -> None:
    """SegmentOptionError for a topic that is not selected, and queues that are not there."""
    there = list(bounds)
    for entry in entries(named):
        _check_selected(option, entry.topic, selection)
        if not any(entry.covers(q.topic, q.broker_name, q.queue_id) for q in there):
            if entry.broker is not None and entry.queue is not None:
                queue = MessageQueue(entry.topic, entry.broker, entry.queue)
                raise _no_such_queue(option, queue, there)
            raise SegmentOptionError(f"{option}: there is no queue of {entry} to be read")


def _check_selected(option: str, topic: str, selection: Selection) -> None:
    if not selection.selects(topic):
        raise SegmentOptionError(
            f"{option} names topic {topic!r}, which is not selected",
            "leave it out, or select the topic too",
        )


def _beyond(
    option: str, queue: MessageQueue, offset: int, least: int, most: int
) -> OffsetOutOfRangeError:
    return OffsetOutOfRangeError(
        f"{option} names {offset} for {place(queue)}, which has {least} to {most}",
        "an offset may be at most the queue's end",
    )
