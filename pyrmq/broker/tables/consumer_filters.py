"""The SQL92 filters of groups, and the bits that stand for them. [ConsumerFilterManager]

With enableCalcFilterBitMap the expressions of a topic's groups are evaluated as its messages are
stored, and the extensions of the queue entries keep what was true as bits (a Bloom filter). A pull
then reads no message whose bits say that it is not wanted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyrmq.broker.bounds import LoopTime
from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.config_file import PersistentTable
from pyrmq.broker.tables.filter_data import (
    FilterData,
    bit_num,
    bits_of,
    has_its_bits,
    now_ms,
    read_data,
    sql_filter,
)
from pyrmq.engine import SqlFilter, Store
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.names import check_group, check_topic
from pyrmq.model.subscription import SQL92, Subscription

log = logging.getLogger(__name__)

MAX_EVALUATED = 64
"""Groups of one topic whose expressions are evaluated as messages are stored."""
MAX_FILTERS = 2000
"""Groups and topics that are remembered."""
MAX_TEXT = 1 << 20
"""Characters of their expressions in all; compiled they take some 15 times as many bytes."""


def bitmap_len(config: BrokerConfig) -> int:
    """Bytes of a bitmap; 0: there are none."""
    return bit_num(config) // 8 if config.enable_calc_filter_bit_map else 0


class ConsumerFilters(PersistentTable):
    """The filters of all groups, by topic and group.

    `bornOffset` of a filter and `logEnd` of the file are not RocketMQ's. `logEnd` is written at a
    stop. Filters of a file whose `logEnd` is not where the log ends count from there on: the broker
    was killed, or the file is older, or RocketMQ's, whose filters are born before they count.
    """

    def __init__(self, path: Path, config: BrokerConfig, store: Store) -> None:
        super().__init__(path)
        self._store = store
        self._config = config
        self._bit_num = bit_num(config)
        self._evaluates = config.enable_calc_filter_bit_map
        self._topics: dict[str, dict[str, FilterData]] = {}
        self._topics_of: dict[str, set[str]] = {}
        """By group."""
        self._dead: dict[tuple[str, str], FilterData] = {}
        """By topic and group; who died first comes first."""
        self._count = self._text = 0
        """How many there are; characters of their expressions."""
        self._waiting: set[str] = set()
        """Topics that the store did not know when their expressions were to be evaluated, or whose
        expressions it could not take as its disk was slow."""
        self._ended: dict[str, list[SqlFilter]] = {}
        """By topic: filters that are evaluated no more once the store is told so."""
        self._time = LoopTime(0.05, 1.0)
        """For what heartbeats bring."""
        self._later: dict[str, dict[str, Subscription]] = {}
        """Filters that there was no time to compile, by group and topic."""
        self._kept: dict[str, dict[str, Any]] = {}
        """Rows of the file that are not understood, by topic and group."""
        self._is_full = False
        self._is_stopped = False
        if self._evaluates:
            self._load()

    def of(self, group: str, topic: str, expression: str) -> SqlFilter:
        """The filter of a pull; SUBSCRIPTION_PARSE_FAILED if the expression does not compile."""
        data = self._topics.get(topic, {}).get(group) if self._evaluates else None
        if data is not None and data.expression == expression:
            return data.filter
        return sql_filter(expression)

    def subscribed(self, group: str, subscriptions: Mapping[str, Subscription]) -> None:
        """A group wants this from now on; nothing: it has no members."""
        if not self._evaluates:
            return
        self._later.pop(group, None)
        wanted = {t: s for t, s in subscriptions.items() if s.expression_type == SQL92}
        for topic in self._topics_of.get(group, set()) - wanted.keys():
            self._die(self._topics[topic][group])
        for topic, subscription in wanted.items():
            self._register(group, topic, subscription)

    def _die(self, data: FilterData) -> None:
        if not data.dead_time:
            data.dead_time = now_ms()
            self._dead[data.topic, data.group] = data
            self.changed()

    def _register(self, group: str, topic: str, wanted: Subscription) -> None:
        data = self._topics.get(topic, {}).get(group)
        if data is not None and data.expression == wanted.sub_string:
            if data.dead_time or data.client_version != wanted.version:
                data.dead_time, data.client_version = 0, wanted.version
                self._dead.pop((topic, group), None)
                self.changed()
            return
        # What it has wanted is evaluated still, until its place is needed.
        if data is not None:
            self._die(data)
        if not self._time.may_begin():
            self._later.setdefault(group, {})[topic] = wanted
            return
        began = time.thread_time()
        try:
            if self._make_room(group, topic, len(wanted.sub_string)):
                self._compile(group, topic, wanted)
        finally:
            self._time.took(time.thread_time() - began)

    def _compile(self, group: str, topic: str, wanted: Subscription) -> None:
        data = self._topics.get(topic, {}).get(group)
        if data is not None:
            self._remove(data)
        try:
            check_group(group)
            check_topic(topic)
            compiled = sql_filter(wanted.sub_string)
        except PyrmqError:  # its pulls are told
            if data is not None:
                self._tell(topic)
            return
        bits = bits_of(self._config, group, topic)
        self._add(FilterData(topic, group, wanted.sub_string, compiled, wanted.version, bits))
        self._tell(topic)

    def _make_room(self, group: str, topic: str, length: int) -> bool:
        """Has one more fit, also in place of those that nobody wants any more."""
        groups = self._topics.get(topic, {})
        if len(groups) >= MAX_EVALUATED and group not in groups:
            dead = [data for data in groups.values() if data.dead_time]
            if not dead:
                return self._full()
            self._remove(min(dead, key=lambda data: data.dead_time))
        while self._dead and not self._has_room(length):
            data = next(iter(self._dead.values()))
            self._remove(data)
            self._tell(data.topic)
        return self._has_room(length) or self._full()

    def _has_room(self, length: int) -> bool:
        return self._count < MAX_FILTERS and self._text + length <= MAX_TEXT

    def _full(self) -> bool:
        if not self._is_full:
            self._is_full = True
            log.warning(
                "the filters of some groups have no bits: %d groups of a topic do, and %d in all "
                "with expressions of %d characters",
                MAX_EVALUATED,
                MAX_FILTERS,
                MAX_TEXT,
            )
        return False

    def _add(self, data: FilterData) -> None:
        self._topics.setdefault(data.topic, {})[data.group] = data
        self._topics_of.setdefault(data.group, set()).add(data.topic)
        if data.dead_time:
            self._dead[data.topic, data.group] = data
        self._count += 1
        self._text += len(data.expression)
        self.changed()

    def _remove(self, data: FilterData) -> None:
        groups, topics = self._topics[data.topic], self._topics_of[data.group]
        del groups[data.group]
        topics.discard(data.topic)
        self._dead.pop((data.topic, data.group), None)
        if data.born_offset >= 0:
            self._ended.setdefault(data.topic, []).append(data.filter)
        self._count -= 1
        self._text -= len(data.expression)
        if not groups:
            del self._topics[data.topic]
        if not topics:
            del self._topics_of[data.group]
        self.changed()

    def _tell(self, topic: str) -> None:
        """Has the filters of a topic evaluated; those that were not so far count from now on."""
        groups = self._topics.get(topic, {}).values()
        if self._store.stall():  # it would wait for the put lock
            self._waiting.add(topic)
            return
        told = self._store.set_expressions(
            topic, [(d.filter, d.bits) for d in groups], self._ended.get(topic, [])
        )
        if told is None:
            if groups or topic in self._ended:
                self._waiting.add(topic)
            return
        self._ended.pop(topic, None)
        self._waiting.discard(topic)
        for data in groups:
            if data.born_offset < 0:
                data.born(*told, self._bit_num // 8)
                self.changed()

    def look_again(self) -> None:
        """Has those evaluated for which there was no time, or whose topics the store did not know,
        and forgets the long dead."""
        for group in list(self._later):
            if not self._time.may_begin():
                break
            for topic, subscription in self._later.pop(group).items():
                self._register(group, topic, subscription)
        for topic in list(self._waiting):
            self._waiting.discard(topic)
            self._tell(topic)
        before = now_ms() - self._config.filter_data_clean_time_span
        dead = [data for data in self._dead.values() if data.dead_time <= before]
        for data in dead:
            self._remove(data)
        for topic in {data.topic for data in dead}:
            self._tell(topic)

    def stopped(self) -> None:
        """No more messages come: the file that is written now is the last one."""
        if self._evaluates:
            self._is_stopped = True
            self.changed()

    def to_json(self) -> dict[str, Any]:
        topics = {}
        for topic in sorted(self._topics.keys() | self._kept.keys()):
            rows = {g: d.to_json(self._bit_num) for g, d in self._topics.get(topic, {}).items()}
            rows = self._kept.get(topic, {}) | rows
            topics[topic] = {"groupFilterData": rows, "topic": topic}
        end = self._store.stats()["maxPhyOffset"] if self._is_stopped else -1
        return {"filterDataByTopic": topics, "logEnd": end}

    def _load(self) -> None:
        file = self.load("filterDataByTopic", "logEnd")
        is_last = file.get("logEnd") == self._store.stats()["maxPhyOffset"]
        found = list(_rows(file.get("filterDataByTopic")))
        loaded = []
        for topic, group, value in found:
            data = read_data(value, self._config, is_last)
            if data is not None:
                loaded.append(data)
            elif has_its_bits(value, self._config):
                self._kept.setdefault(topic, {})[group] = value
        left_out = len(found) - len(loaded) - sum(map(len, self._kept.values()))
        if left_out:
            log.warning(
                "%s: %d of %d filters are not taken over: they are damaged, or have bits of other "
                "settings (expectConsumerNumUseFilter, maxErrorRateOfBloomFilter)",
                escape(self.path),
                left_out,
                len(found),
                extra=about(path=self.path),
            )
        config_file.tell_kept(
            self.path,
            [f"{group} of {topic}" for topic, rows in self._kept.items() for group in rows],
        )
        for data in sorted(loaded, key=lambda data: data.dead_time):
            if len(self._topics.get(data.topic, {})) < MAX_EVALUATED and self._has_room(
                len(data.expression)
            ):
                self._add(data)
        for topic in list(self._topics):
            self._tell(topic)
        self.changed()  # it is not the last one any more


def _rows(topics: Any) -> Iterator[tuple[str, str, Any]]:
    """Topic, group and value of each filter of a file."""
    for topic, row in (topics if isinstance(topics, dict) else {}).items():
        groups = row.get("groupFilterData") if isinstance(row, dict) else None
        for group, value in (groups if isinstance(groups, dict) else {}).items():
            yield str(topic), str(group), value
