"""What topics store, what groups get of them, and how far groups are behind: the rows of a page.

There is a row for each topic, and one for each pair of group and topic. Those beyond
metricsMaxSeries share one (`pyrmq.metrics.folding`).
"""

from __future__ import annotations

from pyrmq.broker.metrics import families as f
from pyrmq.broker.metrics.lag import Ages, Lags, Place
from pyrmq.broker.metrics.rows import LOOK, Choices, TotalRows
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.broker.tables.groups import is_own
from pyrmq.broker.tables.tables import Tables
from pyrmq.engine import Store
from pyrmq.metrics.families import OTHERS, flag, label_text
from pyrmq.metrics.folding import Folding, Item
from pyrmq.metrics.page import Page
from pyrmq.model.names import RETRY_PREFIX
from pyrmq.net.server.turns import in_turns

MOST_AGES = 4096
"""Messages whose store time is asked for, for one page."""

Pair = tuple[str, str]
"""Topic and group."""


class TopicRows:
    """What topics store, and how large the messages are that clients sent: a source of a page."""

    def __init__(self, store: Store, tables: Tables, most: int) -> None:
        self._store = store
        self._sizes_of = store.native.message_sizes
        self._sizes = TotalRows({f.SIZE_IN: 0}, len(f.SIZE_IN.bounds) + 3, most)
        self._topics = tables.topics.table
        self._rows: Folding[str] = Folding(most, 2)
        self._choices = Choices()

    async def __call__(self, page: Page) -> None:
        add_messages, add_bytes = page.rows(f.MESSAGES_IN).add, page.rows(f.BYTES_IN).add
        rows, sizes = self._rows, self._sizes
        is_system = self._topics.is_system
        rows.begin()
        sizes.begin()

        def add(put: tuple[str, int, int]) -> None:
            topic = put[0]
            item = rows.see(topic, put[1:])
            if item.kept:
                labels = item.labels or self._label(topic, item)
                messages, nbytes = item.counters
                add_messages(labels, messages)
                add_bytes(labels, nbytes)
            for kind, row in self._sizes_of(topic):
                key = (topic, kind.lower(), flag(is_system(topic)))
                sizes.add(page, key, tuple(row))

        await in_turns(self._store.puts(), add, LOOK)
        await rows.end()
        await sizes.end(page)
        if rows.has_shared:
            others = label_text(dict.fromkeys(f.MESSAGES_IN.labels, OTHERS))
            add_messages(others, rows.shared[0])
            add_bytes(others, rows.shared[1])
        page.add(f.FOLDED_TOPICS, rows.folded)
        await self._choices.look(rows)

    def _label(self, topic: str, item: Item) -> str:
        known = self._topics.get(topic)
        item.labels = label_text(
            {
                "topic": topic,
                "message_type": known.message_type.lower() if known else "unspecified",
                "is_system": flag(self._topics.is_system(topic)),
            }
        )
        return item.labels


