"""Changes of topics that are asked for, and files with such: a JSON array of configurations.
[updateTopicList]"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

from pyrmq.errors import ConfigError, InvalidParameterError
from pyrmq.model.names import check_topic
from pyrmq.model.topic import MAX_QUEUES, MULTI_TAG, SINGLE_TAG, TopicConfig

MAX_FILE = 64 << 20
"""Most bytes of a file with topics."""
MAX_NAME = 255
_NUMBERS = {
    "readQueueNums": MAX_QUEUES,
    "writeQueueNums": MAX_QUEUES,
    "perm": 7,
    "topicSysFlag": 2**31 - 1,
}
_KEYS = {*_NUMBERS, "topicName", "topicFilterType", "order", "attributes"}

MAX_PERM = 7
MOST_TOLD = 8
"""Most names in the text of an error."""


@dataclass(frozen=True, slots=True)
class TopicChange:
    """The new configuration of a topic. `attributes`: changes of its attributes, by name; `+name`
    sets one, `-name` (with any value) removes it."""

    config: TopicConfig
    attributes: dict[str, str] = field(default_factory=dict)


def check_perm(perm: int) -> None:
    """Raises ConfigError for an invalid permission."""
    if not 0 <= perm <= MAX_PERM:
        raise ConfigError(f"a permission is the sum of 4 (read), 2 (write) and 1, not {perm}")


def check_names(changes: Sequence[TopicChange]) -> None:
    """Raises ConfigError if a topic of a list has an invalid name or permission."""
    bad = []
    for change in changes:
        check_perm(change.config.perm)
        try:
            check_topic(change.config.topic_name)
        except InvalidParameterError as e:
            bad.append(str(e))
    if bad:
        more = f"; {len(bad) - MOST_TOLD} more" if len(bad) > MOST_TOLD else ""
        raise ConfigError(f"nothing is changed: {'; '.join(bad[:MOST_TOLD])}{more}")


async def read_topics(path: str) -> list[TopicChange]:
    """The topics of a file. ConfigError for a file that cannot be read, or is none of topics."""
    try:
        async with await trio.open_file(path, "rb") as file:
            raw = await file.read(MAX_FILE + 1)
    except FileNotFoundError:
        raise ConfigError(f"the file path {path} does not exists") from None
    except OSError as e:
        raise ConfigError(f"{path} cannot be read: {e.strerror}") from None
    if len(raw) > MAX_FILE:
        raise ConfigError(f"{path} has more than {MAX_FILE} bytes")
    try:
        return topics_of(json.loads(raw))
    except (ValueError, RecursionError) as e:
        raise ConfigError(f"{path} is no JSON: {e}") from None
    except ConfigError as e:
        raise ConfigError(f"{path}: {e}") from None


def topics_of(rows: Any) -> list[TopicChange]:
    """The topics of a JSON array. A topic that is named twice, or has a member that topics have
    not, is a ConfigError. Attributes may be named without a sign, as exports have them: `+`."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError('a JSON array of topics is expected: [{"topicName": …}, …]')
    found: dict[str, TopicChange] = {}
    for row in rows:
        change = _topic(row)
        name = change.config.topic_name
        if name in found:
            raise ConfigError(f"topic {name} is there twice")
        found[name] = change
    return list(found.values())


def _topic(row: Mapping[str, Any]) -> TopicChange:
    name = row.get("topicName")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise ConfigError("each topic has a topicName")
    if unknown := sorted(row.keys() - _KEYS):
        raise ConfigError(
            f"topic {name}: {unknown[0][:64]!r} is no member of a topic: {', '.join(sorted(_KEYS))}"
        )
    for key, most in _NUMBERS.items():
        value = row.get(key, 0)
        if type(value) is not int or not 0 <= value <= most:
            raise ConfigError(f"topic {name}: {key} is a number from 0 to {most}")
    if type(row.get("order", False)) is not bool:
        raise ConfigError(f"topic {name}: order is true or false")
    if row.get("topicFilterType", SINGLE_TAG) not in (SINGLE_TAG, MULTI_TAG):
        raise ConfigError(f"topic {name}: topicFilterType is {SINGLE_TAG} or {MULTI_TAG}")
    given = row.get("attributes") or {}
    if not isinstance(given, dict) or not all(isinstance(v, str) for v in given.values()):
        raise ConfigError(f"topic {name}: attributes is an object of texts")
    attributes = {k if k[:1] in ("+", "-") else f"+{k}": v for k, v in given.items()}
    config = TopicConfig.from_json(name, {**row, "attributes": {}})
    check_perm(config.perm)
    return TopicChange(config, attributes)
