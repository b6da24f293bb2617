"""The queues of a member: each is taken, pulled from and given up by a task of its own, so that a
broker that hangs delays only its own queues. [RebalanceImpl.updateProcessQueueTableInRebalance]"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import trio

from pyrmq.client.consumer.offsets import OffsetStore, StartRule
from pyrmq.client.consumer.process_queue import RETAKEN, Limits, ProcessQueue, State
from pyrmq.client.consumer.reports import Reports
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import MessageQueue
from pyrmq.net.backoff import Backoff
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
"""Seconds until a queue that could not be taken is tried again."""
LOCK_PAUSE = 0.5
"""The same for one that another member has locked."""
REPORT_AFTER = 0.4


class Locks(Protocol):
    """Locks queues that are consumed in order."""

    async def lock(self, process: ProcessQueue) -> bool:
        """Whether this member has the queue's lock now. PyrmqError."""
        ...

    async def unlock(self, processes: Collection[ProcessQueue]) -> None:
        """Gives locks up; failures are logged."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldEvents:
    """What is called when a queue is taken, and when one was given up that is to be taken again
    (None: it is taken again at once)."""

    taken: Callable[[ProcessQueue], None] = lambda process: None
    wanted: Callable[[], None] | None = None


class HeldQueues:
    """`pull(process)` runs while a queue is held; when it returns the queue is given up.
    `automatic`: offsets are written as messages are consumed, else only by `commit`."""

    def __init__(
        self,
        tasks: Tasks,
        store: OffsetStore,
        rule: StartRule,
        reports: Reports,
        pull: Callable[[ProcessQueue], Awaitable[None]],
        *,
        limits: Limits,
        events: HeldEvents,
        locks: Locks | None = None,
        automatic: bool = True,
    ) -> None:
        self.table: dict[MessageQueue, ProcessQueue] = {}
        self._tasks = tasks
        self._store = store
        self._rule = rule
        self._reports = reports
        self._pull = pull
        self._limits = limits
        self._events = events
        self._locks = locks
        self._automatic = automatic
        self._doubted: dict[tuple[str, str], int] = {}
        """Topics of brokers whose offsets are not believed, and when they were doubted last: a
        number that grows."""
        self._doubts = 0
        self._checking: set[tuple[str, str]] = set()
        self._persisting: set[str] = set()
        """Brokers whose offsets are being written."""
        self._stopped = False
        self._moving = trio.lowlevel.ParkingLot()
        """Who waits until queues have begun, or were given up."""

    def held(self) -> list[ProcessQueue]:
        """Those that are pulled from."""
        # A list first: `assigned` may be asked for in another thread.
        return [p for p in list(self.table.values()) if p.state is State.HELD]

    def assigned(self) -> list[MessageQueue]:
        """Their queues, sorted; none once this has stopped."""
        return [] if self._stopped else sorted(p.queue for p in self.held())

    async def begun(self, topic: str) -> None:
        """Returns when the start of each queue of a topic is known."""
        while any(
            p.queue.topic == topic and (p.state is State.TAKING or p.state in RETAKEN)
            for p in self.table.values()
        ):
            await self._moving.park()

    async def given_up(self, topic: str) -> None:
        """Returns when this member has no queue of a topic any more."""
        while any(p.queue.topic == topic for p in self.table.values()):
            await self._moving.park()

    # What is decided.

    def assign(self, topic: str, mine: Iterable[MessageQueue]) -> None:
        """From now on these queues of a topic are this member's."""
        wanted = set(mine)
        for process in list(self.table.values()):
            if process.queue.topic == topic and process.queue not in wanted:
                process.unassigned()
        for queue in sorted(wanted):
            known = self.table.get(queue)
            if known is None:
                self._take(queue)
            else:
                known.assigned()
        self._moving.unpark_all()

    # The life of a queue.

    def _take(self, queue: MessageQueue, start: int | None = None) -> None:
        if self._stopped:
            return
        process = self.table[queue] = ProcessQueue(queue, limits=self._limits)
        self._events.taken(process)
        self._tasks.start_soon(self._serve, process, start)

    async def _serve(self, process: ProcessQueue, start: int | None) -> None:
        with process.scope:
            if start is None:
                await self._find_start(process)
            elif not process.dropped:
                process.found(start)
                self._moving.unpark_all()
            await self._pull(process)
        if self._stopped:
            return  # `release` does the rest
        process.ended()
        self._moving.unpark_all()
        before = await self._give_up(process)
        if before is State.SEEKING:
            self._take(process.queue, process.sought)
        elif before in RETAKEN and self._events.wanted is not None:
            self._events.wanted()
        elif before in RETAKEN:
            self._take(process.queue)

    async def _find_start(self, process: ProcessQueue) -> None:
        queue, backoff = process.queue, Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                if self._locks is None or await self._locks.lock(process):
                    stored = await self._store.read(queue)
                    start = await self._rule.start(queue, stored)
                    break
                await trio.sleep(LOCK_PAUSE)
            except PyrmqError as e:
                if backoff.upcoming >= REPORT_AFTER:
                    self._reports.waiting(queue, str(e))
                await trio.sleep(backoff.next())
        if process.dropped:
            return
        log.info("%s is taken from offset %d", escape(queue), start, extra=about(queue=queue))
        process.found(start)
        self._moving.unpark_all()
        process.stored(stored, self._store.keeper(queue))
        if stored is None:
            await self._write(process)  # so that a crash before the first message changes nothing

    async def _give_up(self, process: ProcessQueue) -> State:
        """Writes the offset and gives the lock up. Only where queues are consumed in order it waits
        for calls of the listener. Returns the state from which the queue was released."""
        if self._locks is not None:
            await process.wait_idle()
        log.info("%s is given up", escape(process.queue), extra=about(queue=process.queue))
        await self._write(process, last=True)
        if self._locks is not None:
            await self._locks.unlock([process])
        before = process.released()
        del self.table[process.queue]
        self._moving.unpark_all()
        return before

    # Offsets.

    def doubt(self) -> None:
        """Another member may have had the held queues meanwhile: their offsets are not written
        until `recheck`."""
        self._doubts += 1
        self._doubted.update(dict.fromkeys(map(_of_broker, self.held()), self._doubts))

    def recheck(self, topic: str) -> None:
        """Begins to compare the held queues of a doubted topic with the store, a task for each
        broker. If the store is ahead, other members have consumed: the queue is taken again. If the
        store is behind, it has lost what was written, and that is written again."""
        for doubted in [d for d in self._doubted if d[0] == topic and d not in self._checking]:
            self._checking.add(doubted)
            self._tasks.start_soon(self._check, doubted)

    async def _check(self, doubted: tuple[str, str]) -> None:
        since = self._doubted[doubted]
        try:
            for process in [p for p in self.held() if _of_broker(p) == doubted]:
                stored = await self._store.read(process.queue)
                if process.state is not State.HELD or self._is_elsewhere(process):
                    continue  # what this member wrote is not there: the next time it is
                if stored is not None and stored > process.commit_offset():
                    log.info(
                        "%s was consumed by another member",
                        escape(process.queue),
                        extra=about(queue=process.queue),
                    )
                    process.lost()
                else:
                    process.stored(stored)
        except PyrmqError as e:
            log.info("%s: %s", escape(doubted[1]), escape(e))
        else:
            if self._doubted[doubted] == since:
                del self._doubted[doubted]
        finally:
            self._checking.discard(doubted)

    async def persist(self) -> None:
        """Writes the offsets that have changed, but for brokers that still have not answered to
        those of the last time."""
        processes = [p for p in self.held() if p.queue.broker_name not in self._persisting]
        brokers = {p.queue.broker_name for p in processes}
        self._persisting |= brokers

        async def write(process: ProcessQueue) -> bool:
            return _of_broker(process) in self._doubted or await self._write(process)

        try:
            await self._each(processes, write, self._persisting.discard)
        finally:
            self._persisting -= brokers
        await self._store.flush()

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> bool:
        """Writes offsets of held queues as they are given; whether all are kept."""
        # One that goes on elsewhere is still this member's.
        held = [
            p
            for p in self.table.values()
            if p.queue in offsets and p.state in (State.HELD, State.SEEKING)
        ]
        failed = len(held) < len(offsets)

        async def write(process: ProcessQueue) -> bool:
            nonlocal failed
            async with process.writing:
                offset = offsets[process.queue]
                if keeper := await self._store.write(process.queue, offset):
                    process.stored(offset, keeper)
                    return True
            failed = True
            return False

        await self._each(held, write)
        await self._store.flush()
        return not failed

    async def _each(
        self,
        processes: Iterable[ProcessQueue],
        write: Callable[[ProcessQueue], Awaitable[bool]],
        ended: Callable[[str], object] = lambda broker: None,
    ) -> None:
        """Writes to all brokers at the same time; to each broker one queue after the other, up to
        the first that fails."""
        by_broker: dict[str, list[ProcessQueue]] = defaultdict(list)
        for process in processes:
            by_broker[process.queue.broker_name].append(process)

        async def of_broker(broker: str, some: list[ProcessQueue]) -> None:
            for process in some:
                if not await write(process):
                    break
            ended(broker)

        async with trio.open_nursery() as nursery:
            for broker, some in by_broker.items():
                nursery.start_soon(of_broker, broker, some)

    async def _write(self, process: ProcessQueue, *, last: bool = False) -> bool:
        """Writes the offset of a queue, if it has changed; after the `last` one nothing is
        written. Whether its store can be written to."""
        async with process.writing:
            if process.dropped and not last:
                return True
            offset = process.offset_to_write(self._automatic)
            if offset is None:
                return True
            if last and not process.is_reset():
                await self._store.find_keeper(process.queue)
                if await self._is_behind(process, offset):
                    return True
            if offset != process.committed or self._is_elsewhere(process):
                if not last:
                    # A connection that has to be opened for it may take long, and another member
                    # may have had the queue meanwhile.
                    if not await self._store.reach(process.queue):
                        return False
                    if process.dropped or _of_broker(process) in self._doubted:
                        return True
                keeper = await self._store.write(process.queue, offset)
                if not keeper:
                    return False
                process.stored(offset, keeper)
            return True

    def _is_elsewhere(self, process: ProcessQueue) -> bool:
        """Whether what was written last is not where it would be written now: a slave has it whose
        master is back, or the master has it that is away."""
        now = self._store.keeper(process.queue)
        return bool(now and process.keeper) and now != process.keeper

    async def _is_behind(self, process: ProcessQueue, offset: int) -> bool:
        """Whether the next owner of a queue that was given up late has got further already."""
        if offset == process.committed and not self._is_elsewhere(process):
            return False
        try:
            stored = await self._store.read(process.queue)
        except PyrmqError:
            return False  # it will not be written either, and that is logged
        if stored is None or stored <= offset:
            return False
        log.info(
            "%s: another member has got to %d already",
            escape(process.queue),
            stored,
            extra=about(queue=process.queue),
        )
        return True

    # The end.

    def stop(self) -> None:
        """Ends all pulls. What was pulled may still be consumed."""
        self._stopped = True
        for process in self.table.values():
            process.scope.cancel()

    async def release(self) -> None:
        """Writes all offsets and gives all locks up, at the end."""

        async def find_keeper(process: ProcessQueue) -> bool:
            await self._store.find_keeper(process.queue)
            return True

        async def write(process: ProcessQueue) -> bool:
            return await self._write(process, last=True)

        try:
            await self._each(list(self.table.values()), find_keeper)
            await self.persist()
            leaving = [
                p
                for p in self.table.values()
                if p.dropped or (p.state is State.HELD and _of_broker(p) in self._doubted)
            ]
            if leaving:
                await self._each(leaving, write)
                await self._store.flush()
        finally:
            if self._locks is not None:
                await self._locks.unlock(list(self.table.values()))


def _of_broker(process: ProcessQueue) -> tuple[str, str]:
    return process.queue.topic, process.queue.broker_name
