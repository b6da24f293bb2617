"""Delayed messages: delivering what is due, and keeping how far that is. [ScheduleMessageService]

The engine knows what waits and delivers it (`engine.Delays`); here is when, and the file
config/delayOffset.json.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from pyrmq.broker.tables.config_file import PersistentTable
from pyrmq.engine import Delays, Store
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.model.topic import DataVersion, as_int
from pyrmq.net.clock import now_ms

log = logging.getLogger(__name__)

POLL = 0.1
"""Seconds between two looks for what is due, at most."""
BATCH = 4096
"""Messages delivered before parked pulls are woken."""
RETRY = 1.0
"""Seconds before what failed is tried again."""
KEEP = 1.0
"""Seconds between two looks whether there is progress to keep."""
LOG_BEHIND = 256 << 20
"""Bytes that the log may grow before progress is kept though nothing was delivered: as much is read
at most at a start, to find what was delivered since."""
MAX_LEVELS = 1024
FLUSH_WAIT = 5.0
"""Seconds that a stop waits for the disk, so that what was delivered last is kept too."""


def _shown(value: Any) -> str:
    """Foreign JSON for a log line."""
    return repr(value)[:100]


class DelayOffsets(PersistentTable):
    """config/delayOffset.json: by level the queue offset of the first message not delivered.

    `log_end`, which RocketMQ does not have: the file says all about deliveries before this physical
    offset. None if RocketMQ wrote the file last, or nobody.
    """

    def __init__(self, path: Path, levels: int) -> None:
        super().__init__(path)
        value = self.load("dataVersion", "logEnd", "offsetTable")
        self.version = DataVersion.from_json(value.get("dataVersion"))
        table = value.get("offsetTable", {})
        if not isinstance(table, dict):
            log.error("delayOffset.json: offsetTable is no table: %s", escape(_shown(table)))
            table = {}
        found = {}
        self._kept: dict[Any, Any] = {}
        """Rows of the file for levels that do not exist; they are written again."""
        for key, offset in table.items():
            level = as_int(key, 0)
            if not 0 < level <= MAX_LEVELS:
                log.error(
                    "delayOffset.json: level %s is not used: no such level", escape(_shown(key))
                )
                self._kept[key] = offset
                continue
            found[level] = as_int(offset, -1)
            if found[level] < 0:
                found[level] = 0
                log.error(
                    "delayOffset.json says %s of delay level %d, which is no queue offset: 0 is "
                    "used, all messages that the level still has are delivered again",
                    escape(_shown(offset)),
                    level,
                )
        # Levels that messageDelayLevel no longer names stay: it may name them again.
        levels = max(levels, *found, 0)
        self.offsets = [found.get(level, 0) for level in range(1, levels + 1)]
        self.unknown = {level for level in range(1, levels + 1) if level not in found}
        """Levels that the file says nothing of."""
        end = value.get("logEnd")
        found_end = as_int(end, -1)
        self.log_end = found_end if found_end >= 0 else None
        if end is not None and self.log_end is None:
            log.error(
                "delayOffset.json: logEnd %s is no physical offset: messages that were delivered "
                "last may be delivered again",
                escape(_shown(end)),
            )

    def set(self, offsets: list[int], log_end: int) -> None:
        self.offsets[: len(offsets)] = offsets
        self.log_end = log_end
        self.version.next(now_ms())
        self.changed()

    def to_json(self) -> dict[str, Any]:
        return {
            "dataVersion": self.version.to_json(),
            "logEnd": self.log_end,
            "offsetTable": self._kept
            | {str(level): offset for level, offset in enumerate(self.offsets, 1)},
        }


class DelayService:
    """`wake` is called when messages were delivered that somebody may wait for, `adopt` with topics
    that messages were delivered to although the broker has no configuration for them."""

    def __init__(
        self,
        store: Store,
        offsets: DelayOffsets,
        wake: Callable[[], None],
        adopt: Callable[[list[str]], None] = lambda topics: None,
    ) -> None:
        """Blocking while it reads the log behind the progress that was kept."""
        if offsets.log_end is not None and offsets.log_end > store.confirmed():
            log.error(
                "delayOffset.json speaks of a log of %d bytes, there are %d: messages that were "
                "delivered may be delivered again",
                offsets.log_end,
                store.confirmed(),
            )
            offsets.log_end = None
        self.engine = Delays(store.native, offsets=offsets.offsets, log_end=offsets.log_end)
        self._store = store
        self._offsets = offsets
        self._wake = wake
        self._adopt = adopt
        self._stopping = False
        self._begun = offsets.log_end is not None
        """The file has a log_end."""
        self._dirty = False
        self._durable: tuple[list[int], int] | None = None
        """Progress that is kept once the log is on disk up to the second."""
        self._failure = ""
        self._tell_of_unknown(offsets.unknown)
        read, delivered = self.engine.restored()
        if delivered:
            log.info("delayed messages: %d found delivered in %d bytes of log", delivered, read)

    def _tell_of_unknown(self, unknown: set[int]) -> None:
        """Before its first delivery a broker keeps an offset of every level."""
        for level, (offset, end) in enumerate(self.engine.levels(), 1):
            if level in unknown and offset < end:
                log.warning(
                    "delayOffset.json says nothing of delay level %d: the messages that it has, "
                    "from %d to %d, are all delivered",
                    level,
                    offset,
                    end - 1,
                )

    def stop(self) -> None:
        """Nothing is delivered any more."""
        self._stopping = True

    def kept(self) -> list[int]:
        """How far each level is delivered, as the file is to say it: that much is on disk."""
        return list(self._offsets.offsets)

    async def save(self) -> None:
        """Writes the file, if it has changed. OSError."""
        await self._offsets.save_if_changed()

    def table(self) -> dict[str, Any]:
        """How far each level is delivered, as RocketMQ's brokers give it to others, and up to where
        of the log (`logEnd`, which only pyrmq reads). May wait: not for the event loop."""
        offsets, end = self.engine.progress()
        levels = dict(enumerate(offsets, 1))
        version = self._offsets.version.to_json()
        return {"dataVersion": version, "logEnd": end, "offsetTable": levels}

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run_deliveries)
            nursery.start_soon(self._run_keeping)

    async def _run_deliveries(self) -> None:
        while not self._stopping:
            due = self.engine.due_in(now_ms())
            if due is None or self._store.stall():
                await trio.sleep(POLL)
            elif due > 0:
                await trio.sleep(min(due / 1000, POLL))
            elif not await self._deliver():
                await trio.sleep(RETRY if self._failure else POLL)

    async def _deliver(self) -> int:
        """Delivers some of what is due, in a thread, as it may have to be read from the disk."""
        try:
            if not self._begun and not await self._keep_first():
                return 0
            count = await trio.to_thread.run_sync(self.engine.deliver, now_ms(), BATCH)
        except (PyrmqError, OSError) as e:
            if str(e) != self._failure:
                self._failure = str(e)
                log.error("delayed messages are not delivered, next try follows: %s", escape(e))
            return 0
        if count:
            self._failure = ""
            self._dirty = True
            unknown = self.engine.take_unknown()
            if unknown:
                self._adopt(unknown)
            self._wake()
        return count

    async def _keep_first(self) -> bool:
        """Before the first delivery the file says how much of the log it speaks of: a kill may come
        before it is written again."""
        self._dirty = True
        await self._keep()
        self._begun = self._offsets.log_end is not None
        return self._begun

    async def _run_keeping(self) -> None:
        while True:
            await trio.sleep(KEEP)
            if self._store.stall():
                continue
            try:
                await self._keep()
            except (PyrmqError, OSError) as e:
                log.error("delayOffset.json not written, next try follows: %s", escape(e))

    async def _keep(self) -> None:
        """Keeps progress, as far as it is on disk: what a machine that loses its power may take
        back was not delivered."""
        if self._durable is None and (self._dirty or self._is_behind(LOG_BEHIND)):
            self._dirty = False  # what is delivered from here on is not in it
            try:
                self._durable = await trio.to_thread.run_sync(self.engine.progress)
            except BaseException:
                self._dirty = True
                raise
        if self._durable is not None and self._store.flushed() >= self._durable[1]:
            self._offsets.set(*self._durable)
            self._durable = None
        await self._offsets.save_if_changed()

    def _is_behind(self, most: int) -> bool:
        """Whether a start would read more than so many bytes of log."""
        behind = self._store.confirmed() - (self._offsets.log_end or 0)
        return behind > most and any(end for _, end in self.engine.levels())

    async def finish(self) -> None:
        """Keeps the last of it, once nothing is delivered any more."""
        if self._store.failure() is None and not self._store.stall():
            self._dirty |= self._is_behind(0)
            with trio.move_on_after(FLUSH_WAIT):
                while self._dirty or self._durable is not None:
                    await self._keep()
                    await trio.sleep(0.02)
        await self._offsets.save_if_changed()
