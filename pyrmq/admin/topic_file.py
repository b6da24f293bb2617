"""Files with topics: a JSON array of configurations. [updateTopicList]"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import trio

from pyrmq.admin.topic_changes import TopicChange, check_perm
from pyrmq.errors import ConfigError
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
