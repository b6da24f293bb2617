"""What a broker says of its disk: topics, files of the log, what retention frees next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from pyrmq.admin import values
from pyrmq.errors import ProtocolError

MAX_ROWS = 4096


def _rows(answer: Mapping[Any, Any], name: str) -> list[dict[Any, Any]]:
    rows = values.objects(answer, name)
    if len(rows) > MAX_ROWS:
        raise ProtocolError(f"an answer with {len(rows)} {name}")
    return rows


@dataclass(frozen=True, slots=True)
class QueueBytes:
    """What a queue has in the log. first, following: the queue offset of its first message there,
    and the one behind the last."""

    queue_id: int
    first: int
    following: int
    messages: int
    bytes: int
    exact: bool


@dataclass(frozen=True, slots=True)
class TopicBytes:
    """What a topic has in the log, or in a part of it. exact: False if it is an estimate. by_queue:
    of a topic that was asked for by name."""

    topic: str
    bytes: int
    messages: int
    queues: int
    exact: bool
    by_queue: list[QueueBytes] = field(default_factory=list)

    @classmethod
    def from_json(cls, row: Mapping[Any, Any]) -> Self:
        n = values.number
        return cls(
            values.text(row, "topic"),
            n(row, "bytes"),
            n(row, "messages"),
            n(row, "queues"),
            values.truth(row, "exact"),
            [
                QueueBytes(
                    n(q, "queueId"),
                    n(q, "first"),
                    n(q, "next"),
                    n(q, "messages"),
                    n(q, "bytes"),
                    values.truth(q, "exact"),
                )
                for q in _rows(row, "byQueue")
            ],
        )


@dataclass(frozen=True, slots=True)
class DiskState:
    """A disk. used_percent: as retention counts it, -1 if unknown. left_until: bytes until a ratio
    of the configuration is passed, by its key."""

    path: str
    total: int
    free: int
    used_percent: int
    left_until: dict[str, int]

    @classmethod
    def from_json(cls, row: Mapping[Any, Any]) -> Self:
        left = values.table(row, "leftUntil")
        return cls(
            values.text(row, "path"),
            values.number(row, "total"),
            values.number(row, "free"),
            values.number(row, "usedPercent"),
            {str(key): values.number(left, key) for key in left},
        )


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of the log. Times are ms since 1970, None if unknown. expires: when fileReservedTime
    is over. due: when retention deletes it as things are, None if not. why: why it is kept now.
    in_tables: its time counts as over, as tables have what is needed of it (reclaimAfter)."""

    file: str
    begin: int
    end: int
    changed: int | None
    expires: int | None
    due: int | None
    why: str
    in_tables: bool = False

    @classmethod
    def from_json(cls, row: Mapping[Any, Any]) -> Self:
        def time(name: str) -> int | None:
            return values.number(row, name) if row.get(name) is not None else None

        return cls(
            values.text(row, "file"),
            values.number(row, "begin"),
            values.number(row, "end"),
            time("changed"),
            time("expires"),
            time("due"),
            values.text(row, "why"),
            row.get("inTables") is True,
        )


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """reclaimAfter=table: log files that end at this physical offset or before count as expired.
    why: who needs what stands there."""

    to: int
    why: str


@dataclass(frozen=True, slots=True)
class UnreadMessages:
    """Messages of a topic that a group has not consumed."""

    group: str
    topic: str
    messages: int


@dataclass(frozen=True, slots=True)
class NextFreed:
    """What the next `files` files have: bytes of the disk, what topics have there, and which groups
    would lose messages. The lists begin with the most; `topic_count` and `group_count` are how
    many there are."""

    files: int
    bytes: int
    topics: list[TopicBytes]
    topic_count: int
    groups: list[UnreadMessages]
    group_count: int
    exact: bool


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """The disk of one broker.

    log_begin, log_end: physical offsets. topics: those that use most first, of `topic_count`.
    measured: bytes of all topics; exact: False if some of them are estimated, or `unmeasured`
    topics were not measured in time. bytes_per_second: how fast the log has grown in the last hour.
    files: of the log, oldest first. reclaim: None without reclaimAfter=table.
    """

    log_begin: int
    log_end: int
    file_size: int
    file_count: int
    disks: list[DiskState]
    root: DiskState
    settings: dict[str, Any]
    bytes_per_second: float | None
    topics: list[TopicBytes]
    topic_count: int
    measured: int
    exact: bool
    unmeasured: int
    files: list[LogFile]
    next: NextFreed
    reclaim: Reclaimable | None = None

    @classmethod
    def from_json(cls, answer: Mapping[Any, Any]) -> Self:
        """ProtocolError."""
        log, freed = values.table(answer, "log"), values.table(answer, "next")
        rate = values.real(answer, "bytesPerSecond")
        return cls(
            values.number(log, "begin"),
            values.number(log, "end"),
            values.number(log, "fileSize"),
            values.number(log, "files"),
            [DiskState.from_json(row) for row in _rows(answer, "disks")],
            DiskState.from_json(values.table(answer, "root")),
            {str(k): v for k, v in values.table(answer, "settings").items()},
            rate if answer.get("bytesPerSecond") is not None else None,
            [TopicBytes.from_json(row) for row in _rows(answer, "topics")],
            values.number(answer, "count"),
            values.number(answer, "measured"),
            values.truth(answer, "exact"),
            values.number(answer, "unmeasured"),
            [LogFile.from_json(row) for row in _rows(answer, "files")],
            NextFreed(
                values.number(freed, "files"),
                values.number(freed, "bytes"),
                [TopicBytes.from_json(row) for row in _rows(freed, "topics")],
                values.number(freed, "topicCount"),
                [
                    UnreadMessages(
                        values.text(row, "group"),
                        values.text(row, "topic"),
                        values.number(row, "messages"),
                    )
                    for row in _rows(freed, "groups")
                ],
                values.number(freed, "groupCount"),
                values.truth(freed, "exact"),
            ),
            _reclaimable(answer),
        )


def _reclaimable(answer: Mapping[Any, Any]) -> Reclaimable | None:
    if answer.get("reclaim") is None:
        return None
    row = values.table(answer, "reclaim")
    return Reclaimable(values.number(row, "to"), values.text(row, "why"))
