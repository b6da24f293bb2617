"""The SQL92 filters of groups, and the bits that stand for them. [ConsumerFilterManager]

With enableCalcFilterBitMap the expressions of a topic's groups are evaluated as its messages are
stored, and the extensions of the queue entries keep what was true as bits (a Bloom filter). A pull
then reads no message whose bits say that it is not wanted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyrmq.broker import config_file
from pyrmq.broker.config import BrokerConfig
from pyrmq.broker.sql_filters import sql_filter
from pyrmq.broker.tables import PersistentTable
from pyrmq.engine import SqlFilter, Store, bitmap_bits, subscription_bits
from pyrmq.errors import SubscriptionError
from pyrmq.escape import escape
from pyrmq.model.subscription import SQL92, Subscription

log = logging.getLogger(__name__)

MAX_EVALUATED = 64
"""Groups of one topic whose expressions are evaluated as messages are stored."""
MAX_FILTERS = 10_000
"""Groups and topics that are remembered."""


@dataclass(slots=True)
class FilterData:
    """The filter of a group and a topic. [ConsumerFilterData]"""

    topic: str
    group: str
    expression: str
    filter: SqlFilter
    """With its bits, once they are set."""
    client_version: int
    bits: list[int]
    born_time: int = 0
    """Messages that were stored up to this time, or below this offset, do not have its bits."""
    born_offset: int = 0
    dead_time: int = 0
    """When the group stopped to want it; 0: it does."""

    def to_json(self, bit_num: int) -> dict[str, Any]:
        return {
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


def now_ms() -> int:
    return int(time.time() * 1000)


def bitmap_len(config: BrokerConfig) -> int:
    """Bytes of a bitmap; 0: there are none."""
    if not config.enable_calc_filter_bit_map:
        return 0
    return _bit_num(config) // 8


def _bit_num(config: BrokerConfig) -> int:
    return bitmap_bits(config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter)


class ConsumerFilters(PersistentTable):
    """The filters of all groups, by topic and group.

    `bornOffset` of a filter and `logEnd` of the file are not RocketMQ's. A file whose `logEnd` is
    not where the log ends was not written last: its filters count from there on.
    """

    def __init__(self, path: Path, config: BrokerConfig, store: Store) -> None:
        super().__init__(path)
        self._store = store
        self._error = config.max_error_rate_of_bloom_filter
        self._consumers = config.expect_consumer_num_use_filter
        self._keep_ms = config.filter_data_clean_time_span
        self._bit_num = _bit_num(config)
        self._evaluates = config.enable_calc_filter_bit_map
        self._topics: dict[str, dict[str, FilterData]] = {}
        self._topics_of: dict[str, set[str]] = {}
        """By group."""
        self._count = 0
        self._waiting: set[str] = set()
        """Topics that the store did not know when their expressions were to be evaluated."""
        self._is_full = False
        if self._evaluates:
            self._load()

    def of(self, group: str, topic: str, expression: str) -> SqlFilter:
        """The filter of a pull; SUBSCRIPTION_PARSE_FAILED if the expression does not compile."""
        data = self._topics.get(topic, {}).get(group) if self._evaluates else None
        if data is not None and data.expression == expression:
            return data.filter
        return sql_filter(expression)

    def subscribed(self, group: str, subscriptions: Mapping[str, Subscription]) -> None:
        """What a group wants from now on; nothing: it has no members."""
        if not self._evaluates:
            return
        wanted = {t: s for t, s in subscriptions.items() if s.expression_type == SQL92}
        for topic, subscription in wanted.items():
            self._register(group, topic, subscription)
        for topic in self._topics_of.get(group, set()) - wanted.keys():
            data = self._topics[topic][group]
            if not data.dead_time:
                data.dead_time = now_ms()
                self.changed()

    def _register(self, group: str, topic: str, wanted: Subscription) -> None:
        data = self._topics.get(topic, {}).get(group)
        if data is not None and data.expression == wanted.sub_string:
            if data.dead_time or data.client_version != wanted.version:
                data.dead_time, data.client_version = 0, wanted.version
                self.changed()
            return
        try:
            compiled = sql_filter(wanted.sub_string)
        except SubscriptionError:  # its pulls are told
            if data is not None:
                self._remove(data)
                self._tell(topic)
            return
        bits = subscription_bits(group, topic, self._error, self._consumers)
        new = FilterData(topic, group, wanted.sub_string, compiled, wanted.version, bits)
        if data is not None:
            self._remove(data)
        if self._add(new):
            self._tell(topic, new)

    def _add(self, data: FilterData) -> bool:
        groups = self._topics.get(data.topic, {})
        if len(groups) < MAX_EVALUATED and self._count < MAX_FILTERS:
            self._topics.setdefault(data.topic, groups)[data.group] = data
            self._topics_of.setdefault(data.group, set()).add(data.topic)
            self._count += 1
            return True
        if not self._is_full:
            self._is_full = True
            log.warning(
                "the filters of some groups have no bits: %d groups of a topic and %d in all do",
                MAX_EVALUATED,
                MAX_FILTERS,
            )
        return False

    def _remove(self, data: FilterData) -> None:
        groups, topics = self._topics[data.topic], self._topics_of[data.group]
        del groups[data.group]
        topics.discard(data.topic)
        self._count -= 1
        if not groups:
            del self._topics[data.topic]
        if not topics:
            del self._topics_of[data.group]

    def _tell(self, topic: str, *new: FilterData) -> None:
        """Has the filters of a topic evaluated; the `new` ones count from now on."""
        self.changed()
        groups = self._topics.get(topic, {}).values()
        told = self._store.set_expressions(topic, [(d.filter, d.bits) for d in groups])
        if told is None and groups:
            self._waiting.add(topic)
        if told is None:
            return
        self._waiting.discard(topic)
        for data in new:
            data.born_time, data.born_offset = told
            self._set_bits(data)

    def _set_bits(self, data: FilterData) -> None:
        data.filter = data.filter.with_bits(
            data.bits, self._bit_num // 8, data.born_time, data.born_offset
        )

    def look_again(self) -> None:
        """Has those evaluated whose topics the store knows by now, and forgets the long dead."""
        for topic in list(self._waiting):
            self._waiting.discard(topic)
            self._tell(topic, *self._topics.get(topic, {}).values())
        before = now_ms() - self._keep_ms
        for topic, groups in list(self._topics.items()):
            dead = [data for data in groups.values() if 0 < data.dead_time <= before]
            for data in dead:
                self._remove(data)
            if dead:
                self._tell(topic)

    def to_json(self) -> dict[str, Any]:
        topics = {
            topic: {
                "groupFilterData": {g: d.to_json(self._bit_num) for g, d in groups.items()},
                "topic": topic,
            }
            for topic, groups in sorted(self._topics.items())
        }
        return {"filterDataByTopic": topics, "logEnd": self._store.stats()["maxPhyOffset"]}

    def _load(self) -> None:
        file = config_file.load(self.path)
        topics = file.get("filterDataByTopic")
        rows = topics.values() if isinstance(topics, dict) else ()
        groups = (t.get("groupFilterData") for t in rows if isinstance(t, dict))
        found = [d for g in groups if isinstance(g, dict) for d in g.values()]
        loaded = [d for d in map(self._read, found) if d is not None]
        if len(loaded) < len(found):
            log.warning(
                "%s: %d of %d filters are not taken over: they are damaged, or have bits of other "
                "settings (expectConsumerNumUseFilter, maxErrorRateOfBloomFilter)",
                escape(self.path),
                len(found) - len(loaded),
                len(found),
            )
        end = self._store.stats()["maxPhyOffset"]
        is_last = file.get("logEnd", end) == end
        for data in loaded:
            self._add(data)
        for topic in list(self._topics):
            all_of = list(self._topics[topic].values())
            self._tell(topic, *(() if is_last else all_of))
            if is_last:
                for data in all_of:
                    self._set_bits(data)

    def _read(self, value: Any) -> FilterData | None:
        """A filter as it was written; None if it is no good, or would have other bits now."""
        match value:
            case {
                "topic": str(topic),
                "consumerGroup": str(group),
                "expression": str(expression),
                "clientVersion": int(version),
                "bornTime": int(born),
                "deadTime": int(dead),
                "bloomFilterData": {"bitNum": self._bit_num, "bitPos": list(bits)},
            }:
                pass
            case _:
                return None
        if bits != subscription_bits(group, topic, self._error, self._consumers):
            return None
        offset = value.get("bornOffset", 0)
        try:
            return FilterData(
                topic,
                group,
                expression,
                sql_filter(expression),
                version,
                bits,
                born,
                offset if isinstance(offset, int) else 0,
                dead or max(now_ms() - 30_000, born),  # no group has members yet
            )
        except SubscriptionError:
            return None
