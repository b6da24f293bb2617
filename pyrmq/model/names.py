"""Names of topics and groups: which are allowed, which are the system's (TopicValidator)."""

from __future__ import annotations

import re
from functools import lru_cache

from pyrmq.errors import InvalidParameterError

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LMQ_PREFIX = "%LMQ%"
AUTO_CREATE_TOPIC = "TBW102"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
CHECK_MAX_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
"""Whose offsets on the half and op topics say how far transactions are settled."""
REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
OWN_OFFSETS = frozenset((TRANSACTION_GROUP, REVIVE_GROUP))
"""Groups whose offsets the broker keeps for itself."""
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
TIMER_TOPIC = "rmq_sys_wheel_timer"
"""Where timer messages wait. [TimerMessageStore]"""
REVIVE_PREFIX = "rmq_sys_REVIVE_LOG_"
"""Of the topic, one a cluster, of what is popped and acknowledged. [KeyBuilder]"""
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
SYSTEM_GROUPS = frozenset(
    {
        "CID_ONSAPI_OWNER", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_PULL", "CID_ONS-HTTP-PROXY",
        "CLIENT_INNER_PRODUCER", "DEFAULT_CONSUMER", "DEFAULT_PRODUCER", "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP", "SELF_TEST_P_GROUP", "TOOLS_CONSUMER", "__MONITOR_CONSUMER",
    }
)  # fmt: skip
"""Groups that brokers and tools have made for themselves. [MixAll]"""

MAX_TOPIC = 127
MAX_LONG_TOPIC = 255
MAX_GROUP = 255
MAX_CONSUMER_GROUP = MAX_LONG_TOPIC - len(RETRY_PREFIX)
"""Of a longer one no message could be tried again: its retry topic would be too long."""
MAX_ROUTED = 512
"""Longest topic that a name server takes from a broker."""

NO_SEND_TOPICS = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_TOPIC,
        CHECK_MAX_TOPIC,
        TIMER_TOPIC,
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
"""Topics that clients may not send to; see `takes_sends`."""

SYSTEM_TOPICS = NO_SEND_TOPICS | {AUTO_CREATE_TOPIC, "BenchmarkTest"}

_ALLOWED = re.compile(r"[%|a-zA-Z0-9_-]+")
_ROUTED = re.compile(rf"[%|a-zA-Z0-9._+$@:#=~-]{{1,{MAX_ROUTED}}}")
"""More than a client may create: topics of pop retries are made of a group, a `+` and a topic."""
_UNSTORED = re.compile(r"[/\x00-\x1f\x7f-\x9f]")


@lru_cache(1024)
def check_topic(topic: str) -> None:
    """InvalidParameterError unless `topic` may be stored; it becomes a folder name."""
    long = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    limit = MAX_LONG_TOPIC if long else MAX_TOPIC
    if not _ALLOWED.fullmatch(topic) or len(topic) > limit:
        raise InvalidParameterError(
            f"the specified topic {topic[:64]!r} is illegal: "
            f"1 to {limit} of the characters %|a-zA-Z0-9_-"
        )


def is_stored_topic(topic: str) -> bool:
    """Whether messages of `topic` may be in a store: any text that can be the name of a folder.

    Clients send to what `check_topic` allows. Older tools made topics with other characters, and
    RocketMQ 5 makes `%RETRY%group+topic`. [KeyBuilder.buildPopRetryTopicV2]
    """
    try:
        size = len(topic.encode())
    except UnicodeEncodeError:
        return False
    in_bounds = 1 <= size <= MAX_LONG_TOPIC and topic not in (".", "..")
    return in_bounds and not _UNSTORED.search(topic)


def is_routed_topic(topic: str) -> bool:
    """Whether name servers take `topic` from a broker."""
    return bool(_ROUTED.fullmatch(topic))


def check_group(group: str) -> None:
    """InvalidParameterError unless `group` is a group name."""
    if not _ALLOWED.fullmatch(group) or len(group) > MAX_GROUP:
        raise InvalidParameterError(
            f"the specified group {group[:64]!r} is illegal: "
            f"1 to {MAX_GROUP} of the characters %|a-zA-Z0-9_-"
        )


def check_consumer_group(group: str) -> None:
    """As `check_group`, for a group that consumes."""
    check_group(group)
    if len(group) > MAX_CONSUMER_GROUP:
        raise InvalidParameterError(
            f"the specified group {group[:64]!r}... has {len(group)} characters; a consumer group "
            f"has at most {MAX_CONSUMER_GROUP}, as the topic of its retried messages "
            f"({RETRY_PREFIX} and the group) has at most {MAX_LONG_TOPIC}"
        )


def is_system_group(group: str) -> bool:
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def is_system_topic(topic: str) -> bool:
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def takes_sends(topic: str) -> bool:
    """Whether clients may send to a topic of this name. RocketMQ lets them write into the topics of
    timers and of pop: whoever does could deliver to any topic."""
    return topic not in NO_SEND_TOPICS and not topic.startswith(REVIVE_PREFIX)


def retry_topic(group: str) -> str:
    """The topic that a group's retried messages go to."""
    return RETRY_PREFIX + group


SEPARATOR = "%"
_SYSTEM_GROUP = "CID_RMQ_SYS_"
_SYSTEM_TOPICS = ("rmq_sys_", "RMQ_SYS_")


def _parts(name: str) -> tuple[str, str]:
    """The prefix of a retry or dead-letter topic, and the rest."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def with_namespace(namespace: str, name: str) -> str:
    """`name` as brokers know it. Names of the system and those that have the namespace stay."""
    if not namespace or name in SYSTEM_TOPICS or name.startswith((_SYSTEM_GROUP, *_SYSTEM_TOPICS)):
        return name
    prefix, rest = _parts(name)
    if rest.startswith(namespace + SEPARATOR):
        return name
    return f"{prefix}{namespace}{SEPARATOR}{rest}"


def without_namespace(namespace: str, name: str) -> str:
    """`name` as users know it."""
    prefix, rest = _parts(name)
    return prefix + rest.removeprefix(namespace + SEPARATOR) if namespace else name
