"""What one pop reads: from which queues, in which order, from where, and what it hands out.
[PopMessageProcessor.popMsgFromQueue]

Everything but a read from the disk happens on the event loop at once. While a thread reads for a
queue of a group, other pops pass that queue by.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.pop.in_flight import InFlight
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.broker.tables.consumer_order import ConsumerOrder
from pyrmq.broker.tables.group_attributes import DEFAULT, PRIORITY_FACTOR
from pyrmq.broker.tables.groups import Group
from pyrmq.broker.tables.offset_file import QueueOfGroup
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Popped, Slice, SqlFilter, Store
from pyrmq.model import pop
from pyrmq.model.names import RETRY_PREFIX
from pyrmq.model.topic import TopicConfig, as_int
from pyrmq.net.clock import now_ms

MIN, MAX = 0, 1
"""Where a group begins that has no offset of a queue: at its first message, or at its last one."""
PRIORITY = "PRIORITY"
_FOUND, _REMOVING = 0, 2
_WRONG = (3, 4, 6)
"""Statuses of reads from an offset that is wrong: the right one is known then."""
READS = 64
"""Reads of one queue for one pop where messages are left out by the filter."""


class Engine(Protocol):
    """What pops need of `pyrmq.engine.Pops`."""

    def pop(
        self,
        topic: str,
        queue_id: int,
        group: str,
        offset: int,
        max_count: int = 32,
        *,
        pop_time: int,
        invisible_time: int,
        revive_queue: int,
        max_bytes: int = ...,
        tags: array[int] | None = None,
        sql: SqlFilter | None = None,
        original_topic: str | None = None,
        wait: bool = True,
    ) -> Popped | None: ...

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int = 32,
        *,
        max_bytes: int = ...,
        tags: array[int] | None = None,
        sql: SqlFilter | None = None,
        wait: bool = True,
    ) -> Popped | None: ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """A pop as it was checked. `queue_id` below 0: all queues of the topic."""

    group: str
    topic: str
    queue_id: int
    max_count: int
    invisible_time: int
    mode: int
    order: bool
    attempt_id: str | None
    tags: array[int]
    sql: SqlFilter | None


@dataclass(frozen=True, slots=True)
class Place:
    """A queue that a pop reads."""

    topic: str
    queue_id: int
    is_retry: bool

    def of(self, group: str) -> QueueOfGroup:
        return self.topic, group, self.queue_id


class Popping:
    """Makes attempts. What they change: committed offsets, the batches of orderly pops."""

    def __init__(
        self,
        live: LiveConfig,
        store: Store,
        engine: Engine,
        topics: TopicTable,
        offsets: OffsetTable,
        order: ConsumerOrder,
        stats: BrokerStats,
        in_flight: InFlight,
        *,
        rand: Callable[[int], int] = random.randrange,
    ) -> None:
        self.live = live
        self.store = store
        self.engine = engine
        self.topics = topics
        self.offsets = offsets
        self.order = order
        self.stats = stats
        self.in_flight = in_flight
        self.busy: set[QueueOfGroup] = set()
        """Queues of groups that a thread reads."""
        self.on_order: Callable[[], None] = lambda: None
        """Called when a batch of an orderly pop is recorded or changed."""
        self._rand = rand
        self._numbers = count()

    def begin(self, wanted: Wanted, group: Group | None = None) -> Attempt:
        """An attempt of a pop. `group`: its settings."""
        config = self.live.now
        revive = pop.ORDERLY
        if not wanted.order:
            revive = next(self._numbers) % config.revive_queue_num
        places = self._places(config, wanted, group)
        return Attempt(self, wanted, places, now_ms(), revive)

    def _places(self, config: BrokerConfig, wanted: Wanted, group: Group | None) -> list[Place]:
        topic = self.topics.require(wanted.topic)
        drawn = self._rand(100)
        by_priority = _by_priority(topic, wanted, group, drawn)
        probability = (
            config.pop_from_retry_probability_for_priority
            if by_priority
            else config.pop_from_retry_probability
        )
        start = 0 if by_priority else drawn
        own = [Place(wanted.topic, wanted.queue_id, False)]
        if wanted.queue_id < 0:
            own = self._queues(topic, start, config.priority_order_asc, is_retry=False)
        if wanted.order:
            return own
        # An answer has room for one kind of retry topic, so one of the two is drawn.
        name = pop.retry_topic_v1(wanted.topic, wanted.group)
        if config.enable_retry_topic_v2 and not (
            config.retrieve_message_from_pop_retry_topic_v1 and drawn % 2 == 0
        ):
            name = pop.retry_topic_v2(wanted.topic, wanted.group)
        known = self.topics.get(name)
        retries = (
            []
            if known is None
            else self._queues(known, start, config.priority_order_asc, is_retry=True)
        )
        return retries + own if drawn < probability else own + retries

    def _queues(self, topic: TopicConfig, start: int, asc: bool, *, is_retry: bool) -> list[Place]:
        n = topic.read_queue_nums
        order = range(n - 1, -1, -1) if asc else range(n)
        return [Place(topic.topic_name, (i + start) % n, is_retry) for i in order]

    def start_of(self, place: Place, group: str, mode: int, *, commit: bool = False) -> int:
        """Where a group reads a queue. `commit`: an offset that is new is kept at once."""
        offset = self.offsets.query(place.topic, group, place.queue_id)
        if offset is not None:
            return offset
        low, high = self.store.queue_range(place.topic, place.queue_id)
        low = max(low, 0)
        if mode != MIN and not place.topic.startswith(RETRY_PREFIX):
            in_memory = (
                self.live.now.init_pop_offset_by_check_msg_in_mem
                and low == 0
                and bool(self.store.in_memory(place.topic, place.queue_id, 0, wait=False))
            )
            low = 0 if in_memory else max(high - 1, 0)
        if commit:
            self.offsets.commit(place.topic, group, place.queue_id, low)
        return low

    def backlog(self, place: Place, group: str, mode: int) -> int:
        """How many messages of a queue a group has not popped yet."""
        high = self.store.queue_range(place.topic, place.queue_id)[1]
        return max(high - self.start_of(place, group, mode), 0)


def _by_priority(topic: TopicConfig, wanted: Wanted, group: Group | None, drawn: int) -> bool:
    """Whether the queues are read in the order of their priority."""
    if topic.attributes.get("message.type") != PRIORITY or wanted.order:
        return False
    attributes = group.values.get("attributes") if group is not None else None
    factor = attributes.get(PRIORITY_FACTOR) if isinstance(attributes, dict) else None
    return drawn < as_int(factor, DEFAULT)


@dataclass(slots=True)
class Attempt:
    """One pass over the queues of a pop. `run` until it gives no queue that needs the disk."""

    popping: Popping
    wanted: Wanted
    places: list[Place]
    pop_time: int
    revive_queue: int
    slices: list[bytes | Slice] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)
    offsets: list[str] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)
    rest: int = 0
    """Messages that it left behind, as far as they may be popped now."""
    more: bool = False
    """A queue was left in its middle: the next attempt goes on from there."""
    log_end: int = 0
    count: int = 0
    """Messages found so far."""
    nbytes: int = 0
    sql_here: bool = False
    """Whether an SQL92 expression may be evaluated on the event loop."""
    _next: int = 0
    _disk_reads: int = 0

    def run(self) -> Place | None:
        """Reads what is in memory. A queue: its messages are on the disk, and nothing was found so
        far. A thread reads it then, for `took_from_disk`, and `run` goes on."""
        popping, wanted = self.popping, self.wanted
        while self._next < len(self.places):
            place = self.places[self._next]
            start = self._start_unless_passed(place)
            if start is None:
                self._next += 1
                continue
            if not self.read_on(place, start, wait=False):
                if not self.slices:
                    return place
                self.rest += popping.backlog(place, wanted.group, wanted.mode)
            self._next += 1
        return None

    def _start_unless_passed(self, place: Place) -> int | None:
        """Where a queue is read from; None if it gives nothing to this pop."""
        popping, wanted = self.popping, self.wanted
        key = place.of(wanted.group)
        is_full = self.count >= wanted.max_count or self.nbytes >= self._most_bytes
        if is_full or key in popping.busy or popping.in_flight.is_full(key):
            if not wanted.order or is_full:
                self.rest += popping.backlog(place, wanted.group, wanted.mode)
            return None
        start = self.start(place)
        if wanted.order:
            if popping.order.is_blocked(
                *key, now_ms(), invisible_time=wanted.invisible_time, attempt_id=wanted.attempt_id
            ):
                return None
            popping.in_flight.forget(key)
            popping.order.check_room(*key)
        low, high = popping.store.queue_range(place.topic, place.queue_id)
        is_empty = low <= start == high or (start == 0 and high <= 0)
        return None if is_empty else start

    @property
    def _most_bytes(self) -> int:
        return self.popping.live.now.max_transfer_bytes_on_message_in_memory

    def start(self, place: Place) -> int:
        """Where the queue is read from: where an operator has sent the group, or it has got to."""
        popping, group = self.popping, self.wanted.group
        key = place.of(group)
        moved = popping.offsets.take_reset(key)
        if moved is not None:
            popping.order.clear(*key)
            return moved
        return popping.start_of(place, group, self.wanted.mode, commit=True)

    def read_on(self, place: Place, start: int, *, wait: bool) -> bool:
        """Reads a queue until something is found, or it ends. False: the disk is needed."""
        for _ in range(READS):
            popped = self.read(place, start, wait=wait)
            if popped is None:
                return False
            if self.took(place, start, popped):
                return True
            start = popped.next_offset
        self.more = True
        return True

    def read(self, place: Place, start: int, *, wait: bool) -> Popped | None:
        """One read of a queue; with `wait` for a thread."""
        wanted, engine = self.wanted, self.popping.engine
        if wanted.sql is not None and not (wait or self.sql_here):
            return None
        most = wanted.max_count - self.count
        max_bytes = max(self._most_bytes - self.nbytes, 1)
        tags = wanted.tags or None
        if wanted.order:
            return engine.read(
                place.topic,
                place.queue_id,
                start,
                most,
                max_bytes=max_bytes,
                tags=tags,
                sql=wanted.sql,
                wait=wait,
            )
        shown = place.is_retry and not self.popping.live.now.pop_response_return_actual_retry_topic
        return engine.pop(
            place.topic,
            place.queue_id,
            wanted.group,
            start,
            most,
            pop_time=self.pop_time,
            invisible_time=wanted.invisible_time,
            revive_queue=self.revive_queue,
            max_bytes=max_bytes,
            tags=tags,
            sql=wanted.sql,
            original_topic=wanted.topic if shown else None,
            wait=wait,
        )

    def took(self, place: Place, start: int, popped: Popped) -> bool:
        """Keeps what a read gave, and how far the group is. Whether the queue is done with: False
        if messages were left out, and there are more behind them."""
        popping, wanted = self.popping, self.wanted
        if not popped.count:
            if popped.next_offset != start and popped.next_offset >= 0:
                popping.offsets.commit(
                    place.topic, wanted.group, place.queue_id, popped.next_offset
                )
                return popped.next_offset >= popped.max_offset
            return True
        retry = pop.retry_of(place.topic)
        if wanted.order:
            self._hand_out_in_order(place, start, popped)
        else:
            popping.offsets.commit(place.topic, wanted.group, place.queue_id, popped.next_offset)
            visible_at = self.pop_time + wanted.invisible_time
            popping.in_flight.popped(place.of(wanted.group), popped.count, visible_at)
        self.starts.append(pop.start_info(retry, place.queue_id, popped.start_offset))
        self.offsets.append(pop.offsets_info(retry, place.queue_id, popped.offsets))
        self.slices += popped.slices
        self.count += popped.count
        self.nbytes += popped.nbytes
        self.rest += popped.rest
        self.log_end = max(self.log_end, popped.log_end)
        popping.stats.pulled(place.topic, wanted.group, 1, popped.count, popped.nbytes)
        return True

    def took_from_disk(self, place: Place, start: int, popped: Popped) -> None:
        """`took`, of the queue that `run` has stopped at."""
        self._disk_reads += 1
        if self.took(place, start, popped):
            self._next += 1
        elif self._disk_reads >= READS:
            self.more = True
            self._next += 1

    def _hand_out_in_order(self, place: Place, start: int, popped: Popped) -> None:
        popping, wanted = self.popping, self.wanted
        retry = pop.retry_of(place.topic)
        counts = popping.order.record(
            *place.of(wanted.group),
            popped.offsets,
            pop_time=self.pop_time,
            invisible_time=wanted.invisible_time,
            now=now_ms(),
            attempt_id=wanted.attempt_id,
        )
        popping.offsets.commit(place.topic, wanted.group, place.queue_id, start)
        for offset, consumed in counts.by_offset.items():
            self.counts.append(pop.count_info(retry, place.queue_id, consumed, offset))
        self.counts.append(pop.count_info(retry, place.queue_id, counts.least))
        popping.on_order()

    def fields(self) -> dict[str, str | int | bool]:
        """Of the answer. [PopMessageResponseHeader]"""
        found: dict[str, str | int | bool] = {
            "popTime": self.pop_time,
            "invisibleTime": self.wanted.invisible_time,
            "reviveQid": self.revive_queue,
            "restNum": self.rest,
            "startOffsetInfo": ";".join(self.starts),
            "msgOffsetInfo": ";".join(self.offsets),
        }
        if self.wanted.order:
            found["orderCountInfo"] = ";".join(self.counts)
        return found
