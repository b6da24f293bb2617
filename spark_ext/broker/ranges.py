"""Arithmetic of queue offsets: positions of a stream, fair shares of a limit, ranges into tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pyrmq.errors import CheckpointError
from pyrmq.model.message import MessageQueue
from spark_ext.broker.pull import QueueRange

Offsets = Mapping[MessageQueue, int]
Position = dict[str, Any]
"""{"version": 1, "queues": {topic: {broker: {"queue id": next offset}}}}, keys sorted."""

VERSION = 1
SMALL_TASK = 10_000
"""Messages: ranges of one broker share a task up to this."""


def to_position(offsets: Offsets) -> Position:
    """What Spark writes into the checkpoint: the same text for the same offsets."""
    queues: dict[str, dict[str, dict[str, int]]] = {}
    for queue in sorted(offsets):
        of_broker = queues.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})
        of_broker[str(queue.queue_id)] = offsets[queue]
    return {"queues": queues, "version": VERSION}


def from_position(position: Position) -> dict[MessageQueue, int]:
    """CheckpointError for what is not ours, such as the position of a read of segments."""
    if not isinstance(position, dict) or position.get("version") != VERSION:
        raise CheckpointError(
            f"the checkpoint has a position of another version: {str(position)[:200]}"
        )
    queues = position.get("queues")
    if not isinstance(queues, dict):
        raise CheckpointError(
            "the checkpoint has no offsets of queues: it is that of a query which read segments "
            "(path), not through brokers (nameServer)"
        )
    try:
        return {
            MessageQueue(topic, broker, int(queue)): int(offset)
            for topic, brokers in queues.items()
            for broker, of_broker in brokers.items()
            for queue, offset in of_broker.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint's offsets of queues are broken: {error}") from error


def share(starts: Offsets, ends: Offsets, limit: int) -> dict[MessageQueue, int]:
    """New ends, so that about `limit` messages lie before them: each queue gets its part of the
    limit by its backlog, and at least one message if it has any. [rule of Kafka's source]
    """
    backlog = {q: end - starts[q] for q, end in ends.items() if end > starts[q]}
    total = sum(backlog.values())
    if total <= limit:
        return dict(ends)
    out = dict(ends)
    for queue, size in backlog.items():
        part = limit * size // total
        out[queue] = starts[queue] + max(1, part)
    return out


def into_tasks(
    ranges: Iterable[QueueRange], min_partitions: int | None, max_records: int | None = None
) -> list[tuple[QueueRange, ...]]:
    """One task for a range; short ones of one broker share a task, and where more tasks are asked
    for, or fewer messages in each, long ones are cut into equal parts."""
    todo = sorted(
        (r for r in ranges if r.end > r.start), key=lambda r: (r.broker, r.topic, r.queue_id)
    )
    total = sum(r.end - r.start for r in todo)
    if not total:
        return []
    most = SMALL_TASK
    if min_partitions is not None or max_records is not None:
        target = total if min_partitions is None else max(1, -(-total // min_partitions))
        target = target if max_records is None else min(target, max_records)
        most = min(most, target)
        todo = [part for r in todo for part in _cut(r, target)]
    tasks: list[tuple[QueueRange, ...]] = []
    group: list[QueueRange] = []
    size = 0
    for r in todo:
        length = r.end - r.start
        if group and (r.broker != group[0].broker or size + length > most):
            tasks.append(tuple(group))
            group, size = [], 0
        group.append(r)
        size += length
    tasks.append(tuple(group))
    return tasks


def _cut(r: QueueRange, target: int) -> Sequence[QueueRange]:
    length = r.end - r.start
    parts = -(-length // target)
    cuts = [r.start + length * i // parts for i in range(parts + 1)]
    return [QueueRange(r.topic, r.broker, r.queue_id, low, high) for low, high in pairwise(cuts)]
