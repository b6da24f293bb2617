"""Topic configuration and the data version that configuration files carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PERM_INHERIT = 1
PERM_WRITE = 2
PERM_READ = 4
PERM_PRIORITY = 8
SINGLE_TAG = "SINGLE_TAG"
MULTI_TAG = "MULTI_TAG"
MESSAGE_TYPE = "message.type"
NORMAL = "NORMAL"
MESSAGE_TYPES = ("UNSPECIFIED", NORMAL, "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "MIXED")
"""Types that a topic may have here. RocketMQ's LITE needs lite topics. [TopicMessageType]"""
MAX_QUEUES = 65_536
"""Most queues of one kind that a topic may have here."""


def type_conflict(topic: str, sent: str) -> str | None:
    """Why a topic of one type takes no message of another, None where it does.
    [DefaultTopicMessageTypeValidator]"""
    if topic in ("MIXED", sent):
        return None
    return (
        f"TopicMessageType validate failed, the expected type is {topic}, but actual type is {sent}"
    )


def as_int(value: Any, default: int) -> int:
    """An int from JSON, `default` for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return default
    try:
        return int(value)
    except ValueError:
        return default


@dataclass(slots=True)
class TopicConfig:
    """One topic of a broker; the defaults are those for keys that JSON lacks."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = PERM_READ | PERM_WRITE
    topic_filter_type: str = SINGLE_TAG
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)
    others: dict[Any, Any] = field(default_factory=dict)
    """What else a row of topics.json says. Nothing here uses it; it is kept."""

    @property
    def readable(self) -> bool:
        return bool(self.perm & PERM_READ)

    @property
    def writable(self) -> bool:
        return bool(self.perm & PERM_WRITE)

    @property
    def is_batch(self) -> bool:
        """Whether its queues hold inner batches."""
        return self.attributes.get("queue.type") == "BatchCQ"

    @property
    def message_type(self) -> str:
        """What its messages are. [TopicConfig.getTopicMessageType]"""
        return self.attributes.get(MESSAGE_TYPE, NORMAL)

    def to_json(self) -> dict[str, Any]:
        return {
            "attributes": self.attributes,
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queue_nums,
            "topicFilterType": self.topic_filter_type,
            "topicName": self.topic_name,
            "topicSysFlag": self.topic_sys_flag,
            "writeQueueNums": self.write_queue_nums,
        }

    def to_row(self) -> dict[Any, Any]:
        """The row of topics.json, `others` included."""
        return self.others | self.to_json()

    @classmethod
    def from_row(cls, name: str, value: Mapping[Any, Any]) -> TopicConfig:
        """A row of topics.json, for `to_row`."""
        topic = cls.from_json(name, value)
        ours = topic.to_json()
        topic.others = {key: item for key, item in value.items() if key not in ours}
        return topic

    @classmethod
    def from_json(cls, name: str, value: Mapping[str, Any]) -> TopicConfig:
        attributes = value.get("attributes")
        return cls(
            topic_name=name,
            read_queue_nums=as_int(value.get("readQueueNums"), 16),
            write_queue_nums=as_int(value.get("writeQueueNums"), 16),
            perm=as_int(value.get("perm"), PERM_READ | PERM_WRITE),
            topic_filter_type=MULTI_TAG
            if value.get("topicFilterType") == MULTI_TAG
            else SINGLE_TAG,
            topic_sys_flag=as_int(value.get("topicSysFlag"), 0),
            order=value.get("order") is True,
            attributes=dict(attributes) if isinstance(attributes, dict) else {},
        )


@dataclass(slots=True)
class DataVersion:
    """Version of a table: moved on at every change, compared whole. `timestamp` in ms."""

    timestamp: int = 0
    counter: int = 0
    state_version: int = 0

    def next(self, now_ms: int) -> None:
        self.timestamp = now_ms
        self.counter += 1

    def to_json(self) -> dict[str, int]:
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp,
        }

    @classmethod
    def from_json(cls, value: Any) -> DataVersion:
        if not isinstance(value, dict):
            return cls()
        return cls(
            timestamp=as_int(value.get("timestamp"), 0),
            counter=as_int(value.get("counter"), 0),
            state_version=as_int(value.get("stateVersion"), 0),
        )
