"""Timer messages: when they are enqueued and delivered, and when that is kept. [TimerMessageStore]

The engine has the wheel and delivers what is due (`engine.Timers`), in the files `timerwheel`,
`timerlog` and config/timercheck. Here is when; the number of waiting messages of each topic is kept
in config/timermetrics.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import trio

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.tables.config_file import PersistentTable
from pyrmq.engine import Store, Timers
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.model.names import is_stored_topic
from pyrmq.model.topic import DataVersion, as_int
from pyrmq.net.clock import clock_ms, now_ms

log = logging.getLogger(__name__)

POLL = 0.1
"""Seconds between two looks for what is due, at most."""
BATCH = 4096
"""Messages that are enqueued, or delivered before parked pulls are woken."""
RETRY = 1.0
"""Seconds before what failed is tried again."""
LOG_BEHIND = 256 << 20
"""Bytes that the log may grow before a check point is kept though nothing happened: as much is read
at most at a start, to find what was delivered since."""
FLUSH_WAIT = 5.0
"""Seconds that a stop waits for the disk, so that what was delivered last is kept too."""
CLEAN = 30.0
"""Seconds between two looks for old files of the timer log."""
KEEP_METRICS = 10.0
"""Seconds between two writes of config/timermetrics."""

Row = tuple[str, int, int]
"""A topic, how many of its messages wait, and when that changed last (ms)."""


class TimerCounts(PersistentTable):
    """config/timermetrics: by topic how many messages wait. [TimerMetrics]"""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        value = self.load("dataVersion", "timingCount")
        self.version = DataVersion.from_json(value.get("dataVersion"))
        table = value.get("timingCount", {})
        self.rows: list[Row] = []
        for topic, row in table.items() if isinstance(table, dict) else ():
            if isinstance(topic, str) and is_stored_topic(topic) and isinstance(row, dict):
                count, changed = as_int(row.get("count"), 0), as_int(row.get("timeStamp"), 0)
                self.rows.append((topic, max(count, 0), changed))

    def set(self, rows: list[Row]) -> None:
        rows = sorted(rows)
        if rows != self.rows:
            self.rows = rows
            self.version.next(now_ms())
            self.changed()

    def to_json(self) -> dict[str, Any]:
        return {
            "dataVersion": self.version.to_json(),
            "timingCount": {
                topic: {"count": count, "timeStamp": changed} for topic, count, changed in self.rows
            },
        }


class TimerService:
    """`wake` is called when messages were delivered that somebody may wait for, `adopt` with topics
    that messages were delivered to although the broker has no configuration for them."""

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        counts: TimerCounts,
        wake: Callable[[], None],
        adopt: Callable[[list[str]], None] = lambda topics: None,
    ) -> None:
        """Blocking while it reads the wheel, and the log behind the check point that was kept."""
        self.engine = Timers(
            store.native,
            now=now_ms(),
            precision=config.timer_precision_ms,
            roll_window=config.timer_roll_window_slot,
            log_file_size=config.mapped_file_size_timer_log,
            stop_enqueue=config.timer_stop_enqueue,
        )
        self.engine.set_topics(counts.rows)
        self._store = store
        self._counts = counts
        self._wake = wake
        self._adopt = adopt
        self._enabled = config.timer_wheel_enable
        self._delivers = not config.is_slave
        self._stops_dequeue = config.timer_stop_dequeue
        self._stops_enqueue = config.timer_stop_enqueue
        self._flush_interval = config.timer_flush_interval_ms / 1000
        self._stopping = False
        self._done = (0, 0)
        """How many were enqueued and dequeued when a check point was prepared last."""
        self._dirty = False
        self._durable: int | None = None
        """A check point is kept once the log is on disk up to here."""
        self._keeping = trio.Lock()
        self._kept_end = 0
        """The end of the log when one was kept last."""
        self._rates = (0.0, 0.0)
        self._failure = ""
        read, delivered, is_foreign = self.engine.restored()
        self._begun = not is_foreign
        """The check point says how much of the log it speaks of."""
        if delivered:
            log.info("timers: %d found delivered in %d bytes of log", delivered, read)

    def delivered(self, now: int) -> int | None:
        """The time, ms, before which all timers that were due at `now` have been delivered; None if
        that is not known."""
        # What is in the log first: it may be due as it comes to the wheel.
        return now if not self.engine.behind() and self.engine.due_in(now) != 0 else None

    def stop(self) -> None:
        """Nothing is enqueued or delivered any more."""
        self._stopping = True

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        if not self._enabled:
            return
        async with trio.open_nursery() as nursery:
            if self._delivers:
                nursery.start_soon(self._run_deliveries)
            nursery.start_soon(self._run_keeping)
            nursery.start_soon(self._run_cleaning)
            nursery.start_soon(self._run_counting)

    async def _run_deliveries(self) -> None:
        while not self._stopping:
            due = None if self._stops_dequeue else self.engine.due_in(now_ms())
            behind = 0 if self._stops_enqueue else self.engine.behind()
            if self._store.stall():
                await trio.sleep(POLL)
            elif due == 0 or behind:
                if not await self._work(due == 0):
                    await trio.sleep(RETRY if self._failure else POLL)
            else:
                await trio.sleep(POLL if due is None else min(due / 1000, POLL))

    async def _work(self, is_due: bool) -> int:
        """Enqueues, or delivers some of what is due, in a thread, as it may have to be read from
        the disk."""
        given = 0
        try:
            if not self._begun and not await self._keep_first():
                return 0
            if is_due:
                count, given = await trio.to_thread.run_sync(self.engine.deliver, now_ms(), BATCH)
            else:
                count = await trio.to_thread.run_sync(self.engine.enqueue, now_ms(), BATCH)
        except (PyrmqError, OSError) as e:
            if str(e) != self._failure:
                self._failure = str(e)
                log.error("timers do not go on, next try follows: %s", escape(e))
            return 0
        if count:
            self._failure = ""
        if given:
            unknown = self.engine.take_unknown()
            if unknown:
                self._adopt(unknown)
            self._wake()
        return count

    async def _keep_first(self) -> bool:
        """Before the first delivery the check point says how much of the log it speaks of: a kill
        may come before it is written again."""
        self._dirty = True
        self._begun = await self._keep()
        return self._begun

    async def _run_keeping(self) -> None:
        while True:
            await trio.sleep(self._flush_interval)
            if self._store.stall():
                continue
            try:
                await self._keep()
            except (PyrmqError, OSError) as e:
                log.error("timercheck is not written, next try follows: %s", escape(e))

    async def _keep(self) -> bool:
        """Keeps how far timers are, as far as that is on disk: what a machine that loses its power
        may take back was not delivered. Returns whether a check point was written."""
        # One at a time: what one has found on disk must not be said of what another prepares.
        async with self._keeping:
            return await self._keep_alone()

    async def _keep_alone(self) -> bool:
        now = now_ms()
        figures = self.engine.figures(now)
        done = figures["enqueued"], figures["dequeued"]
        behind = self._store.confirmed() - self._kept_end > LOG_BEHIND and figures["queueEnd"]
        # While something waits the time up to which all is delivered goes on.
        waits = self._delivers and not self._stopping and self.engine.due_in(now) is not None
        if self._durable is None and (self._dirty or done != self._done or behind or waits):
            self._dirty = False  # what happens from here on is not in it
            try:
                self._durable = await trio.to_thread.run_sync(self.engine.prepare)
            except BaseException:
                self._dirty = True
                raise
            self._done = done
        if self._durable is None or self._store.flushed() < self._durable:
            return False
        end, self._durable = self._durable, None
        try:
            await trio.to_thread.run_sync(self.engine.flush)
        except BaseException:
            self._dirty = True
            raise
        self._kept_end = end
        return True

    async def _run_cleaning(self) -> None:
        while True:
            await trio.sleep(CLEAN)
            try:
                await trio.to_thread.run_sync(self.engine.clean)
            except (PyrmqError, OSError) as e:
                log.error("old files of the timer log are not deleted: %s", escape(e))

    async def _run_counting(self) -> None:
        """Counts how many are enqueued and delivered a second, and keeps how many wait."""
        before, at = (0, 0), clock_ms()
        while True:
            await trio.sleep(KEEP_METRICS)
            figures, now = self.engine.figures(now_ms()), clock_ms()
            after = figures["enqueued"], figures["dequeued"]
            seconds = max(now - at, 1) / 1000
            self._rates = (after[0] - before[0]) / seconds, (after[1] - before[1]) / seconds
            before, at = after, now
            try:
                await self._keep_counts()
            except OSError as e:
                log.error("timermetrics not written, next try follows: %s", escape(e))

    async def _keep_counts(self) -> None:
        self._counts.set(self.engine.topics())
        await self._counts.save_if_changed()

    async def finish(self) -> None:
        """Keeps the last of it, once nothing is delivered any more."""
        if not self._enabled:
            return
        if self._store.failure() is None and not self._store.stall():
            self._dirty |= self._kept_end < self._store.confirmed() and self._is_used()
            with trio.move_on_after(FLUSH_WAIT):
                await self._keep()
                while self._dirty or self._durable is not None:
                    await trio.sleep(0.02)
                    await self._keep()
        await self._keep_counts()

    def _is_used(self) -> bool:
        return self.engine.figures(now_ms())["queueEnd"] > 0

    def follow(self, check_point: bytes, log_end: int) -> bool:
        """A slave does what its master has done: False while it does not have all of that. May
        wait: not for the event loop. PyrmqError, OSError, ValueError."""
        return self.engine.follow(now_ms(), check_point, log_end)

    def runtime(self) -> dict[str, object]:
        """Figures for GET_BROKER_RUNTIME_INFO. [AdminBrokerProcessor]"""
        figures = self.engine.figures(now_ms())
        enqueued, dequeued = self._rates
        return {
            "timerReadBehind": figures["late"] // 1000,
            "timerOffsetBehind": max(figures["queueEnd"] - figures["queueOffset"], 0),
            "timerCongestNum": max(figures["waiting"], 0),
            "timerEnqueueTps": enqueued,
            "timerDequeueTps": dequeued,
            "timerLostCount": figures["lost"],
        }

    def metrics(self, bounds: Sequence[int]) -> dict[str, Any]:
        """The answer to GET_TIMER_METRICS, with a histogram. May wait: not for the event loop."""
        ends: list[int | None] = [*bounds, None]
        counts = self.engine.histogram(now_ms(), list(bounds))
        return {
            "dataVersion": self._counts.version.to_json(),
            "distribution": [
                {"count": max(count, 0)} | ({} if end is None else {"upTo": end})
                for end, count in zip(ends, counts, strict=True)
            ],
            "timingCount": {
                topic: {"count": count, "timeStamp": changed}
                for topic, count, changed in self.engine.topics()
            },
        }
