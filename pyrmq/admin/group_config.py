"""The configuration of a consumer group, as brokers keep it. [SubscriptionGroupConfig]"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyrmq.errors import ConfigError
from pyrmq.model.names import check_group

_NAMES = {
    "group_name": "groupName",
    "consume_enable": "consumeEnable",
    "consume_from_min_enable": "consumeFromMinEnable",
    "consume_broadcast_enable": "consumeBroadcastEnable",
    "consume_message_orderly": "consumeMessageOrderly",
    "retry_queue_nums": "retryQueueNums",
    "retry_max_times": "retryMaxTimes",
    "group_retry_policy": "groupRetryPolicy",
    "broker_id": "brokerId",
    "which_broker_when_consume_slowly": "whichBrokerWhenConsumeSlowly",
    "notify_consumer_ids_changed_enable": "notifyConsumerIdsChangedEnable",
    "group_sys_flag": "groupSysFlag",
    "consume_timeout_minute": "consumeTimeoutMinute",
    "subscription_data_set": "subscriptionDataSet",
    "attributes": "attributes",
}
"""Each member's name in JSON, in the order in which it is printed."""
_TYPES: dict[str, type | tuple[type, ...]] = {
    "group_retry_policy": dict,
    "subscription_data_set": (list, type(None)),
    "attributes": dict,
}


@dataclass(slots=True)
class GroupConfig:
    """One group. A broker takes it whole: what is not said becomes the default."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: dict[str, Any] = field(default_factory=lambda: {"type": "CUSTOMIZED"})
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[Any] | None = None
    attributes: dict[str, str] = field(default_factory=dict)
    """To a broker `+name` sets an attribute, and `-name` removes it."""

    def members(self) -> dict[str, Any]:
        """All members under their names in JSON."""
        return {name: getattr(self, own) for own, name in _NAMES.items()}

    def to_json(self) -> dict[str, Any]:
        return {k: v for k, v in self.members().items() if v is not None}

    @classmethod
    def from_json(cls, value: Mapping[Any, Any]) -> GroupConfig:
        """ConfigError for a member of the wrong type, or a name that is none. Members
        that are not known are left out."""
        name = value.get("groupName")
        if not isinstance(name, str):
            raise ConfigError("a group has a groupName")
        check_group(name)
        found = cls(name)
        for own, key in _NAMES.items():
            given = value.get(key)
            if given is None:
                continue
            wanted = _TYPES.get(own) or type(getattr(found, own))
            if not isinstance(given, wanted) or isinstance(given, bool) != (wanted is bool):
                raise ConfigError(f"{key} of group {name} is of another type")
            setattr(found, own, given)
        return found


def attributes_of(text: str) -> dict[str, str]:
    """`+a=b,-c` as brokers take it. ConfigError."""
    found: dict[str, str] = {}
    for part in (p.strip() for p in text.split(",")):
        name, sign, value = part.partition("=")
        name = name.strip()
        if not part:
            continue
        adds = name.startswith("+") and bool(sign) and bool(value.strip())
        removes = name.startswith("-") and not sign
        if not (adds or removes) or len(name) < 2:
            raise ConfigError(f"attributes are +name=value or -name, not {part!r}")
        if name in found:
            raise ConfigError(f"attribute {name[1:]} is given twice")
        found[name] = value.strip()
    return found
