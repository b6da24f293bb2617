"""How much of the log each topic uses, and what retention frees next. [CleanCommitLogService]

The sizes are those in the entries of consume queues. They are exact where all entries of a queue
were read: of queues with at most MAX_ENTRIES entries, for EXACT_SECONDS. Others are estimated by
parts. Everything here is for a thread: it reads files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.engine import Store, log_files, stored_topics, topic_sizes

MAX_ENTRIES = 1 << 18
"""Entries of a queue that are read, at most: 5 MiB."""
EXACT_SECONDS = 2.0
"""After so long, queues with more than SAMPLED entries are estimated by one part."""
SAMPLED = 512
ALL_SECONDS = 10.0
"""After so long, topics are not measured any more."""
HOUR_MS = 3_600_000

Row = tuple[int, int, int, int, int, bool]
"""As OfQueue."""
Size = Callable[[str, int, int, int], list[Row]]


@dataclass(frozen=True, slots=True)
class OfQueue:
    """A queue's part of the log: queue offsets of its first message there and behind the last."""

    queue_id: int
    first: int
    following: int
    messages: int
    nbytes: int
    exact: bool


@dataclass(slots=True)
class Measured:
    """Topics with something in a part of the log. `unmeasured`: topics for which the time did not
    last, or whose queues cannot be read."""

    begin: int
    end: int
    topics: dict[str, list[OfQueue]] = field(default_factory=dict)
    unmeasured: int = 0

    @property
    def nbytes(self) -> int:
        """Of all records that queues lead to."""
        return sum(queue.nbytes for queues in self.topics.values() for queue in queues)

    @property
    def is_exact(self) -> bool:
        exact = all(queue.exact for queues in self.topics.values() for queue in queues)
        return exact and not self.unmeasured


def measure(
    size: Size,
    topics: Iterable[str],
    begin: int,
    end: int,
    clock: Callable[[], float] = time.monotonic,
) -> Measured:
    """What topics use of the log from `begin` to before `end`. `size` is `Store`'s, see
    `size_of`."""
    found = Measured(begin, end)
    start = clock()
    for topic in topics:
        spent = clock() - start
        if spent > ALL_SECONDS:
            found.unmeasured += 1
            continue
        most = MAX_ENTRIES if spent <= EXACT_SECONDS else SAMPLED
        rows: list[Row] | None
        try:
            rows = size(topic, begin, end, most)
        except FileNotFoundError:  # retention has deleted a file of a queue: its log has gone on
            rows = _again(size, topic, begin, end, most)
        except OSError:
            rows = None
        if rows is None:
            found.unmeasured += 1
        elif queues := [OfQueue(*row) for row in rows if row[4]]:
            found.topics[topic] = queues
    return found


def _again(size: Size, topic: str, begin: int, end: int, most: int) -> list[Row] | None:
    try:
        return size(topic, begin, end, most)
    except OSError:
        return None


