"""Messages that are delivered later: delay levels, timers; and pops that come again."""

from __future__ import annotations

import trio

from pyrmq.broker.delay import DelayService
from pyrmq.broker.metrics import families as f
from pyrmq.broker.metrics.rows import LOOK, GaugeRows, TotalRows
from pyrmq.broker.metrics.state import DISK
from pyrmq.broker.pop.parts import PopParts
from pyrmq.broker.timer import TimerService
from pyrmq.metrics.families import OTHERS
from pyrmq.metrics.page import Page
from pyrmq.net.clock import now_ms
from pyrmq.net.server.turns import in_turns

SNAPSHOT_BOUNDS = (5, 60, 300, 900, 3600, 14_400, 28_800, 86_400)
"""Seconds. [TimerMetrics.timerDist]"""
PUT_OK = "PUT_OK"
"""Only what is stored is counted. [PutMessageStatus]"""
CHECK_POINT, ACK = "CK", "ACK"
"""[PopReviveMessageType]"""
PopTotals = tuple[str, str, tuple[int, int], int, list[tuple[int, tuple[int, int]]]]
"""A row of `Reviver.totals`."""


class TimerRows:
    """Delay levels and timers: a source of a page."""

    def __init__(self, delays: DelayService, timers: TimerService, most: int) -> None:
        self._delays = delays
        self._timers = timers
        self._timing = GaugeRows(f.TIMING, most, DISK)
        # enqueued; new ones, buckets, sum; delivered
        end = len(f.DELAYS.bounds) + 4
        self._totals = TotalRows(
            {f.TIMERS_IN: 0, f.DELAYS: 1, f.TIMERS_OUT: end}, end + 1, most, DISK
        )

    async def __call__(self, page: Page) -> None:
        for level, (offset, end) in enumerate(self._delays.engine.levels(), 1):
            page.add(f.DELAY_BEHIND, max(end - offset, 0), level=level)
        engine = self._timers.engine
        figures = engine.figures(now_ms())
        page.add(f.ENQUEUE_LAG, max(figures["queueEnd"] - figures["queueOffset"], 0), **DISK)
        behind = figures["storedAt"] - figures["enqueuedAt"]
        page.add(f.ENQUEUE_LATENCY, max(behind, 0), **DISK)
        page.add(f.DEQUEUE_LAG, max(figures["waiting"], 0), **DISK)
        page.add(f.DEQUEUE_LATENCY, max(figures["late"], 0), **DISK)
        page.add(f.TIMERS_LOST, figures["lost"])
        await self._add_snapshot(page, figures["waiting"])
        topics = engine.topics()
        await self._timing.write(page, (((topic,), max(n, 0)) for topic, n, _ in topics))
        await self._totals.write(
            page, (((topic,), (came, *row, went)) for topic, came, went, row in engine.totals())
        )

    async def _add_snapshot(self, page: Page, waiting: int) -> None:
        """The slots of a day may be many: a thread looks at them, if something waits."""
        bounds = list(SNAPSHOT_BOUNDS)
        counts = [0] * len(bounds)
        if waiting:
            engine = self._timers.engine
            counts = await trio.to_thread.run_sync(engine.histogram, now_ms(), bounds)
        for bound, count in zip(bounds, counts, strict=False):
            page.add(f.SNAPSHOT, max(count, 0), timer_bound_s=bound, **DISK)


class PopRows:
    """Popped messages: a source of a page."""

    def __init__(self, pop: PopParts, most: int) -> None:
        self._pop = pop
        self._stored = TotalRows({f.REVIVE_IN: 0}, 1, most)
        self._read = TotalRows({f.REVIVE_OUT: 0}, 1, most)
        self._revived = TotalRows({f.REVIVED: 0}, 1, most)

    async def __call__(self, page: Page) -> None:
        revive = self._pop.revive
        lags = revive.engine.lags()
        page.add(f.POP_CHECK_POINTS, sum(points for _, _, points in lags))
        for queue, (records, ms, _) in enumerate(lags):
            page.add(f.REVIVE_LAG, records, queue_id=queue)
            page.add(f.REVIVE_LATENCY, ms, queue_id=queue)
        page.add(f.JUDGED, revive.totals.judged)
        stored, read, revived = self._stored, self._read, self._revived

        def add(totals: PopTotals) -> None:
            topic, group, (points, acks), messages, queues = totals
            pair = (group, topic) if group else (OTHERS, OTHERS)
            if points:
                stored.add(page, (*pair, CHECK_POINT, PUT_OK), (points,))
            if acks:
                stored.add(page, (*pair, ACK, PUT_OK), (acks,))
            if messages:
                revived.add(page, (*pair, PUT_OK), (messages,))
            for queue, (points, acks) in queues:
                if points:
                    read.add(page, (*pair, CHECK_POINT, str(queue)), (points,))
                if acks:
                    read.add(page, (*pair, ACK, str(queue)), (acks,))

        for rows in (stored, read, revived):
            rows.begin()
        await in_turns(revive.engine.totals(), add, LOOK)
        for rows in (stored, read, revived):
            await rows.end(page)
