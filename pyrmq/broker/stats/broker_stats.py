"""The broker's statistics: by topic, by group and for the whole broker.
[BrokerStatsManager, StoreStatsService, BrokerStats]

Nothing here is done for each message. The engine counts what topics stored; it is read at each
sampling. What groups got is counted once for each pull that Python answers; for pulls that the
engine answers it is counted when their rows are taken.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import date
from functools import partial

import trio

from pyrmq.broker.requests import fields
from pyrmq.broker.stats.create_times import CreateTimes
from pyrmq.broker.stats.items import DAY, HOUR, MINUTE, NOTHING, Figures, StatsItemSet, Window
from pyrmq.broker.stats.put_times import PutTimes, sends
from pyrmq.broker.stats.use import Use
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Command, Store
from pyrmq.errors import ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.net import fastjson
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import in_turns

SPANS = (1, 6, 60)
"""Samplings that the rates go back: 10, 60 and 600 seconds."""
log = logging.getLogger(__name__)

PERIOD = 10.0
"""Seconds between two samplings."""
MOST = 32_768
"""Topics of which statistics are kept, and pairs of topic and group."""
MOST_RETURNED = 8_192
"""Pairs of topic and group that messages were sent back for."""
CLEANING = 60
"""Samplings between two looks for items that nobody needs."""
LOOK = 128
"""Items between two looks at the clock."""

Put = tuple[str, int, int]
"""Topic, messages, bytes of records."""
WINDOWS = {"statsDay": DAY, "statsHour": HOUR, "statsMinute": MINUTE}


@dataclass(frozen=True, slots=True)
class Totals:
    """Since the start. `plain_…`: without the topics of the system."""

    put: int = 0
    put_bytes: int = 0
    plain_put: int = 0
    found: int = 0
    """Reads of consumers that found messages."""
    missed: int = 0
    """Reads that found none."""
    got: int = 0
    plain_got: int = 0


class Rates:
    """The totals of the last ten minutes."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Totals]] = deque(maxlen=SPANS[-1] + 1)

    def sample(self, now: float, totals: Totals) -> None:
        self._samples.append((now, totals))

    def text(self, *names: str) -> str:
        """What the named totals together grow by in a second, over 10, 60 and 600 seconds: three
        numbers between blanks. One that is not known yet is left out, its blank stays."""
        return " ".join(self._over(span, names) for span in SPANS)

    def _over(self, span: int, names: tuple[str, ...]) -> str:
        if len(self._samples) <= span:
            return ""
        (begin, before), (end, now) = self._samples[-1 - span], self._samples[-1]
        grown = sum(getattr(now, name) - getattr(before, name) for name in names)
        return str(round(grown / (end - begin), 4) if end > begin else 0.0)


class Mornings:
    """Messages put and got until the last midnight and until the one before, local time; 0 as long
    as there was none since the start."""

    def __init__(self, today: date) -> None:
        self._day = today
        self.yesterday = self.today = (0, 0)

    def look(self, today: date, totals: Totals) -> None:
        """To be called often: the first call of a day is its midnight."""
        if today > self._day:
            self._day = today
            self.yesterday = self.today
            self.today = (totals.plain_put, totals.plain_got)


