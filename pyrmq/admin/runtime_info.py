"""What a broker says of itself: its figures, its replication, how far all its groups are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyrmq.admin import values
from pyrmq.admin.consume_stats import QueueProgress
from pyrmq.errors import ProtocolError

Runtime = dict[str, str]
"""Figures of a broker by name. Which there are depends on its version: each may be absent."""


def first_number(runtime: Mapping[str, str], name: str) -> float:
    """The first number of a figure that may have several; 0 if there is none."""
    parts = runtime.get(name, "").split()
    try:
        found = float(parts[0]) if parts else 0.0
    except ValueError:
        return 0.0
    return found if math.isfinite(found) else 0.0


def whole(runtime: Mapping[str, str], name: str) -> int:
    """A figure that is a whole number; 0 if it is none."""
    text = runtime.get(name, "").strip()
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else 0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages that came in and went out, yesterday and today."""

    in_yesterday: int
    out_yesterday: int
    in_today: int
    out_today: int

    @classmethod
    def of(cls, runtime: Mapping[str, str]) -> Traffic:
        def between(name: str, begin: str, end: str) -> int:
            return whole(runtime, f"{name}{end}") - whole(runtime, f"{name}{begin}")

        yesterday, today, now = "YesterdayMorning", "TodayMorning", "TodayNow"
        return cls(
            between("msgPutTotal", yesterday, today),
            between("msgGetTotal", yesterday, today),
            between("msgPutTotal", today, now),
            between("msgGetTotal", today, now),
        )


@dataclass(frozen=True, slots=True)
class Slave:
    """A slave, as its master has it. [HAConnectionRuntimeInfo]"""

    address: str
    ack_offset: int
    diff: int
    """Bytes of the log that it lacks."""
    in_sync: bool
    bytes_per_second: int
    transfer_from: int
    behind_ms: int | None = None
    """How long ago it had all of the log; None: an Apache broker does not say."""


@dataclass(frozen=True, slots=True)
class HaStatus:
    """How replication stands at one broker. [HARuntimeInfo]"""

    master: bool
    max_offset: int
    """End of its log."""
    in_sync_slaves: int
    slaves: list[Slave]
    """Of a master."""
    master_address: str
    """What follows is a slave's: where its master is, and what it gets of it."""
    bytes_per_second: int
    last_read: int
    last_write: int
    master_flush_offset: int
    state: str = ""
    """What a slave is doing; and why it does not follow. An Apache broker says neither."""
    why: str = ""

    @classmethod
    def from_json(cls, value: Mapping[Any, Any]) -> HaStatus:
        client = values.table(value, "haClientRuntimeInfo")
        master = values.truth(value, "master")
        number = values.number
        return cls(
            master,
            number(value, "masterCommitLogMaxOffset") if master else number(client, "maxOffset"),
            number(value, "inSyncSlaveNums"),
            [
                Slave(
                    values.text(s, "addr"),
                    number(s, "slaveAckOffset"),
                    number(s, "diff"),
                    values.truth(s, "inSync"),
                    number(s, "transferredByteInSecond"),
                    number(s, "transferFromWhere"),
                    number(s, "behindMillis") if "behindMillis" in s else None,
                )
                for s in values.objects(value, "haConnectionInfo")
            ],
            values.text(client, "masterAddr"),
            number(client, "transferredByteInSecond"),
            number(client, "lastReadTimestamp"),
            number(client, "lastWriteTimestamp"),
            number(client, "masterFlushOffset"),
            values.text(client, "state") if "state" in client else "",
            values.text(client, "why") if "why" in client else "",
        )


@dataclass(frozen=True, slots=True)
class Epoch:
    """The part of the log that was written under one master. [EpochEntry]"""

    epoch: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Epochs:
    """The epochs of one replica. [EpochEntryCache]"""

    cluster: str
    broker_name: str
    broker_id: int
    epochs: list[Epoch]

    @classmethod
    def from_json(cls, value: Mapping[Any, Any]) -> Epochs:
        entries = values.objects(value, "epochList")
        number = values.number
        found = [
            Epoch(number(e, "epoch"), number(e, "startOffset"), number(e, "endOffset"))
            for e in entries
        ]
        if found:  # the last one goes on: it ends where the log does
            last = found[-1]
            found[-1] = Epoch(last.epoch, last.start, number(value, "maxOffset"))
        return cls(
            values.text(value, "clusterName"),
            values.text(value, "brokerName"),
            number(value, "brokerId"),
            found,
        )


@dataclass(frozen=True, slots=True)
class GroupQueue:
    """How far one group is in one queue."""

    group: str
    progress: QueueProgress


@dataclass(frozen=True, slots=True)
class BrokerConsumeStats:
    """How far all groups of a broker are. [ConsumeStatsList]"""

    queues: list[GroupQueue]
    """By topic, group and queue."""
    total_diff: int
    """Messages that are not consumed, of all groups."""

    @classmethod
    def from_json(cls, value: Mapping[Any, Any]) -> BrokerConsumeStats:
        found: list[GroupQueue] = []
        for groups in values.objects(value, "consumeStatsList"):
            for group in groups:
                for stats in values.objects(groups, group):
                    for queue, row in values.by_queue(values.table(stats, "offsetTable")):
                        if not isinstance(row, dict):
                            raise ProtocolError("a queue's offsets are no object")
                        progress = QueueProgress.from_json(queue, row)
                        found.append(GroupQueue(str(group), progress))
        found.sort(key=_place)
        return cls(found, values.number(value, "totalDiff"))


def _place(row: GroupQueue) -> tuple[str, str, str, int]:
    queue = row.progress.queue
    return queue.topic, row.group, queue.broker_name, queue.queue_id
