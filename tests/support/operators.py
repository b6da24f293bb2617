"""Requests of operators on the wire: make a topic, query by key, delete old files.

Field names: CreateTopicRequestHeader, QueryMessageRequestHeader.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.client import UPDATE_AND_CREATE_TOPIC, Client
from tests.support.records import Record, decode_records
from tests.support.waiting import eventually
from tests.support.wire import Command

QUERY_MESSAGE = 12
CLEAN_EXPIRED_CONSUMEQUEUE = 306
DELETE_EXPIRED_COMMITLOG = 329

NOT_FOUND = 22
FOREVER = 2**63 - 1

SYSTEM_ERROR = 1
MESSAGE_ILLEGAL = 13
INVALID_PARAMETER = 29


def create_topic(client: Client, name: str, queues: int = 1, **change: object) -> Command:
    """UPDATE_AND_CREATE_TOPIC; `change` sets further fields, such as attributes."""
    ext: dict[str, object] = {
        "topic": name, "defaultTopic": "TBW102", "readQueueNums": queues,
        "writeQueueNums": queues, "perm": 6, "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0, "order": "false",
    }  # fmt: skip
    return client.call(UPDATE_AND_CREATE_TOPIC, **{**ext, **change})


def query(
    client: Client,
    topic: str,
    key: str,
    maximum: object = 32,
    begin: object = 0,
    end: object = FOREVER,
    *,
    unique: bool = False,
    serialize: int = 0,
) -> Command:
    """QUERY_MESSAGE as the Java client sends it; times are ms since the epoch."""
    ext = {"topic": topic, "key": key, "maxNum": str(maximum)}
    ext |= {"beginTimestamp": str(begin), "endTimestamp": str(end)}
    if unique:
        ext["_UNIQUE_KEY_QUERY"] = "true"
    return client.request(Command(QUERY_MESSAGE, ext, serialize=serialize))


def hits(answer: Command) -> list[Record]:
    """The records of an answer; none for one that says that there are none."""
    assert answer.code in (0, NOT_FOUND), f"{answer.code} {answer.remark}"
    assert (answer.code == 0) == bool(answer.body)
    return decode_records(answer.body)


def await_hits(
    client: Client, topic: str, key: str, count: int, *, unique: bool = False
) -> list[Record]:
    """Records with a key once there are `count`: the index follows the log."""
    found: list[Record] = []

    def complete() -> bool:
        found[:] = hits(query(client, topic, key, 64, unique=unique))
        return len(found) >= count

    eventually(complete, f"{count} messages of {topic} with key {key}")
    assert len(found) == count, f"{len(found)} messages of {topic} with key {key}"
    return found


def no_hits(client: Client, topic: str, key: str) -> bool:
    return query(client, topic, key).code == NOT_FOUND


def saved_topics(store: Path) -> dict[str, dict[str, object]]:
    """The topics in topics.json."""
    text = (store / "config" / "topics.json").read_text()
    table: dict[str, dict[str, object]] = json.loads(text)["topicConfigTable"]
    return table
