"""The topics and groups that users of a broker made, as the broker has them."""

from __future__ import annotations

from typing import Any

from pyrmq.admin import values
from pyrmq.admin.link import AdminLink
from pyrmq.errors import ProtocolError
from pyrmq.model.codes import RequestCode
from pyrmq.model.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_GROUP_PREFIX, is_system_topic
from pyrmq.model.topic import TopicConfig, as_int
from pyrmq.net import fastjson

TABLE_TIMEOUT = 10.0
MAX_VALUES = 4 << 20
"""Most values of a table that is accepted from a broker."""
PREDEFINED_GROUPS = frozenset(
    {
        "DEFAULT_CONSUMER", "DEFAULT_PRODUCER", "TOOLS_CONSUMER", "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER", "__MONITOR_CONSUMER", "CLIENT_INNER_PRODUCER", "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
    }
)  # fmt: skip
"""Groups that RocketMQ's brokers and tools create. [MixAll]"""
Table = dict[str, Any]


async def user_topics(link: AdminLink, address: str, *, special: bool) -> Table:
    """A broker's table of topics, those of its users. `special`: also retry and dead-letter topics.
    [getUserTopicConfig]"""
    found = await _table(link, address, RequestCode.GET_ALL_TOPIC_CONFIG, "topicConfigTable")
    system = await link.ask_json(
        address,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        timeout=link.patience(TABLE_TIMEOUT),
    )
    named = system.get("topicList")
    hidden = {str(t) for t in named} if isinstance(named, list) else set()
    table = found["topicConfigTable"]
    found["topicConfigTable"] = {
        name: row
        for name, row in table.items()
        if name not in hidden
        and not is_system_topic(name)
        and (special or not name.startswith((RETRY_PREFIX, DLQ_PREFIX)))
        and 0 <= as_int(row.get("perm"), 6) < 8
    }
    return found


async def all_topics(link: AdminLink, address: str) -> dict[str, TopicConfig]:
    """The configuration of every topic of a broker, in one request. [GET_ALL_TOPIC_CONFIG]"""
    found = await _table(link, address, RequestCode.GET_ALL_TOPIC_CONFIG, "topicConfigTable")
    return {n: TopicConfig.from_json(n, row) for n, row in found["topicConfigTable"].items()}


async def user_groups(link: AdminLink, address: str) -> Table:
    """A broker's table of groups, those of its users. [getUserSubscriptionGroup]"""
    name = "subscriptionGroupTable"
    found = await _table(link, address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, name)
    found[name] = {
        group: row
        for group, row in found[name].items()
        if not group.startswith(SYSTEM_GROUP_PREFIX) and group not in PREDEFINED_GROUPS
    }
    return found


async def _table(link: AdminLink, address: str, code: int, name: str) -> Table:
    """A broker's table and its dataVersion. ProtocolError for a row that is no object."""
    answer = await link.ask(address, code, timeout=link.patience(TABLE_TIMEOUT))
    body = fastjson.loads_object(answer.body, MAX_VALUES) if answer.body else {}
    rows = values.table(body, name)
    if not all(isinstance(row, dict) for row in rows.values()):
        raise ProtocolError(f"{name} has a row that is no object")
    table = {str(k): {str(n): v for n, v in row.items()} for k, row in rows.items()}
    return {name: table, "dataVersion": body.get("dataVersion")}
