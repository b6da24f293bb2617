"""What an archive holds: one small JSON file per run, written when everything of the run is.

    ROOT/_manifest/archive.json       what is archived; written before the first run
    ROOT/_manifest/00000007.json      run 7: its files and the offsets that are in them
    ROOT/_checkpoint/                 where the next run begins (Spark's)
    ROOT/run=00000007/topic=T/day=2026-11-22/*.parquet

A run's folder without its manifest is what a killed run left: nobody reads it, and the run is
written again from the same place. What both engines do alike when they write a run is here too.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyrmq.segments.offsets import shown
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.folder import Folder

MANIFESTS = "_manifest"
CHECKPOINT = "_checkpoint"
HEAD = f"{MANIFESTS}/archive.json"
VERSION = 1


@dataclass(frozen=True)
class File:
    """A Parquet file; `path` is relative to the archive, times are store times in ms."""

    path: str
    topic: str
    day: str
    rows: int
    fileBytes: int
    firstTimestamp: int
    lastTimestamp: int


@dataclass(frozen=True)
class QueueRange:
    """Queue offsets `first` to `last` (both are in it), of which `rows` are there: fewer where a
    filter left some out."""

    topic: str
    brokerName: str
    queueId: int
    first: int
    last: int
    rows: int


@dataclass(frozen=True)
class LogRange:
    """Physical offsets of a run's first and last record of one broker."""

    first: int
    last: int


@dataclass(frozen=True)
class Run:
    """One run: the micro-batch `run` of the stream that the archive is."""

    run: int
    finished: str
    rows: int
    fileBytes: int
    log: Mapping[str, LogRange]
    queues: Sequence[QueueRange]
    files: Sequence[File]
    version: int = VERSION

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=1, sort_keys=True).encode() + b"\n"

    @classmethod
    def from_json(cls, text: bytes, name: str) -> Run:
        """JobError if this is no manifest, or one of a later version."""
        try:
            value: dict[str, Any] = json.loads(text)
            if value["version"] != VERSION:
                raise JobError(f"{name} has version {value['version']}: this pyrmq reads {VERSION}")
            return cls(
                **{
                    **value,
                    "log": {b: LogRange(**r) for b, r in value["log"].items()},
                    "queues": [QueueRange(**q) for q in value["queues"]],
                    "files": [File(**f) for f in value["files"]],
                }
            )
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise JobError(f"{name} is no manifest of an archive: {e!r}") from e


@dataclass(frozen=True)
class Head:
    """What an archive was made of: another run must say the same."""

    selection: Mapping[str, str]
    columns: Sequence[str]
    version: int = VERSION

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=1, sort_keys=True).encode() + b"\n"

    @classmethod
    def from_json(cls, text: bytes, name: str) -> Head:
        try:
            value: dict[str, Any] = json.loads(text)
            if value["version"] != VERSION:
                raise JobError(f"{name} has version {value['version']}: this pyrmq reads {VERSION}")
            return cls(dict(value["selection"]), list(value["columns"]), value["version"])
        except (ValueError, KeyError, TypeError) as e:
            raise JobError(f"{name} is not of an archive: {e!r}") from e


@dataclass
class Manifest:
    """The manifests of an archive."""

    folder: Folder
    _known: dict[int, Run] = field(default_factory=dict)

    @staticmethod
    def name(run: int) -> str:
        return f"{MANIFESTS}/{run:08d}.json"

    @staticmethod
    def data(run: int) -> str:
        return f"run={run:08d}"

    def head(self) -> Head | None:
        if not self.folder.exists(HEAD):
            return None
        return Head.from_json(self.folder.read(HEAD), self.folder.path_of(HEAD))

    def numbers(self) -> list[int]:
        """Runs that are finished. JobError if one is missing."""
        found = sorted(
            int(name[:8])
            for name in self.folder.names(MANIFESTS)
            if len(name) == 13 and name.endswith(".json") and name[:8].isdecimal()
        )
        if found != list(range(len(found))):
            missing = next(n for n, run in enumerate(found) if n != run)
            raise JobError(
                f"{self.folder.path_of(self.name(missing))} is missing, later ones are there: "
                "restore it"
            )
        return found

    def has(self, run: int) -> bool:
        return self.folder.exists(self.name(run))

    def run(self, number: int) -> Run:
        if number not in self._known:
            name = self.name(number)
            run = Run.from_json(self.folder.read(name), self.folder.path_of(name))
            self._known[number] = run
        return self._known[number]

    def runs(self) -> Iterator[Run]:
        for number in self.numbers():
            yield self.run(number)

    def add(self, run: Run) -> None:
        """Makes a run part of the archive: the last thing that is done for it."""
        self.folder.create(self.name(run.run), run.to_json())

    def check_checkpoint(self) -> None:
        """JobError unless checkpoint and manifests are of one history: a checkpoint that is behind
        would archive twice, one that is ahead leave something out."""
        begun = highest(self.folder.names(f"{CHECKPOINT}/offsets"))
        done = highest(self.folder.names(f"{CHECKPOINT}/commits"))
        last = len(self.numbers()) - 1
        where = self.folder.path_of(CHECKPOINT)
        if last > begun:
            raise JobError(
                f"{where} is gone or older than the archive (run {begun}, the archive has run "
                f"{last}): restore it, or begin a new archive with a start time"
            )
        if done > last:
            raise JobError(
                f"{self.folder.path_of(self.name(last + 1))} is missing, the checkpoint says that "
                f"run {done} was finished: restore the manifests"
            )