def size_of(store: Store) -> Size:
    def size(topic: str, begin: int, end: int, most: int) -> list[Row]:
        return topic_sizes(store.native, topic, begin, end, most)

    return size


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk that the store is on. `used`: percent as retention counts it, -1 if unknown."""

    path: str
    total: int
    free: int
    used: int

    @property
    def used_part(self) -> float:
        """`used` as a part of 1; -1 if unknown."""
        return self.used / 100 if self.used >= 0 else -1.0

    def left_until(self, ratio: int) -> int:
        """Bytes until more than so many percent are used."""
        return max(self.total * ratio // 100 - (self.total - self.free), 0)


def disk_of(path: Path) -> Disk:
    """That of a path; an unknown one if the system does not say."""
    try:
        return read_disk(path)
    except OSError:
        return Disk(str(path), 0, 0, -1)


def read_disk(path: Path) -> Disk:
    """Percent are rounded up, and what is kept for root does not count. [UtilAll]

    Raises OSError."""
    fs = os.statvfs(path)
    used = fs.f_blocks - fs.f_bfree
    every = used + fs.f_bavail
    percent = -(-used * 100 // every) if every else -1
    return Disk(str(path), every * fs.f_frsize, fs.f_bavail * fs.f_frsize, percent)


@dataclass(frozen=True, slots=True)
class Disks:
    """`logs`: of the folders of the commit log. `root`: of the rest of the store."""

    logs: list[Disk]
    root: Disk

    @classmethod
    def of(cls, config: BrokerConfig) -> Disks:
        logs = [*config.commit_log_dirs, *config.read_only_commit_log_dirs]
        return cls([disk_of(path) for path in logs], disk_of(config.store_path_root_dir))

    @property
    def log_used(self) -> int:
        """Of the log's folders the one with the most room counts; -1 if none is known."""
        return min((disk.used for disk in self.logs if disk.used >= 0), default=-1)

    def above(self, ratio: int) -> bool:
        return max(self.log_used, self.root.used) > ratio

    @property
    def are_known(self) -> bool:
        return self.log_used >= 0 and self.root.used >= 0


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of the log. `expires`: when its time is over; `due`: when retention deletes it, None
    if never. `why` it is kept now, empty if it is not. `in_tables`: its time counts as over
    (reclaimAfter)."""

    path: str
    begin: int
    end: int
    changed: int | None
    expires: int | None
    due: int | None
    why: str
    in_tables: bool = False


def plan(
    config: BrokerConfig, rows: Iterable[LogRow], disks: Disks, now: int, early: int = 0
) -> list[LogFile]:
    """The files of the log in the order in which retention deletes them. As `retention.rs` decides:
    the oldest file first, at an hour of deleteWhen, or at any while the disk is fuller than
    diskMaxUsedSpaceRatio; above diskSpaceCleanForciblyRatio whether its time is over or not.
    `early`: the time of files that end at this physical offset or before counts as over."""
    most_used, most_full, _ = ratios(config)
    at_once = not disks.are_known or disks.above(most_used) or disks.above(most_full)
    forcibly = disks.above(most_full) and config.clean_file_forcibly_enable
    files = []
    before: int | None = now
    for path, begin, end, changed, kept in rows:
        expires = None if changed is None else changed + config.file_reserved_time * HOUR_MS
        in_tables = end <= early
        if in_tables:
            expires = now if expires is None else min(expires, now)
        due: int | None = None
        if kept == LAST:
            before = None
        elif before is not None:
            if forcibly:
                due = before
            elif expires is not None:
                earliest = max(expires, before)
                due = earliest if at_once else next_hour(earliest, config.hours)
            before = due
        why = kept or _why(expires, due, now)
        files.append(LogFile(str(path), begin, end, changed, expires, due, why, in_tables))
    return files


LAST = "it is the last one"
LogRow = tuple[Path, int, int, int | None, str | None]


def ratios(config: BrokerConfig) -> tuple[int, int, int]:
    """diskMaxUsedSpaceRatio, diskSpaceCleanForciblyRatio and diskSpaceWarningLevelRatio, as they
    count: retention bounds them."""
    return (
        min(max(config.disk_max_used_space_ratio, 10), 95),
        min(max(config.disk_space_clean_forcibly_ratio, 30), 85),
        min(max(config.disk_space_warning_level_ratio, 35), 90),
    )


def _why(expires: int | None, due: int | None, now: int) -> str:
    """Why a file that may go is kept now."""
    if due is None:
        return "its age is unknown" if expires is None else "a file before it is kept"
    if due <= now:
        return ""
    return "its time is not over" if expires and expires > now else "not an hour of deleteWhen"


def next_hour(at: int, hours: Iterable[int]) -> int | None:
    """The first time from `at` on (ms since 1970) that is in one of these hours, local time."""
    wanted = set(hours)
    try:
        moment = datetime.fromtimestamp(at / 1000)
        for n in range(26):  # a day, and the hour that a change of the clock may take away
            if moment.hour in wanted:
                return at if n == 0 else int(moment.timestamp() * 1000)
            moment = moment.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    except (ValueError, OverflowError, OSError):
        return None
    return None


@dataclass(frozen=True, slots=True)
class Report:
    """What one measurement found. `freed`: what the topics have in the files that go next."""

    disks: Disks
    files: list[LogFile]
    whole: Measured
    freed: Measured
    next_files: int


def report(
    config: BrokerConfig, store: Store, now: int, files: int | None = None, early: int = 0
) -> Report:
    """Measures. `files`: how many of the next files are looked into; by default all that are due
    within a day, one at least. `early`: see `plan`."""
    disks = Disks.of(config)
    planned = plan(config, log_files(store.native), disks, now, early)
    deletable = [f for f in planned if f.due is not None]
    if files is None:
        day = now + 24 * HOUR_MS
        files = max(sum(f.due is not None and f.due <= day for f in deletable), 1)
    chosen = deletable[:files]
    begin = planned[0].begin if planned else 0
    cut = chosen[-1].end if chosen else begin
    topics = sorted(stored_topics(store.native))
    size = size_of(store)
    whole = measure(size, topics, begin, planned[-1].end if planned else 0)
    freed = Measured(begin, cut)
    if chosen:
        freed = measure(size, topics, begin, cut)
    return Report(disks, planned, whole, freed, len(chosen))
