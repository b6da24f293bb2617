"""How far groups have consumed: config/consumerOffset.json. [ConsumerOffsetManager]"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import trio

from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.config_file import PersistentTable, Rows
from pyrmq.broker.tables.offset_file import (
    QueueOfGroup,
    by_group,
    by_queue,
    is_number,
    read_offset,
)
from pyrmq.engine import PullGrants
from pyrmq.errors import NoPermissionError, SystemBusyError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.names import OWN_OFFSETS
from pyrmq.model.topic import DataVersion, as_int
from pyrmq.net.clock import now_ms

log = logging.getLogger(__name__)

AT_ONCE = 4096
"""Positions that `forget` examines before it lets other tasks run."""
MAX_OFFSETS = 1 << 22
"""Most offsets of all groups that clients make by committing."""
MAX_GONE = 1 << 16
"""Groups and topics of which it is remembered that offsets were removed."""
LOG_INTERVAL = 60.0
"""Seconds between two lines of the log about offsets that are not kept."""
TAKEN_AT_ONCE = 256
"""Rows of the engine that are taken before other tasks run: 2 ms."""
GrantedRow = tuple[str, str, int, int, int | None, int, int, int]
Granted = Callable[[str, str, int, int, int], None]
"""Called with topic, group, pulls, messages and bytes."""


class PopLog(Protocol):
    """The log in which pops are, for their offsets."""

    def start(self, before: int | None) -> int | None:
        """`OffsetTable.pop_start` of offsets as they are now. `before`: of the last ones."""

    async def on_disk(self) -> None:
        """Waits until the check points of the offsets that the last `start` was asked for are on
        disk: a power cut must not take back a check point whose offset is kept. OSError."""


class OffsetTable(PersistentTable):
    """Next offset to consume by (topic, group) and queue."""

    def __init__(self, path: Path, version_step: int, grants: PullGrants | None = None) -> None:
        """`grants`: pulls that the engine answers; what they commit is taken before anything is
        read or changed here."""
        super().__init__(path)
        self._grants = grants
        self._granted_watchers: list[Granted] = []
        self._first_watchers: list[Callable[[str, str], None]] = []
        self._step = max(version_step, 1)
        self._updates = 0
        self.offsets: dict[tuple[str, str], dict[int, int]] = {}
        self._topics: dict[str, list[str]] = {}
        """The topics that a group has offsets of."""
        self._groups: dict[str, dict[str, None]] = {}
        """The groups that have offsets of a topic."""
        self.resets: dict[QueueOfGroup, int] = {}
        """Offsets that an operator set, until the group pulls from there. What it commits before
        does not count. Kept in the file, in a member `resetTable` that RocketMQ does not read."""
        self.here: set[QueueOfGroup] | None = None
        """At a slave: what consumers have committed here, and the master has not heard of. Kept in
        the file as `resets` are, in a member `hereTable`."""
        self._as_loaded: set[QueueOfGroup] = set()
        """What the file had at the start, or a slave has handed over since; nothing else has
        changed it."""
        self._gone: set[tuple[str, str]] = set()
        """(Topic, group) whose offsets were removed since the start, MAX_GONE at most."""
        self.count = 0
        """How many offsets there are."""
        self.pop_start: int | None = None
        """The file's offsets say all about pops whose check points stand before this place of the
        queue of timer messages; those behind it may say more. None: nothing is known, as RocketMQ
        wrote the file last (0 without a file). Kept in a member `popStart`, which is ours alone."""
        self.pops: PopLog | None = None
        self.table_group = ""
        """The group whose offsets say what tables have (reclaimGroup), if files are deleted by
        them: only `commit_of_table` moves them forward. "": there is none."""
        self._next_log = -math.inf
        self._pulled: dict[QueueOfGroup, int] = {}
        """Where the next pull of a group is expected."""
        self._pullers: set[str] = set()
        """Groups whose pulls the engine has answered since `take_pullers`."""
        self._offset_rows = Rows(self._offset_row)
        self._topic_rows = Rows(self._topic_row)
        self._others_of: dict[tuple[str, str], dict[Any, Any]] = {}
        """What rows of the file say besides numbers: they are written again."""
        self._load()

    def _load(self) -> None:
        value = self.load(
            "dataVersion", "groupTopicMap", "hereTable", "offsetTable", "popStart", "resetTable",
            "tableGroup",
        )  # fmt: skip
        self.version = DataVersion.from_json(value.get("dataVersion"))
        table = value.get("offsetTable")
        kept: set[Any] = set()
        for key, queues in (table if isinstance(table, dict) else {}).items():
            topic, sep, group = str(key).partition("@")
            if not sep or not isinstance(queues, dict):
                kept.add(key)
                continue
            own = self._queues(topic, group)
            for queue, offset in queues.items():
                if is_number(queue):
                    own[as_int(queue, 0)] = read_offset(self.path.name, str(key), queue, offset)
                else:
                    self._others_of.setdefault((topic, group), {})[queue] = offset
            self._as_loaded.update((topic, group, q) for q in own)
            self.count += len(own)
        if kept:
            for key, row in value.rows("offsetTable", kept).items():
                topic, sep, group = str(key).partition("@")
                self._offset_rows.keep({(topic, group) if sep else key: row})
            config_file.tell_kept(self.path, sorted(map(str, kept)))
        self.resets.update(by_queue(value.get("resetTable")))
        start = as_int(value.get("popStart"), -1)
        self.pop_start = start if start >= 0 else None if value else 0
        self._kept_table_group = value.get("tableGroup")
        self.found_here = set(by_queue(value.get("hereTable")))
        """`here`, as the file had it."""

    def set_back(self, topic: str, group: str, ends: Mapping[int, int]) -> None:
        """Sets offsets of a group as they are loaded to the ends of their queues; `new_version`
        has to follow."""
        self._offset_rows.change((topic, group))
        self.offsets[topic, group].update(ends)

    def _offset_row(self, key: tuple[str, str]) -> bytes:
        offsets = self.offsets[key]
        others = self._others_of.get(key, {})
        row = {k: v for k, v in others.items() if as_int(k, -1) not in offsets}
        return config_file.row("@".join(key), row | offsets)

    def _topic_row(self, group: str) -> bytes:
        return config_file.row(group, self._topics[group])

    def _queues(self, topic: str, group: str) -> dict[int, int]:
        """The offsets of a group, for the caller to change now."""
        key = (topic, group)
        self._offset_rows.change(key)
        queues = self.offsets.get(key)
        if queues is None:
            self._topic_rows.change(group)
            self._topics.setdefault(group, []).append(topic)
            self._groups.setdefault(topic, {})[group] = None
            queues = self.offsets[key] = {}
        return queues

    def watch_granted(self, watcher: Granted) -> None:
        """From now on `watcher` hears of the pulls that the engine has answered."""
        self._granted_watchers.append(watcher)

    def watch_first(self, watcher: Callable[[str, str], None]) -> None:
        """From now on `watcher` hears of a topic and a group that commits its first offset in
        it."""
        self._first_watchers.append(watcher)

    def take_granted(self) -> None:
        """Takes what the engine's answers to pulls have committed. Everything in this table comes
        after it."""
        if self._grants is not None:
            self._take_rows(self._grants.drain())

    async def take_granted_in_turns(self) -> None:
        """The same, for who can wait: other tasks run meanwhile. With very many groups there is
        much to take. What is answered meanwhile may be left."""
        if self._grants is None:
            return
        for _ in range(MAX_OFFSETS // TAKEN_AT_ONCE):
            rows = self._grants.drain(TAKEN_AT_ONCE)
            self._take_rows(rows)
            if len(rows) < TAKEN_AT_ONCE:
                return
            await trio.lowlevel.checkpoint()

    def _take_rows(self, rows: list[GrantedRow]) -> None:
        for topic, group, queue_id, following, commit, *counts in rows:
            self._pulled[topic, group, queue_id] = following
            self._pullers.add(group)
            for granted in self._granted_watchers:
                granted(topic, group, *counts)
            if commit is None or group == self.table_group:
                continue
            if self._has_room(topic, group, queue_id):
                self._keep_unless_reset(topic, group, queue_id, commit)

    async def take_pullers(self) -> set[str]:
        """The groups whose pulls the engine has answered since the last call."""
        await self.take_granted_in_turns()
        pullers, self._pullers = self._pullers, set()
        return pullers

    def pulled(self, key: QueueOfGroup, following: int) -> None:
        """A pull was answered; `following`: where the next one is expected."""
        self.take_granted()
        self._pulled[key] = following

    def next_pull(self, topic: str, group: str, queue_id: int) -> int:
        """Where the next pull is expected, 0 if there was none."""
        self.take_granted()
        return self._pulled.get((topic, group, queue_id), 0)

    @property
    def expected(self) -> Mapping[QueueOfGroup, int]:
        """Where the next pull of each group is expected, as of the last `take_granted`."""
        return self._pulled

    def _remove(self, topic: str, group: str) -> None:
        self._offset_rows.remove((topic, group))
        self._as_loaded.difference_update((topic, group, q) for q in self.offsets[topic, group])
        if len(self._gone) < MAX_GONE:
            self._gone.add((topic, group))
        self.count -= len(self.offsets[topic, group])
        del self.offsets[topic, group]
        del self._groups[topic][group]
        if not self._groups[topic]:
            del self._groups[topic]
        topics = self._topics[group]
        if len(topics) > 1:
            self._topic_rows.change(group)
            topics.remove(topic)
        else:
            self._topic_rows.remove(group)
            del self._topics[group]

    def new_version(self) -> None:
        """Marks the table as changed by more than a commit: its version grows."""
        self.version.next(now_ms())
        self.changed()

    def remove(self, topic: str, group: str) -> None:
        """Removes what a group has of a topic, if it has something."""
        self.take_granted()
        if (topic, group) in self.offsets:
            self._remove(topic, group)
            self.new_version()

    def remove_topic(self, topic: str) -> int:
        """Removes what all groups have of a topic; how many groups that were.
        [cleanOffsetByTopic]"""
        self.take_granted()
        groups = list(self._groups.get(topic, ()))
        for group in groups:
            self._remove(topic, group)
        if groups:
            self.new_version()
        return len(groups)

    def remove_group(self, group: str) -> int:
        """Removes all that a group has; of how many topics that was. [removeOffset]"""
        if group in OWN_OFFSETS:
            self.check_group(group)
        self.take_granted()
        topics = list(self._topics.get(group, ()))
        for topic in topics:
            self._remove(topic, group)
        if topics:
            self.new_version()
        return len(topics)

    def topics(self) -> list[str]:
        """Topics that some group has an offset of."""
        self.take_granted()
        return list(self._groups)

    async def forget(self, gone: Callable[[str, str], bool]) -> None:
        """Forgets where pulls are expected, and resets, of the (topic, group) that are `gone`.
        Other tasks run meanwhile."""
        self.take_granted()
        for table in (self.resets, self._pulled):
            keys = list(table)
            for start in range(0, len(keys), AT_ONCE):
                for key in keys[start : start + AT_ONCE]:
                    if gone(key[0], key[1]):
                        table.pop(key, None)
                        self.changed()
                await trio.lowlevel.checkpoint()

    def query(self, topic: str, group: str, queue_id: int) -> int | None:
        self.take_granted()
        return self.offsets.get((topic, group), {}).get(queue_id)

    def all_of(self, topic: str, group: str) -> Mapping[int, int]:
        """The offsets of a group by queue."""
        self.take_granted()
        return self.offsets.get((topic, group), {})

    def topics_of(self, group: str) -> list[str]:
        """Topics that a group has an offset of."""
        self.take_granted()
        return sorted(self._topics.get(group, ()))

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have an offset of this topic."""
        self.take_granted()
        return sorted(self._groups.get(topic, ()))

    def commit(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Stores a client's offset as it is; going back is a consumer's right. SystemBusyError if
        it is one more than MAX_OFFSETS."""
        self.check_group(group)
        self.take_granted()
        if not self._has_room(topic, group, queue_id):
            raise SystemBusyError(f"{self.count} offsets are kept already: at most {MAX_OFFSETS}")
        self._keep_unless_reset(topic, group, queue_id, offset)

    def guard_tables(self, group: str) -> None:
        """From now on only `commit_of_table` moves the offsets of this group. Those of before do
        not count, unless the file says that they were guarded as well: anybody may have committed
        them."""
        if self._kept_table_group != group and self.remove_group(group):
            log.warning(
                "offsets of group %s are removed: they were committed before it became "
                "reclaimGroup. The job that writes the tables commits them again",
                escape(group),
                extra=about(group=group),
            )
        self.table_group = group
        self.changed()

    def commit_of_table(self, topic: str, queue_id: int, offset: int) -> None:
        """Stores what the table of a topic has. Whether who says so may was checked before."""
        self.take_granted()
        if not self._has_room(topic, self.table_group, queue_id):
            raise SystemBusyError(f"{self.count} offsets are kept already: at most {MAX_OFFSETS}")
        self.keep(topic, self.table_group, queue_id, offset)

    def commit_with_pull(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """The same of a pull, which is answered whether or not there is room."""
        self.check_group(group)
        self.take_granted()
        if self._has_room(topic, group, queue_id):
            self._keep_unless_reset(topic, group, queue_id, offset)

    def _has_room(self, topic: str, group: str, queue_id: int) -> bool:
        """Whether an offset may be kept: it is no new one, or there are not too many. Logged, as
        most commits ask for no answer."""
        if self.count < MAX_OFFSETS or queue_id in self.offsets.get((topic, group), {}):
            return True
        if time.monotonic() >= self._next_log:
            self._next_log = time.monotonic() + LOG_INTERVAL
            log.error(
                "%d offsets are kept already: those of group %s in topic %s, and other new ones, "
                "are not. Delete groups and topics that nobody uses",
                self.count,
                escape(group),
                escape(topic),
                extra=about(topic=topic, group=group),
            )
        return False

    def _keep_unless_reset(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        if (topic, group) not in self.offsets:
            for began in self._first_watchers:
                began(topic, group)
        key = (topic, group, queue_id)
        if not self.resets or key not in self.resets:
            self.keep(*key, offset)
            if self.here is not None:
                self.here.add(key)

    def reset(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Sets an offset by an operator's word; the group's next pull is sent there."""
        self.check_group(group)
        self.take_granted()
        self.keep(topic, group, queue_id, offset)
        self._as_loaded.discard((topic, group, queue_id))
        self.resets[topic, group, queue_id] = offset
        self.changed()
        if self._grants is not None:
            self._grants.revoke()

    def moved(self, key: QueueOfGroup, offset: int) -> int | None:
        """Where a pull from `offset` has to begin instead, None if it is right. A pull may be of a
        client that has not heard of the reset, or whose answer is lost: each is told."""
        reset = self.resets.get(key)
        if reset == offset:
            del self.resets[key]
            self.changed()
            return None
        return reset

    def take_reset(self, key: QueueOfGroup) -> int | None:
        """Where an operator has sent the group, once: for a pop, which the broker itself begins
        there. [queryThenEraseResetOffset]"""
        reset = self.resets.pop(key, None) if self.resets else None
        if reset is not None:
            self.changed()
        return reset

    def take_over(self, topic: str, group: str, queue_id: int, offset: int) -> bool:
        """Takes what consumers have committed at a slave while this broker was away. Whether it
        does: what is further counts, and more than that what this broker was told since its start:
        a commit, a reset that the group has not heard of, a removal."""
        self.check_group(group)
        self.take_granted()
        key = (topic, group, queue_id)
        known = self.offsets.get((topic, group), {}).get(queue_id)
        if known is None:
            gone = (topic, group) in self._gone or len(self._gone) >= MAX_GONE
            if gone or key in self.resets:
                return False
        elif key not in self._as_loaded or key in self.resets or known >= offset:
            return False
        self.keep(*key, offset)
        self._as_loaded.add(key)  # another slave may have got further
        return True

    def check_group(self, group: str) -> None:
        """NO_PERMISSION for a group whose offsets nobody else may change."""
        if group in OWN_OFFSETS:
            raise NoPermissionError(f"the offsets of group[{group}] are the broker's own")
        if group and group == self.table_group:
            raise NoPermissionError(
                f"the offsets of group[{group}] say what tables have (reclaimGroup): only "
                "UPDATE_CONSUMER_OFFSET moves them"
            )

    def keep(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Stores an offset, whoever it is of."""
        if self.offsets.get((topic, group), {}).get(queue_id) == offset:
            return
        own = self._queues(topic, group)
        self.count += queue_id not in own
        own[queue_id] = offset
        self._as_loaded.discard((topic, group, queue_id))
        self._updates += 1
        if self._updates % self._step == 0:
            self.version.next(now_ms())
        self.changed()

    async def save_if_changed(self) -> None:
        await self.take_granted_in_turns()
        await super().save_if_changed()

    async def await_frozen(self) -> None:
        if self.pops is not None:
            await self.pops.on_disk()

    def to_json(self) -> dict[str, Any]:
        if self.pops is not None:
            self.pop_start = self.pops.start(self.pop_start)
        return {
            "dataVersion": self.version.to_json(),
            "groupTopicMap": self._topic_rows.freeze(),
            "offsetTable": self._offset_rows.freeze(),
            **({} if self.pop_start is None else {"popStart": self.pop_start}),
            **({"tableGroup": self.table_group} if self.table_group else {}),
            **({"resetTable": by_group(self.resets)} if self.resets else {}),
            **({"hereTable": by_group(dict.fromkeys(self.here, 1))} if self.here else {}),
        }
