"""The task that revives messages: those that were popped and not acknowledged in time go to the
retry topic of their group. [PopReviveService]

The engine's `Reviver` reads the revive topic, judges and appends. Here is where messages go
(`Targets`), when it works, and how far it is: offsets of CID_RMQ_SYS_REVIVE_GROUP, which say as in
RocketMQ the last place that is dealt with. They are kept once what was appended is on disk, so that
a power cut loses no message. A start finds in the log what was revived behind them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.tables.tables import Tables
from pyrmq.engine import Pops, Revived, Reviver, Store
from pyrmq.errors import PyrmqError, TopicNotExistError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model import pop
from pyrmq.model.names import RETRY_PREFIX, REVIVE_GROUP
from pyrmq.net.clock import now_ms

log = logging.getLogger(__name__)

BATCH = 4096
"""Messages that one call revives, about, before who waits for them is woken."""
RETRY = 1.0
"""Seconds before what failed is tried again."""
KEEP = 1.0
"""Seconds between two looks whether there is progress to keep."""
FLUSH_WAIT = 5.0
"""Seconds that a stop waits for the disk, so that what was revived last is kept too."""
Timers = Callable[[int], int | None]
"""Called with the time, ms: up to which time all timers have been delivered; None if that is not
known."""
Pair = tuple[bytes, bytes]
"""A topic as it was popped from, and a group."""


class Targets:
    """Where messages go. A retry topic is made when its first message comes."""

    def __init__(self, live: LiveConfig, tables: Tables) -> None:
        self._live = live
        self._tables = tables

    def of(self, pair: Pair) -> str | None:
        """The retry topic; None if the topic or the group is gone. SystemBusyError while the retry
        topic is removed."""
        try:
            topic, group = (name.decode() for name in pair)
        except UnicodeDecodeError:
            return None
        topics, groups = self._tables.topics, self._tables.groups
        if topics.table.get(pop.normal_topic(topic, group)) is None or group not in groups.groups:
            return None
        target = topic
        if not topic.startswith(RETRY_PREFIX):
            v2 = self._live.now.enable_retry_topic_v2
            target = (pop.retry_topic_v2 if v2 else pop.retry_topic_v1)(topic, group)
        try:
            topics.creation.create_pop_retry(target)
        except TopicNotExistError as e:
            log.error(
                "messages of %s are not revived: %s",
                escape(topic),
                escape(e),
                extra=about(topic=topic),
            )
            return None
        if self._tables.offsets.query(target, group, 0) is None:
            self._tables.offsets.keep(target, group, 0, 0)
        return target


@dataclass(slots=True)
class Totals:
    """What was done since the start: messages by what became of them."""

    judged: int = 0
    revived: int = 0
    missing: int = 0
    put_off: int = 0
    gone: int = 0
    known: int = 0

    def add(self, done: Revived) -> None:
        self.judged += done.judged
        self.revived += sum(count for _, count, _ in done.revived)
        self.missing += done.missing
        self.put_off += done.put_off
        self.gone += done.gone
        self.known += done.known


class ReviveService:
    """`wake` is called when messages were revived that somebody may wait for."""

    def __init__(
        self,
        live: LiveConfig,
        store: Store,
        pops: Pops,
        tables: Tables,
        timers: Timers,
        wake: Callable[[], None],
        now: Callable[[], int] = now_ms,
    ) -> None:
        """Blocking while the engine looks up where its queues are."""
        self._live = live
        self._store = store
        self._offsets = tables.offsets
        self._topic = pops.revive_topic
        self._targets = Targets(live, tables)
        self._timers = timers
        self._wake = wake
        self._now = now
        kept = tables.offsets.all_of(self._topic, REVIVE_GROUP)
        self._kept = [kept.get(q, -1) + 1 for q in range(live.now.revive_queue_num)]
        """By queue the first place that is not dealt with, as the table has it."""
        self.engine = Reviver(
            pops,
            next=[max(place, 0) for place in self._kept],
            drops_after_last=live.now.skip_when_ck_re_put_reach_max_times,
        )
        self.totals = Totals()
        self._stopping = False
        self._failure = ""
        self._dirty = False
        self._durable: tuple[list[int], int] | None = None
        """Progress that is kept once the log is on disk up to the second."""

    def stop(self) -> None:
        """Nothing is revived any more."""
        self._stopping = True

    def behind(self) -> tuple[int, int]:
        """Records of the revive topic that are not dealt with, and for how many ms the longest
        waiting message has been visible."""
        lags = self.engine.lags()
        return sum(records for records, _, _ in lags), max((ms for _, ms, _ in lags), default=0)

    def figures(self) -> dict[str, object]:
        """For the runtime information: RocketMQ has the lags as metrics, rocketmq_pop_revive_lag
        and rocketmq_pop_revive_latency. [PopMetricsManager]"""
        records, ms = self.behind()
        return {
            "popReviveBehindMessages": records,
            "popReviveBehindMs": ms,
            "popReviveCheckPoints": self.totals.judged,
            "popReviveRetryMessages": self.totals.revived,
            "popRevivePutOffMessages": self.totals.put_off,
            **{
                f"popReviveQueue_{queue}": f"{waiting},{ms}"
                for queue, (waiting, ms, _) in enumerate(self.engine.lags())
            },
        }

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled, or stopped."""
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run_reviving)
            nursery.start_soon(self._run_keeping)

    async def _run_reviving(self) -> None:
        while not self._stopping:
            if self._store.stall():
                await trio.sleep(RETRY)
            elif await self.revive():
                await trio.lowlevel.checkpoint()
            else:
                await trio.sleep(RETRY if self._failure else self._live.now.revive_interval / 1000)

    async def revive(self) -> bool:
        """Revives what is to be revived now, as much as one call takes; whether there is more."""
        targets: dict[Pair, str | None] = {}
        more = True
        while more and not self._stopping:
            now = self._now()
            timers = self._timers(now)
            given = [(topic, group, target) for (topic, group), target in targets.items()]
            try:
                done = await trio.to_thread.run_sync(self.engine.revive, now, timers, BATCH, given)
                self._took(done)
                for pair in done.unknown:
                    targets[pair] = self._targets.of(pair)
            except (PyrmqError, OSError) as e:
                if str(e) != self._failure:
                    self._failure = str(e)
                    log.error("messages are not revived, next try follows: %s", escape(e))
                return False
            self._failure = ""
            if not done.unknown:
                return done.more
        return more

    def _took(self, done: Revived) -> None:
        self.totals.add(done)
        self._dirty |= bool(done.read or done.judged)
        if done.revived:
            self._wake()
        for count, what in (
            (done.missing, "are in no queue any more"),
            (done.gone, "have lost their topic or group"),
        ):
            if count:
                log.warning("%d messages are not revived: they %s", count, what)
        if done.known:
            log.info("%d messages were revived before the broker was killed", done.known)

    async def _run_keeping(self) -> None:
        while True:
            await trio.sleep(KEEP)
            if self._store.stall():
                continue
            try:
                await self._keep()
            except (PyrmqError, OSError) as e:
                log.error("progress of reviving is not kept, next try follows: %s", escape(e))

    async def _keep(self) -> None:
        """Puts progress into the table of offsets, as far as the log is on disk."""
        if self._durable is None and self._dirty:
            self._dirty = False  # what is revived from here on is not in it
            try:
                self._durable = await trio.to_thread.run_sync(self.engine.progress)
            except BaseException:
                self._dirty = True
                raise
        if self._durable is None:
            return
        places, log_end = self._durable
        if min(self._store.flushed(), self._store.confirmed()) < log_end:
            return
        self._durable = None
        for queue, place in enumerate(places):
            if place != self._kept[queue]:
                self._kept[queue] = place
                self._offsets.keep(self._topic, REVIVE_GROUP, queue, place - 1)

    async def finish(self) -> None:
        """Keeps the last of it, once nothing is revived any more and before offsets are written."""
        if self._store.failure() is not None or self._store.stall():
            return
        with trio.move_on_after(FLUSH_WAIT):
            while self._dirty or self._durable is not None:
                await self._keep()
                if self._durable is not None:
                    await trio.sleep(0.02)