class BrokerStats:
    """Counts, and samples every `period` seconds. `clock` goes forward only, `today` is the local
    date."""

    def __init__(
        self,
        cluster: str,
        store: Store,
        topics: TopicTable,
        groups: GroupTable,
        take_granted: Callable[[], Awaitable[None]],
        *,
        period: float | None = None,
        clock: Callable[[], float] = trio.current_time,
        today: Callable[[], date] = date.today,
    ) -> None:
        """`take_granted` has what the engine answered passed to `pulled`."""
        self._cluster = cluster
        self._store = store
        self._topic_table = topics
        self._group_table = groups
        self._take_granted = take_granted
        self._period = PERIOD if period is None else period
        self.clock = clock
        self.today = today
        self._topics = self._items("topics", 2, MOST)
        self._groups = self._items("groups of topics", 3, MOST)
        self._returned = self._items("groups of topics that sent messages back", 1, MOST_RETURNED)
        self._dead = self._items("groups of topics with dead letters", 1, MOST_RETURNED)
        self._broker = self._items("brokers", 4, 1)
        self._statistics: dict[str, tuple[StatsItemSet, int, int | None]] = {
            "TOPIC_PUT_NUMS": (self._topics, 0, 0),
            "TOPIC_PUT_SIZE": (self._topics, 1, 0),
            "GROUP_GET_NUMS": (self._groups, 0, 2),
            "GROUP_GET_SIZE": (self._groups, 1, 2),
            "SNDBCK_PUT_NUMS": (self._returned, 0, 0),
            "DLQ_PUT_NUMS": (self._dead, 0, 0),
            "BROKER_PUT_NUMS": (self._broker, 0, None),
            "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": (self._broker, 1, None),
            "BROKER_GET_NUMS": (self._broker, 2, None),
            "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC": (self._broker, 3, None),
        }
        """Items, counter, and the counter that the average divides by."""
        self._puts: dict[str, Put] = {}
        """What the engine had counted at the last sampling."""
        self._new = self._new_plain = 0
        """Messages put since the last sampling."""
        self._put_bytes = self._found = self._missed = 0
        self._samplings = 0
        self.rates = Rates()
        self.put_times = PutTimes(partial(sends, store))
        self.create_times = CreateTimes()
        self.mornings = Mornings(today())
        self.use: Use | None = None
        """Counts the same by who uses the broker."""

    def _items(self, what: str, counters: int, most: int) -> StatsItemSet:
        return StatsItemSet(what, counters, most, self._period)

    def pulled(self, topic: str, group: str, pulls: int, messages: int, nbytes: int) -> None:
        """Pulls of a group found messages."""
        self._found += pulls
        if self.use is not None:
            self.use.pulled(topic, group, pulls, messages, nbytes)
        self._groups.add(f"{topic}@{group}", messages, nbytes, pulls)
        plain = 0 if self._topic_table.is_system(topic) else messages
        self._broker.add(self._cluster, 0, 0, messages, plain)

    def missed(self) -> None:
        """A read for a pull found nothing."""
        self._missed += 1

    def sent_back(self, topic: str, group: str, *, dead: bool) -> None:
        """A group sent a message of a topic back. `dead`: it became a dead letter."""
        self._returned.add(f"{topic}@{group}", 1)
        if dead:
            self._dead.add(f"{topic}@{group}", 1)

    def got(self, topic: str, group: str) -> tuple[int, int]:
        """Messages and bytes that a group has got of a topic, up to now."""
        return self._groups.first_two(f"{topic}@{group}")

    def pairs(self) -> list[str]:
        """`topic@group` of all that `got` knows."""
        return self._groups.keys()

    def dead_letters(self) -> list[tuple[str, int]]:
        """Of `topic@group` how many messages became dead letters."""
        return [(key, self._dead.total(key, 0)) for key in self._dead.keys()]  # noqa: SIM118

    def has(self, name: str, key: str) -> bool:
        """Whether there is a statistic of this name and key."""
        return name in self._statistics and key in self._statistics[name][0]

    def figures(self, name: str, key: str, window: Window) -> Figures:
        """Zeros where there is no such statistic."""
        if name not in self._statistics:
            return NOTHING
        items, counter, times = self._statistics[name]
        return items.figures(key, window, counter, times)

    def put_tps(self, topic: str) -> float:
        """Messages that a topic stores in a second, over the last minute. [tpsTopicPutNums]"""
        return self.figures("TOPIC_PUT_NUMS", topic, MINUTE).tps

    def get_tps(self, topic: str, group: str) -> float:
        """Messages of a topic that a group gets in a second. [tpsGroupGetNums]"""
        return self.figures("GROUP_GET_NUMS", f"{topic}@{group}", MINUTE).tps

    def totals(self) -> Totals:
        """Puts are those counted at the last sampling."""
        put, plain_put, got, plain_got = (self._broker.total(self._cluster, n) for n in range(4))
        return Totals(put, self._put_bytes, plain_put, self._found, self._missed, got, plain_got)

    async def run(self) -> None:
        """Samples, until cancelled."""
        due = trio.current_time()
        while True:
            try:
                await self.sample()
            except Exception:
                log.exception("statistics are not sampled, next try follows")
            due = max(due + self._period, trio.current_time())
            await trio.sleep_until(due)

    async def sample(self) -> None:
        """Takes what the engine has counted, and samples all items."""
        await self._take_granted()
        puts = self._store.puts()
        now = self.clock()
        self._new = self._new_plain = 0
        await in_turns(puts, self._count_put, LOOK)
        if self._new:
            self._broker.add(self._cluster, self._new, self._new_plain, 0, 0)
        if len(self._puts) > len(puts):
            known = {topic for topic, _, _ in puts}
            self._puts = {topic: put for topic, put in self._puts.items() if topic in known}
        for items in (self._topics, self._groups, self._returned, self._dead, self._broker):
            items.sample(now)
        totals = self.totals()
        self.rates.sample(now, totals)
        self.put_times.sample(now)
        self.mornings.look(self.today(), totals)
        if self.use is not None:
            await self.use.sample(now)
        self._samplings += 1
        if self._samplings % CLEANING == 0:
            await self._clean()

    def _count_put(self, put: Put) -> None:
        topic, messages, nbytes = put
        before = self._puts.get(topic)
        if before == put:
            return
        self._puts[topic] = put
        if before is not None and before[1] <= messages:  # else new, or made anew
            messages, nbytes = messages - before[1], nbytes - before[2]
        self._topics.add(topic, messages, nbytes)
        if self.use is not None:
            self.use.stored(topic, messages, nbytes)
        self._put_bytes += nbytes
        self._new += messages
        if not self._topic_table.is_system(topic):
            self._new_plain += messages

    async def _clean(self) -> None:
        """Forgets what is of topics and groups that are gone, or was silent for a day."""
        for items in (self._topics, self._groups, self._returned, self._dead):
            await in_turns(items.keys(), partial(self._clean_one, items), LOOK)

    def _clean_one(self, items: StatsItemSet, key: str) -> None:
        if self._is_gone(key) or items.is_silent(key):
            items.discard(key)

    def _is_gone(self, key: str) -> bool:
        topic, sep, group = key.partition("@")
        if self._topic_table.get(topic) is None:
            return True
        return bool(sep) and group not in self._group_table.groups


class StatsProcessor:
    def __init__(self, stats: BrokerStats) -> None:
        self._stats = stats

    def __call__(self, connection: Connection, command: Command) -> Response:
        name, key = fields.text(command, "statsName"), fields.text(command, "statsKey")
        if not self._stats.has(name, key):
            raise ResponseError(
                f"The stats <{name[:64]}> <{key[:511]}> not exist", ResponseCode.SYSTEM_ERROR
            )
        body = {
            field: self._stats.figures(name, key, window).to_json()
            for field, window in WINDOWS.items()
        }
        return Response(body=fastjson.dumps(body))