class PairRows:
    """What groups get, and how far they are behind: a source of a page."""

    def __init__(self, store: Store, tables: Tables, stats: BrokerStats, most: int) -> None:
        self._store = store
        self._tables = tables
        self._stats = stats
        self._rows: Folding[Pair] = Folding(most, 2)
        self._choices = Choices()
        self._ages = Ages(store)

    async def __call__(self, page: Page) -> None:
        offsets = self._tables.offsets
        await offsets.take_granted_in_turns()
        lags = Lags(self._store, self._tables)
        rows, got = self._rows, self._stats.got
        rows.begin()
        late: list[Pair] = []
        add_messages, add_bytes = page.rows(f.MESSAGES_OUT).add, page.rows(f.BYTES_OUT).add
        add_lag, add_ready = page.rows(f.LAG).add, page.rows(f.READY).add
        add_inflight = page.rows(f.INFLIGHT).add
        shared_lag = shared_ready = 0

        def add(pair: Pair) -> None:
            nonlocal shared_lag, shared_ready
            topic, group = pair
            if not lags.exists(topic):
                return
            messages, nbytes = got(topic, group)
            item = rows.see(pair, (messages, nbytes))
            wanted = lags.is_wanted(topic, group)
            lag, ready = lags.behind(topic, group) if wanted else (0, 0)
            item.weight = lag
            if not item.kept:
                shared_lag += lag
                shared_ready += ready
                return
            labels = item.labels or self._label(topic, group, item)
            messages, nbytes = item.counters
            add_messages(labels, messages)
            add_bytes(labels, nbytes)
            if wanted:
                add_lag(labels, lag)
                add_inflight(labels, lag - ready)
                add_ready(labels, ready)
                late.append(pair)

        def add_by_key(key: str) -> None:
            """Of a group without an offset: it broadcasts."""
            topic, _, group = key.partition("@")
            if (topic, group) not in offsets.offsets:
                add((topic, group))

        await in_turns(list(offsets.offsets), add, LOOK)
        await in_turns(self._stats.pairs(), add_by_key, LOOK)
        await rows.end()
        if rows.has_shared:
            others = label_text(dict.fromkeys(f.MESSAGES_OUT.labels, OTHERS))
            add_messages(others, rows.shared[0])
            add_bytes(others, rows.shared[1])
            add_lag(others, shared_lag)
            add_inflight(others, shared_lag - shared_ready)
            add_ready(others, shared_ready)
        page.add(f.FOLDED_PAIRS, rows.folded)
        await self._add_latencies(page, lags, late)
        await self._choices.look(rows)

    async def _add_latencies(self, page: Page, lags: Lags, pairs: list[Pair]) -> None:
        """The store is asked how old messages are, MOST_AGES of them at most; pairs beyond that
        have no row."""
        add_lag, add_queueing = page.rows(f.LAG_LATENCY).add, page.rows(f.QUEUEING).add
        asked: list[tuple[str, list[Place], list[Place]]] = []
        places: dict[Place, None] = {}

        def look(pair: Pair) -> None:
            item = self._rows[pair]
            if not item.weight:
                add_lag(item.labels, 0)
                add_queueing(item.labels, 0)
            elif len(places) < MOST_AGES:
                uncommitted, unread = lags.first(*pair)
                places.update(dict.fromkeys(uncommitted))
                places.update(dict.fromkeys(unread))
                asked.append((item.labels, uncommitted, unread))

        def add(row: tuple[str, list[Place], list[Place]]) -> None:
            labels, uncommitted, unread = row
            add_lag(labels, self._ages.oldest(uncommitted))
            add_queueing(labels, self._ages.oldest(unread))

        await in_turns(pairs, look, LOOK)
        await self._ages.ask(list(places))
        await in_turns(asked, add, LOOK)

    def _label(self, topic: str, group: str, item: Item) -> str:
        item.labels = label_text(
            {
                "consumer_group": group,
                "topic": topic,
                "is_retry": flag(topic.startswith(RETRY_PREFIX)),
                "is_system": flag(self._tables.topics.table.is_system(topic) or is_own(group)),
            }
        )
        return item.labels


class DeadLetterRows:
    """Dead letters: a source of a page."""

    def __init__(self, tables: Tables, stats: BrokerStats, most: int) -> None:
        self._topics = tables.topics.table
        self._stats = stats
        self._rows: Folding[str] = Folding(most, 1)
        self._choices = Choices()

    async def __call__(self, page: Page) -> None:
        rows, add_row = self._rows, page.rows(f.DEAD).add
        rows.begin()

        def add(row: tuple[str, int]) -> None:
            item = rows.see(row[0], row[1:])
            if item.kept:
                add_row(item.labels or self._label(row[0], item), item.counters[0])

        await in_turns(self._stats.dead_letters(), add, LOOK)
        await rows.end()
        if rows.has_shared:
            add_row(label_text(dict.fromkeys(f.DEAD.labels, OTHERS)), rows.shared[0])
        await self._choices.look(rows)

    def _label(self, key: str, item: Item) -> str:
        topic, _, group = key.partition("@")
        item.labels = label_text(
            {
                "consumer_group": group,
                "topic": topic,
                "is_system": flag(self._topics.is_system(topic) or is_own(group)),
            }
        )
        return item.labels
