"""How much of the commit log each topic uses, and what retention frees next: a request that only
pyrmq's brokers take. The answer is JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import trio

from pyrmq.broker.bounds import Bounded
from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.reclaim import Reclaim
from pyrmq.broker.requests import fields
from pyrmq.broker.stats import disk_use
from pyrmq.broker.stats.disk_use import Disk, LogFile, Measured, OfQueue, Report
from pyrmq.broker.stats.folding import LOOK
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.engine import Command, Store, log_bounds
from pyrmq.errors import InvalidParameterError
from pyrmq.net import fastjson
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import Steps, Turns

WAITING = 16
"""Requests that may wait for the one measurement that runs."""
FRESH = 5.0
"""Seconds for which a measurement is answered again."""
MAX_ROWS = 1024
"""Most rows of each table of an answer."""
MAX_QUEUES = 4096
"""Most queues of a topic that an answer tells of."""
MAX_FILES = 64
"""Most files of the log that an answer tells of, and that are looked into."""
DEFAULT_ROWS = 20


@dataclass(frozen=True, slots=True)
class _Asked:
    limit: int
    offset: int
    files: int | None
    topic: str | None


class DiskUseProcessor:
    """`rate`: bytes that the log grows by in a second, None if that is not known yet."""

    def __init__(
        self,
        live: LiveConfig,
        store: Store,
        offsets: OffsetTable,
        rate: Callable[[], float | None],
        reclaim: Reclaim | None = None,
    ) -> None:
        self._live = live
        self._store = store
        self._offsets = offsets
        self._rate = rate
        self._reclaim = reclaim
        self._bounded = Bounded("measurements of the disk", 1, WAITING)
        self._one = trio.Lock()
        self._last: tuple[float, int | None, Report] | None = None
        self._turns = Turns()

    def __call__(self, connection: Connection, command: Command) -> Elsewhere:
        """GET_DISK_USE: `limit` topics from `offset` on, those that use most first; `topic`: that
        one with its queues; `files`: how many of the next files to delete are looked into."""
        asked = _Asked(
            _within(command, "limit", DEFAULT_ROWS, 1, MAX_ROWS),
            _within(command, "offset", 0, 0, (1 << 31) - 1),
            _within(command, "files", 0, 0, MAX_FILES) or None,
            command.ext.get("topic") or None,
        )
        return self._bounded.begin(self._answer(connection, asked))

    async def _answer(self, connection: Connection, asked: _Asked) -> Response:
        found = await self._report(asked.files)
        body = await self._turns.run(self._body(found, asked), connection)
        return Response(body=fastjson.dumps(body))

    async def _report(self, files: int | None) -> Report:
        async with self._one:
            last = self._last
            if last is not None and last[1] == files and time.monotonic() - last[0] < FRESH:
                return last[2]
            config, reclaim = self._live.now, self._reclaim
            early = 0 if reclaim is None else reclaim.found.to
            made = await self._bounded.run(
                disk_use.report, config, self._store, now_ms(), files, early
            )
            self._last = time.monotonic(), files, made
            return made

    def _body(self, found: Report, asked: _Asked) -> Steps[dict[str, Any]]:
        config, whole = self._live.now, found.whole
        by_topic = {topic: _sum(queues) for topic, queues in whole.topics.items()}
        yield
        names = sorted(by_topic, key=lambda topic: (-by_topic[topic]["bytes"], topic))
        yield
        if asked.topic is not None:
            names = [topic for topic in names if topic == asked.topic]
        shown = names[asked.offset : asked.offset + asked.limit]
        topics = [{"topic": topic, **by_topic[topic]} for topic in shown]
        if asked.topic is not None and topics:
            topics[0]["byQueue"] = [_queue(q) for q in whole.topics[asked.topic][:MAX_QUEUES]]
        files = found.files
        begin, end, flushed, _, _ = log_bounds(self._store.native)
        most_used, most_full, warning = disk_use.ratios(config)
        freed = yield from self._freed(found, asked)
        return {
            "now": now_ms(),
            "log": {
                "begin": begin,
                "end": end,
                "flushed": flushed,
                "files": len(files),
                "fileSize": config.mapped_file_size_commit_log,
            },
            "disks": [_disk(d, (most_used, most_full, warning)) for d in found.disks.logs],
            "root": _disk(found.disks.root, (most_used, most_full, warning)),
            "settings": {
                "fileReservedTime": config.file_reserved_time,
                "deleteWhen": config.delete_when,
                "diskMaxUsedSpaceRatio": most_used,
                "diskSpaceCleanForciblyRatio": most_full,
                "diskSpaceWarningLevelRatio": warning,
                "cleanFileForciblyEnable": config.clean_file_forcibly_enable,
            },
            "bytesPerSecond": self._rate(),
            "topics": topics,
            "count": len(names),
            "measured": whole.nbytes,
            "exact": whole.is_exact,
            "unmeasured": whole.unmeasured,
            "files": [_file(file) for file in files[:MAX_FILES]],
            **({} if self._reclaim is None else {"reclaim": _reclaim(self._reclaim)}),
            "next": freed,
        }

    def _freed(self, found: Report, asked: _Asked) -> Steps[dict[str, Any]]:
        """What is in the files that go next, and whose messages."""
        freed = found.freed
        lost: dict[tuple[str, str], int] = {}
        for at, (topic, group, messages) in enumerate(self._unread(freed)):
            if at % LOOK == 0:
                yield
            if messages and asked.topic in (None, topic):
                lost[group, topic] = lost.get((group, topic), 0) + messages
        by_topic = {
            topic: _sum(queues)
            for topic, queues in freed.topics.items()
            if asked.topic in (None, topic)
        }
        yield
        names = sorted(by_topic, key=lambda topic: (-by_topic[topic]["bytes"], topic))
        yield
        worst = sorted(lost, key=lambda pair: (-lost[pair], pair))
        return {
            "files": found.next_files,
            "bytes": freed.end - freed.begin,
            "begin": freed.begin,
            "end": freed.end,
            "topics": [{"topic": t, **by_topic[t]} for t in names[: asked.limit]],
            "topicCount": len(names),
            "groups": [
                {"group": group, "topic": topic, "messages": lost[group, topic]}
                for group, topic in worst[: asked.limit]
            ],
            "groupCount": len(worst),
            "exact": freed.is_exact,
        }

    def _unread(self, freed: Measured) -> Iterator[tuple[str, str, int]]:
        """Topic, group, and how many of the messages the group has not consumed, by queue."""
        for topic, queues in list(freed.topics.items()):
            for group in self._offsets.groups_of(topic):
                committed = self._offsets.all_of(topic, group)
                for queue in queues:
                    offset = committed.get(queue.queue_id)
                    messages = 0
                    if offset is not None:
                        messages = max(queue.following - max(offset, queue.first), 0)
                    yield topic, group, messages


def _within(command: Command, name: str, default: int, least: int, most: int) -> int:
    value = fields.int32(command, name, default)
    if not least <= value <= most:
        raise InvalidParameterError(f"{name} {value} is not from {least} to {most}")
    return value


def _sum(queues: list[OfQueue]) -> dict[str, Any]:
    return {
        "bytes": sum(queue.nbytes for queue in queues),
        "messages": sum(queue.messages for queue in queues),
        "queues": len(queues),
        "exact": all(queue.exact for queue in queues),
    }


def _queue(queue: OfQueue) -> dict[str, Any]:
    return {
        "queueId": queue.queue_id,
        "first": queue.first,
        "next": queue.following,
        "messages": queue.messages,
        "bytes": queue.nbytes,
        "exact": queue.exact,
    }


def _disk(disk: Disk, ratios: tuple[int, int, int]) -> dict[str, Any]:
    names = ("diskMaxUsedSpaceRatio", "diskSpaceCleanForciblyRatio", "diskSpaceWarningLevelRatio")
    return {
        "path": disk.path,
        "total": disk.total,
        "free": disk.free,
        "usedPercent": disk.used,
        "leftUntil": {n: disk.left_until(ratio) for n, ratio in zip(names, ratios, strict=True)},
    }


def _reclaim(reclaim: Reclaim) -> dict[str, Any]:
    return {"to": reclaim.found.to, "why": reclaim.found.why}


def _file(file: LogFile) -> dict[str, Any]:
    return {
        "file": file.path,
        "begin": file.begin,
        "end": file.end,
        "changed": file.changed,
        "expires": file.expires,
        "due": file.due,
        "why": file.why,
        "inTables": file.in_tables,
    }
