"""The name of the broker that a store belongs to, as the files of its config folder tell it.

Our broker writes brokerName.json. RocketMQ has no file for it, but registers topics for its own
name at every start, which stay in topics.json [TopicConfigManager]: since 5.0 one that is the name
behind a prefix, in all versions one that is the name. That of the cluster's name has 16 queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyrmq.model.names import AUTO_CREATE_TOPIC
from pyrmq.model.topic import PERM_INHERIT

FILE = "brokerName.json"
MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Of topics for the brokers of one name, which know themselves who is the master."""
MAX_NAME = 255
"""Characters of a broker's name."""


def names_in_topics(table: Mapping[Any, Any]) -> set[str]:
    """The broker names that a topicConfigTable tells; several where a broker was renamed."""
    plain = (topic for topic, row in table.items() if _is_of_broker(topic, row))
    return _members(table) or {topic for topic in plain if is_valid(topic)}


def _is_of_broker(topic: Any, row: Any) -> bool:
    """Whether only a broker makes such a topic, for its name: inherited, with one queue."""
    if not isinstance(topic, str) or not isinstance(row, dict) or topic == AUTO_CREATE_TOPIC:
        return False
    perm: Any = row.get("perm")
    queues = row.get("readQueueNums"), row.get("writeQueueNums")
    if not all(type(number) is int for number in (perm, *queues)):  # true is no number
        return False
    return bool(int(perm) & PERM_INHERIT) and queues == (1, 1)


def to_json(name: str, others: Iterable[str]) -> dict[str, Any]:
    """The content of brokerName.json; `others`: what else topics.json named when it was written."""
    return {"brokerName": name, "others": sorted(set(others) - {name})}


def told(own: Any, table: Any) -> set[str]:
    """The names that a store may have by the contents of brokerName.json and of the table of
    topics.json (None for a file that is not there). One is certain.

    A broker that topics.json has and brokerName.json does not know came later: RocketMQ's own has
    opened the store since.
    """
    table = table if isinstance(table, dict) else {}
    name = own.get("brokerName") if isinstance(own, dict) else None
    if not isinstance(name, str) or not is_valid(name):
        return names_in_topics(table)
    others = own.get("others")
    known = [name, *(others if isinstance(others, list) else ())]
    return {other for other in _members(table) if other not in known} or {name}


def _members(table: Mapping[Any, Any]) -> set[str]:
    names = (
        topic.removeprefix(MEMBER_TOPIC_PREFIX)
        for topic in table
        if isinstance(topic, str) and topic.startswith(MEMBER_TOPIC_PREFIX)
    )
    return {name for name in names if is_valid(name)}


def is_valid(name: str) -> bool:
    """Whether RocketMQ's broker may have such a name: by default it is that of the host."""
    printable = name.isprintable() and " " not in name and "/" not in name
    return printable and 0 < len(name) <= MAX_NAME
