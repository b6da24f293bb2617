"""Times in options: milliseconds since 1970 or ISO 8601, alone or by topic, broker and queue.

A number that can only be meant as seconds, or as micro- or nanoseconds, is refused: taken as
milliseconds it would select everything or nothing, without a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from pyrmq.segments.offsets import MAX_QUEUE, QueueTimes, shown
from spark_ext.option import json_object

EARLIEST_MS = 10**11
"""In 1973. Numbers below are seconds, but for 0."""
LATEST_MS = 10**14
"""In 5138. Numbers from here on are micro- or nanoseconds."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORM = (
    "milliseconds since 1970, or a time as 2026-01-31T12:00:00Z, 2026-01-31T12:00:00+01:00 or "
    "2026-01-31 12:00 Europe/Berlin (without a zone: UTC)"
)
_TIMES_FORM = '{"topic": {"broker": {"queue id": time}}}, or {"topic": time}'


def moment(value: str) -> int:
    """A time in ms. Without a zone it is UTC, whatever the session's zone: Spark does not tell a
    Python source which that is."""
    text = value.strip()
    if re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        return _milliseconds(int(text))
    return _iso(text)


def _milliseconds(number: int) -> int:
    if number < 0:
        raise ValueError(f"must be {_FORM}, not {number}")
    if 0 < number < EARLIEST_MS:
        meant = f"{number} ms is {shown(number)}"
        if number >= EARLIEST_MS // 1000:
            meant += f"; seconds would be {shown(number * 1000)}: give {number * 1000}"
        raise ValueError(f"must be {_FORM}, not {number}: {meant}")
    if number >= LATEST_MS:
        for name, unit in (("microseconds", 10**3), ("nanoseconds", 10**6)):
            if number // unit < LATEST_MS:
                raise ValueError(
                    f"must be {_FORM}, not {number}: as {name} that would be "
                    f"{shown(number // unit)}: give {number // unit}"
                )
        raise ValueError(f"must be {_FORM}, not {number}, which is no time")
    return number


def _iso(text: str) -> int:
    named = re.fullmatch(r"(.*[0-9]Z?)\s*\[?([A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+|UTC|GMT)\]?", text)
    try:
        if re.search("[Ww][0-9]", text):
            raise ValueError("a date by its week")  # Python reads it; hardly anybody means it
        when = datetime.fromisoformat(named[1] if named else text)
    except ValueError:
        raise ValueError(f"must be {_FORM}, not {text!r}") from None
    if named is not None:
        when = _in_zone(when, named[2], text)
    elif when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    microseconds = (when - _EPOCH) // timedelta(microseconds=1)
    if microseconds < 0:
        raise ValueError(f"must be {_FORM}, not {text!r}, which is before 1970")
    return -(-microseconds // 1000)


def _in_zone(when: datetime, name: str, text: str) -> datetime:
    """A time of a named zone. With an offset, as Java writes a ZonedDateTime, that has to be the
    zone's at the time."""
    try:
        zone = ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError(f"there is no time zone {name!r}: {text!r}") from None
    if when.tzinfo is not None:
        if when.astimezone(zone).utcoffset() != when.utcoffset():
            raise ValueError(f"has two zones that do not agree: {text!r}")
        return when
    local = when.replace(tzinfo=zone)
    if local.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != when:
        raise ValueError(f"does not exist in {name}, where clocks were put forward: {text!r}")
    return local


def queue_times(value: str) -> QueueTimes:
    """Times by topic, broker and queue; one for all queues of a topic, or of it on a broker."""
    return {
        topic: _of_topic(topic, brokers) for topic, brokers in _named(json_object(value)).items()
    }


def _of_topic(topic: str, brokers: Any) -> int | dict[str, int | dict[int, int]]:
    if not isinstance(brokers, Mapping):
        return _leaf(brokers, repr(topic))
    out: dict[str, int | dict[int, int]] = {}
    for broker, queues in _named(brokers).items():
        where = f"{topic!r}, {broker!r}"
        if not isinstance(queues, Mapping):
            out[broker] = _leaf(queues, where)
            continue
        of_broker = out[broker] = {}
        for queue, time in _named(queues).items():
            if not (queue.isascii() and queue.isdigit()) or not int(queue[:11]) <= MAX_QUEUE:
                raise ValueError(f"has {queue!r} for {where}, which is no queue id: {_TIMES_FORM}")
            of_broker[int(queue)] = _leaf(time, f"{where}, queue {queue}")
    return out


def _named(found: Mapping[str, Any]) -> Mapping[str, Any]:
    if not found or not all(found):
        raise ValueError(f"has an empty object or name in it; expected {_TIMES_FORM}")
    return found


def _leaf(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"has {str(value)[:80]!r} for {where}; expected {_TIMES_FORM}")
    try:
        return moment(value if isinstance(value, str) else str(value))
    except ValueError as error:
        raise ValueError(f"for {where} {error}") from None


def duration(value: str) -> int:
    """Milliseconds: a number with us, ms, s, m or min, h or d behind it, without one ms, as in
    Kafka's source."""
    found = re.fullmatch(r"([0-9]{1,15})\s*(us|ms|s|m|min|h|d)?", value.strip().lower())
    if found is None:
        raise ValueError(f"must be a duration such as 30s, 15m or 1h, not {value!r}")
    units = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
    number, unit = int(found[1]), found[2] or "ms"
    length = -(-number // 1000) if unit == "us" else number * units[unit]
    if not 1 <= length <= 10**12:
        raise ValueError(f"must be at least 1 ms and at most 30 years, not {value!r}")
    return length