def highest(names: Sequence[str]) -> int:
    return max((int(name) for name in names if name.isdecimal()), default=-1)


@dataclass(frozen=True)
class Archived:
    """What a call of `archive` added: runs that hold something, without what is in them (a call
    that follows a log runs for long; `Manifest.run` has it)."""

    root: str
    runs: Sequence[Run]

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.runs)

    @property
    def file_bytes(self) -> int:
        return sum(run.fileBytes for run in self.runs)


CODECS = ("snappy", "zstd", "gzip", "lz4", "none")
UNIQUE = ("body", "keys", "commitLogOffset")
"""Columns whose values hardly repeat: building a dictionary of them would be for nothing."""
OPEN_FILES = 100
"""Files of topics and days that are written at a time."""


@contextmanager
def opened_for_writing(manifest: Manifest, head: Head, codec: str) -> Iterator[None]:
    """Keeps a second process out, where the archive lies on a local disk. JobError unless the
    archive is new, or was begun like this and its history is whole."""
    if codec not in CODECS:
        raise JobError(f"no codec {codec}: {', '.join(CODECS)}")
    with locked(manifest.folder):
        _agree(manifest, head)
        manifest.check_checkpoint()
        yield


@contextmanager
def locked(folder: Folder) -> Iterator[None]:
    path = folder.local_path()
    if path is None:
        yield
        return
    os.makedirs(os.path.join(path, MANIFESTS), exist_ok=True)
    with open(os.path.join(path, MANIFESTS, "_lock"), "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise JobError(f"{path}: another process is archiving there") from None
        yield


def _agree(manifest: Manifest, head: Head) -> None:
    there = manifest.head()
    if there is None:
        if manifest.numbers():
            raise JobError(f"{manifest.folder.path_of(HEAD)} is missing: restore it")
        manifest.folder.create(HEAD, head.to_json())
        return
    for what, old, new in (
        ("selection", dict(there.selection), dict(head.selection)),
        ("columns", list(there.columns), list(head.columns)),
    ):
        if old != new:
            raise JobError(
                f"{manifest.folder.uri} was begun with {what} {_shown(old)}, not {_shown(new)}: "
                "ask for the same, or begin another archive"
            )


def _shown(value: Any) -> Any:
    """Times of options as text."""
    if not isinstance(value, dict):
        return value
    return {
        name: shown(int(text)) if name.endswith("Timestamp") and text.isdecimal() else text
        for name, text in value.items()
    }


def finish(manifest: Manifest, run: Run) -> None:
    """Makes a written run part of the archive."""
    data = manifest.data(run.run)
    if not run.rows:
        manifest.folder.delete(data)
    check_files(manifest.folder, data, run)
    manifest.add(run)


def check_files(folder: Folder, data: str, run: Run) -> None:
    """JobError unless a run's files are as it says: a second writer deletes what the first has not
    yet acknowledged, and the archive's file system may have no lock to keep it out."""
    there = {f"{data}/{name}": size for name, size in folder.sizes(data)}
    for file in run.files:
        if there.get(file.path) != file.fileBytes:
            raise JobError(
                f"{folder.path_of(file.path)} is not as it was written: is another process at "
                "work here?"
            )


def brief(run: Run) -> Run:
    """Without what is in it: a call that follows a log runs for long."""
    return replace(run, log={}, queues=(), files=())
