"""Options that name queues: `startingOffsets`, `endingOffsets`, `assign`."""

from __future__ import annotations

from typing import Any, Literal

from spark_ext.option import json_object

Offsets = dict[str, dict[str, dict[int, int]]]
"""topic -> broker -> queue id -> queue offset; -2 is earliest, -1 is latest."""

EARLIEST, LATEST = -2, -1
MAX_QUEUE = 2**31 - 1
_SHAPE = '{"topic": {"broker": {"0": 123}}}'


def starting_offsets(value: str) -> Offsets | Literal["earliest", "latest"]:
    word = value.strip().lower()
    if word == "earliest":
        return "earliest"
    if word == "latest":
        return "latest"
    return _offsets(value, f"must be earliest, latest or JSON as {_SHAPE}")


def ending_offsets(value: str) -> Offsets | Literal["latest"]:
    if value.strip().lower() == "latest":
        return "latest"
    found = _offsets(value, f"must be latest or JSON as {_SHAPE}")
    for topic, brokers in found.items():
        for broker, by_queue in brokers.items():
            for queue, offset in by_queue.items():
                if offset == EARLIEST:
                    raise ValueError(
                        f"names -2 (earliest) for {topic}, {broker}, queue {queue}: an end is an "
                        "offset or -1 (latest)"
                    )
    return found


def starts_at_latest(offsets: Offsets | Literal["earliest", "latest"]) -> bool:
    """Whether any queue of starting offsets starts at the end."""
    if isinstance(offsets, str):
        return offsets == "latest"
    return any(
        offset == LATEST
        for brokers in offsets.values()
        for by_queue in brokers.values()
        for offset in by_queue.values()
    )


def queues(value: str) -> dict[str, dict[str, tuple[int, ...]]]:
    """`assign`: topic -> broker -> queue ids."""
    out: dict[str, dict[str, tuple[int, ...]]] = {}
    for topic, brokers in json_object(value).items():
        out[topic] = {}
        for broker, ids in _inner(brokers, topic).items():
            if not isinstance(ids, list) or not ids:
                raise ValueError(f"needs a list of queue ids for {topic}, {broker}: [0, 1]")
            out[topic][broker] = tuple(
                sorted({_number(i, f"{topic}, {broker}", 0, MAX_QUEUE) for i in ids})
            )
        if not out[topic]:
            raise ValueError(f"names no broker for {topic}")
    if not out:
        raise ValueError("names no queue")
    return out


def _offsets(value: str, rule: str) -> Offsets:
    if not value.strip().startswith("{"):
        raise ValueError(f"{rule}, not {value[:80]!r}")
    out: Offsets = {}
    for topic, brokers in json_object(value).items():
        out[topic] = {}
        for broker, by_queue in _inner(brokers, topic).items():
            place = f"{topic}, {broker}"
            out[topic][broker] = {}
            for queue, offset in _inner(by_queue, place).items():
                if not queue.isascii() or not queue.isdigit() or int(queue[:11]) > MAX_QUEUE:
                    raise ValueError(f"has {queue!r} where {place} needs a queue id")
                out[topic][broker][int(queue)] = _number(offset, f"{place}, queue {queue}", -2)
    return out


def _inner(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"needs an object for {place}: the form is {_SHAPE}")
    return value


def _number(value: Any, place: str, low: int, high: int = 2**63 - 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"has {value!r} for {place}, which must be a whole number from {low} on")
    return value
