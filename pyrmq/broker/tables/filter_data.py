"""SQL92 filters of subscriptions: compiled once for each expression, kept by group and topic.
[ConsumerFilterData]
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.engine import SqlFilter, bitmap_bits, subscription_bits
from pyrmq.errors import ResponseError, SubscriptionError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.subscription import MAX_EXPRESSION, SQL92, TAG, cached_by_text


@cached_by_text
def _compile(expression: str) -> SqlFilter:
    """ValueError, which is not kept, if it does not compile."""
    return SqlFilter(expression)


def check_kind(config: BrokerConfig, kind: str) -> None:
    """SYSTEM_ERROR for kinds of expressions that this broker does not evaluate, as it is set."""
    if kind == TAG or (kind == SQL92 and config.enable_property_filter):
        return
    hint = ": set enablePropertyFilter=true in its broker.conf" if kind == SQL92 else ""
    raise ResponseError(
        f"The broker does not support consumer to filter message by {kind[:64]}{hint}",
        ResponseCode.SYSTEM_ERROR,
    )


def sql_filter(expression: str) -> SqlFilter:
    """SUBSCRIPTION_PARSE_FAILED, with a text that says where and why, if it does not compile."""
    try:
        if len(expression) > MAX_EXPRESSION:  # before it is kept as a key
            raise ValueError(f"the expression has more than {MAX_EXPRESSION} characters")
        return _compile(expression)
    except ValueError as e:
        raise SubscriptionError(str(e), ResponseCode.SUBSCRIPTION_PARSE_FAILED) from None


def now_ms() -> int:
    return int(time.time() * 1000)


def bit_num(config: BrokerConfig) -> int:
    return bitmap_bits(config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter)


def bits_of(config: BrokerConfig, group: str, topic: str) -> list[int]:
    error, consumers = config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter
    return subscription_bits(group, topic, error, consumers)


@dataclass(slots=True)
class FilterData:
    """The filter of one group for one topic.

    Two things change, each by itself (`ConsumerFilters` changes them):

    - its bits (`born_offset`): not counted, -1 -> counted, by `born`, once the store evaluates it;
    - whether it is wanted (`dead_time`): wanted, 0 -> dead, when its group stops to want it ->
      wanted, when the group does again; or removed, when it was dead for
      filterDataCleanTimeSpan or its place is needed.
    """

    topic: str
    group: str
    expression: str
    filter: SqlFilter
    """With its bits, once they count."""
    client_version: int
    bits: list[int]
    born_time: int = field(default_factory=now_ms)
    """Messages that were stored up to this time, or below this offset, do not have its bits."""
    born_offset: int = -1
    """-1: the store was not told of it yet."""
    dead_time: int = 0
    """When the group stopped to want it; 0: it does."""
    others: dict[Any, Any] = field(default_factory=dict)
    """What else its row of the file says. Nothing here uses it; it is kept."""

    def born(self, time: int, offset: int, bitmap_len: int) -> None:
        """Has its bits count from here on."""
        self.born_time, self.born_offset = time, offset
        self.filter = self.filter.with_bits(self.bits, bitmap_len, time, offset)

    def to_json(self, bit_num: int) -> dict[str, Any]:
        return self.others | {
            "bloomFilterData": {"bitNum": bit_num, "bitPos": self.bits},
            "bornOffset": self.born_offset,
            "bornTime": self.born_time,
            "clientVersion": self.client_version,
            "consumerGroup": self.group,
            "dead": self.dead_time != 0,
            "deadTime": self.dead_time,
            "expression": self.expression,
            "expressionType": SQL92,
            "topic": self.topic,
        }


def has_its_bits(value: Any, config: BrokerConfig) -> bool:
    """Whether a row has the bits of its group and topic, with these settings: one that `read_data`
    does not take then says something that another version may understand."""
    match value:
        case {
            "topic": str(topic),
            "consumerGroup": str(group),
            "bloomFilterData": {"bitNum": int(num), "bitPos": list(bits)},
        } if num == bit_num(config):
            try:
                return bits == bits_of(config, group, topic)
            except UnicodeEncodeError:
                return False
    return False


def read_data(value: Any, config: BrokerConfig, is_last: bool) -> FilterData | None:
    """A filter as it was written; None if it is no good, or would have other bits now. Its bits
    count where they did only if the file was written last."""
    bits_now = bit_num(config)
    match value:
        case {
            "topic": str(topic),
            "consumerGroup": str(group),
            "expression": str(expression),
            "expressionType": "SQL92",
            "clientVersion": int(version),
            "bornTime": int(born),
            "deadTime": int(dead),
            "bloomFilterData": {"bitNum": int(num), "bitPos": list(bits)},
        } if num == bits_now:
            pass
        case _:
            return None
    offset = value.get("bornOffset", -1)
    try:
        if bits != bits_of(config, group, topic):
            return None
        data = FilterData(topic, group, expression, sql_filter(expression), version, bits, born)
    except (SubscriptionError, UnicodeEncodeError):
        return None
    ours = data.to_json(bits_now)
    data.others = {key: item for key, item in value.items() if key not in ours}
    data.dead_time = dead or max(now_ms() - 30_000, born)  # no group has members yet
    if is_last and isinstance(offset, int) and offset >= 0:
        data.born(born, offset, bits_now // 8)
    return data
