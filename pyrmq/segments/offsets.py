"""Offsets and times by queue, as a read is asked for them.

Errors name the parameter of `pyrmq.scan` that a function is called for.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyrmq.engine as engine
from pyrmq.errors import OffsetOutOfRangeError, Parameter, SegmentOptionError

QueueOffsets = dict[str, dict[str, dict[int, int]]]
"""topic -> broker -> queue id -> queue offset."""

EARLIEST = -2
LATEST = -1
MAX_OFFSET = 2**63 - 1


def parse_offsets(text: str, parameter: str) -> str | QueueOffsets:
    """`earliest`, `latest`, or offsets by queue. SegmentOptionError names `parameter`."""
    return engine.parse_offsets(text, parameter)


def check_offsets(value: Any, parameter: str) -> QueueOffsets:
    """Offsets by queue from what a caller in Python gave."""
    return engine.parse_offsets(_text(value, parameter), parameter)  # type: ignore[return-value]


def parse_assign(text: str, parameter: str = "assign") -> dict[str, dict[str, tuple[int, ...]]]:
    """Queues by topic and broker. SegmentOptionError names `parameter`."""
    found = engine.parse_assign(text, parameter)
    return {
        topic: {broker: tuple(queues) for broker, queues in brokers.items()}
        for topic, brokers in found.items()
    }


def check_assign(value: Any, parameter: str = "assign") -> dict[str, dict[str, tuple[int, ...]]]:
    """As `parse_assign`, of what a caller in Python gave."""
    return parse_assign(_text(value, parameter), parameter)


def _text(value: Any, parameter: str) -> str:
    """As JSON; objects that are none stand in it as Python shows them."""
    try:
        return json.dumps(value, default=repr)
    except (TypeError, ValueError, RecursionError) as error:
        raise SegmentOptionError(
            (Parameter(parameter), f": {value!r} is no object: {error}")
        ) from error


QueueTimes = Mapping[str, int | Mapping[str, int | Mapping[int, int]]]
"""topic -> broker -> queue id -> ms; one time in the place of a mapping is that of all in it."""

MAX_TIME = 10**14
"""In 5138: numbers from here on are no ms."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, order=True)
class TimeEntry:
    """One time of a QueueTimes, and the queues that it is for."""

    topic: str
    broker: str | None
    """None: every broker."""
    queue: int | None
    """None: every queue."""
    time: int

    def covers(self, topic: str, broker: str, queue: int) -> bool:
        return (
            self.topic == topic
            and self.broker in (None, broker)
            and (self.queue is None or self.queue == queue)
        )

    def __str__(self) -> str:
        parts = [f"topic {self.topic}"]
        if self.broker is not None:
            parts.append(f"broker {self.broker}")
        if self.queue is not None:
            parts.append(f"queue {self.queue}")
        return ", ".join(parts)


def entries(times: QueueTimes) -> Iterator[TimeEntry]:
    """All times; no two of them cover the same queue."""
    for topic, brokers in times.items():
        if isinstance(brokers, int):
            yield TimeEntry(topic, None, None, brokers)
            continue
        for broker, queues in brokers.items():
            if isinstance(queues, int):
                yield TimeEntry(topic, broker, None, queues)
                continue
            for queue, time in queues.items():
                yield TimeEntry(topic, broker, queue, time)


def brokers_of(times: QueueTimes, topic: str) -> Collection[str]:
    """The brokers that are named of a topic."""
    of_topic = times[topic]
    return () if isinstance(of_topic, int) else of_topic.keys()


def shown(ms: int | None) -> str:
    """A time as ISO 8601 in UTC, with milliseconds where there are any; as a number where it is
    none that a clock shows."""
    if ms is None or not 0 <= ms < MAX_TIME:
        return str(ms)
    when = _EPOCH + timedelta(milliseconds=ms)
    return when.strftime("%Y-%m-%dT%H:%M:%S") + (f".{ms % 1000:03}Z" if ms % 1000 else "Z")


def later_than_all(entry: TimeEntry) -> OffsetOutOfRangeError:
    """The error for a starting time at or behind which there is no message."""
    return OffsetOutOfRangeError(
        (
            Parameter("starting_times"),
            f": {shown(entry.time)} is later than every message of {entry}",
        ),
        (Parameter("timestamp_strategy", "latest"), " starts at the end in this case"),
    )
