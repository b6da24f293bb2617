"""Offsets and times by queue, as a read is asked for them.

Errors name the parameter of `pyrmq.scan` that a function is called for.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyrmq.errors import OffsetOutOfRangeError, Parameter, SegmentOptionError

QueueOffsets = dict[str, dict[str, dict[int, int]]]
"""topic -> broker -> queue id -> queue offset."""

EARLIEST = -2
LATEST = -1
MAX_OFFSET = 2**63 - 1
_MAX_QUEUE = 2**31 - 1
_MAX_TEXT = 64 << 20
"""Characters of JSON that are still read: a million queues take some 20 million."""

_OFFSETS_FORM = '{"topic": {"broker": {"queue id": offset}}}, -2 is earliest, -1 latest'
_ASSIGN_FORM = '{"topic": {"broker": [queue ids]}}'


def parse_offsets(text: str, parameter: str) -> str | QueueOffsets:
    """`earliest`, `latest`, or offsets by queue. SegmentOptionError names `parameter`."""
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return word
    form = f"expected earliest, latest, or JSON like {_OFFSETS_FORM}"
    return check_offsets(_json(text, parameter, form), parameter)


def check_offsets(value: Any, parameter: str) -> QueueOffsets:
    """Offsets by queue from what JSON, or a caller in Python, gave."""
    form = f"expected {_OFFSETS_FORM}"
    out: QueueOffsets = {}
    for topic, broker, queues in _levels(value, parameter, form):
        if not isinstance(queues, dict):
            raise _wrong(parameter, f"{topic!r} of {broker!r} has {_shown(queues)}", form)
        of_broker = out.setdefault(topic, {}).setdefault(broker, {})
        for queue, offset in queues.items():
            if not _is_int(offset) or not EARLIEST <= offset <= MAX_OFFSET:
                raise _wrong(
                    parameter,
                    f"{topic!r}, {broker!r}, queue {_shown(queue)}: {_shown(offset)} is no offset",
                    form,
                )
            of_broker[_queue_id(queue, parameter, form)] = offset
    return out


def parse_assign(text: str, parameter: str = "assign") -> dict[str, dict[str, tuple[int, ...]]]:
    """Queues by topic and broker. SegmentOptionError names `parameter`."""
    return check_assign(_json(text, parameter, f"expected {_ASSIGN_FORM}"), parameter)


def check_assign(value: Any, parameter: str = "assign") -> dict[str, dict[str, tuple[int, ...]]]:
    """As `parse_assign`, of what JSON gave."""
    form = f"expected {_ASSIGN_FORM}"
    out: dict[str, dict[str, tuple[int, ...]]] = {}
    for topic, broker, queues in _levels(value, parameter, form):
        if not isinstance(queues, (list, tuple)) or not queues:
            raise _wrong(parameter, f"{topic!r} of {broker!r} has {_shown(queues)}", form)
        ids = {_queue_id(queue, parameter, form) for queue in queues}
        out.setdefault(topic, {})[broker] = tuple(sorted(ids))
    if not out:
        raise _wrong(parameter, "it names no queue", form)
    return out


def _json(text: str, parameter: str, form: str) -> Any:
    if len(text) > _MAX_TEXT:
        raise _wrong(parameter, f"it has {len(text)} characters", form)
    try:
        return json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise _wrong(parameter, f"{_shown(text)} does not parse: {error}", form) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names occur once; JSON itself would keep the last."""
    out = dict(pairs)
    if len(out) != len(pairs):
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice!r} is there twice")
    return out


def _levels(value: Any, parameter: str, form: str) -> Iterator[tuple[str, str, Any]]:
    """(topic, broker, what it has) of the two upper levels."""
    if not isinstance(value, dict):
        raise _wrong(parameter, f"{_shown(value)} is no object", form)
    for topic, brokers in value.items():
        if not isinstance(topic, str) or not isinstance(brokers, dict):
            raise _wrong(parameter, f"{_shown(topic)} has {_shown(brokers)}", form)
        for broker, queues in brokers.items():
            if not isinstance(broker, str):
                raise _wrong(parameter, f"{_shown(broker)} is no broker name", form)
            yield topic, broker, queues


def _queue_id(value: Any, parameter: str, form: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
        value = int(value)
    if not _is_int(value) or not 0 <= value <= _MAX_QUEUE:
        raise _wrong(parameter, f"{_shown(value)} is no queue id", form)
    return int(value)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _wrong(parameter: str, text: str, form: str) -> SegmentOptionError:
    return SegmentOptionError((Parameter(parameter), f": {text}"), form)


QueueTimes = Mapping[str, int | Mapping[str, int | Mapping[int, int]]]
"""topic -> broker -> queue id -> ms; one time in the place of a mapping is that of all in it."""

MAX_QUEUE = 2**31 - 1
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
