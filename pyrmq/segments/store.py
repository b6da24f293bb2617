"""Where the segments of a broker's log are: a store folder, a commit-log folder, or single files.

Layout and names: [StorePathConfigHelper, MappedFileQueue]: a segment's name is the
physical offset of its first byte in 20 digits.
"""

from __future__ import annotations

import logging
import os
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from pyrmq.errors import (
    Parameter,
    SegmentError,
    SegmentLayoutError,
    SegmentOptionError,
    SegmentPathError,
)
from pyrmq.escape import escape
from pyrmq.segments import config_folder
from pyrmq.segments.filesystem import LOCAL, FileSystem, Found, LocalFiles, place
from pyrmq.segments.left_out import name_left_out

log = logging.getLogger("pyrmq.segments")

File = tuple[int, int, str]
"""Physical offset of the first byte, length in bytes, path on its file system."""

NAME_DIGITS = 20
_MAX_OFFSET = 2**63 - 1
_QUEUE_FOLDERS = ("consumequeue", "batchconsumequeue", "consumequeue_ext", "timerlog")
_SHOWN = 3


@dataclass(frozen=True)
class SegmentStore:
    """One broker's log. Can be sent to another process."""

    name: str
    """Name of the broker."""
    root: str
    """Path or URI as it was given, for messages."""
    files: tuple[File, ...]
    """Sorted; none is empty, no two overlap. There may be holes between them."""
    queues: str | None = None
    """The consumequeue folder; None if there is none that can be read here."""
    index: str | None = None
    """The index folder, likewise."""
    filesystem: FileSystem | None = None
    """How to open the files; None: they are local."""
    folder: str = ""
    """The commit-log folder; "" for single files."""
    base: str = ""
    """The store folder; "" where the log alone was given."""
    no_queues: str = ""
    """Why there are no queues."""
    folder_name: str = ""
    """Name of its folder, where `name` is what the store itself says."""

    @property
    def first(self) -> int:
        """Physical offset of the first byte that is there."""
        return self.files[0][0]

    @property
    def last(self) -> int:
        """Physical offset behind the last file, which may be room not yet written."""
        return self.files[-1][0] + self.files[-1][1]

    @property
    def place(self) -> FileSystem | LocalFiles:
        return self.filesystem or LOCAL

    def opener(self) -> Callable[[str], Any] | None:
        """What the native readers open the files with; None for local ones."""
        return self.filesystem.opener() if self.filesystem else None

    def holes(self) -> list[tuple[int, int]]:
        """Ranges of physical offsets between the files that no file holds."""
        ends = [base + length for base, length, _ in self.files]
        pairs = zip(ends, self.files[1:], strict=False)
        return [(end, file[0]) for end, file in pairs if end < file[0]]

    def relisted(self) -> SegmentStore:
        """The same place listed again: files come at the end and go at the start."""
        if self.folder:
            files, _ = _segments(self.place.list(self.folder))
        else:
            paths = [path for _, _, path in self.files]
            files = _single_files(self.place, [p for p in paths if self.place.kind(p) == "file"])
        if not files:
            raise SegmentPathError(f"{self.root}: all of its segments are deleted")
        return replace(self, files=_in_order(files))

    def topics(self) -> frozenset[str] | None:
        """Topics that the store knows, by its queue folders and config/topics.json.

        None if it has neither, so that nothing can be said.
        """
        if not self.base:
            return None
        names: set[str] = set()
        has_queues = False
        for folder in ("consumequeue", "batchconsumequeue"):
            path = posixpath.join(self.base, folder)
            in_database = self.place.kind(f"{path}/CURRENT") == "file"
            if self.place.kind(path) == "folder" and not in_database:
                has_queues = True
                names.update(f.name for f in self.place.list(path) if not f.is_file)
        configured = self.configured_topics()
        if configured is None and not has_queues:
            return None
        return frozenset(names | (configured or frozenset()))

    def configured_topics(self) -> frozenset[str] | None:
        """Topics of config/topics.json; None if it cannot be read."""
        if not self.base:
            return None
        found = config_folder.topics(self.place, posixpath.join(self.base, "config"))
        return None if found is None else frozenset(found)


def open_stores(
    paths: Sequence[str],
    broker_names: Sequence[str] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> list[SegmentStore]:
    """The stores at `paths`, one a broker; single files of one folder are one broker's.

    `broker_names`: one for each store, in their order; without them what the config folders of the
    stores say, and the names of the folders where they say nothing.
    `storage_options` go to fsspec. SegmentError says what is wrong with a place.
    """
    if not paths:
        raise SegmentPathError("no path is given", "name a store, a commitlog folder or segments")
    options = dict(storage_options or {})
    stores: list[SegmentStore] = []
    loose: dict[str, list[str]] = {}
    for path in paths:
        system, where = place(path, options)
        files = system or LOCAL
        if system is None:
            where = os.path.abspath(where)
        match files.kind(where):
            case "folder":
                stores.append(_folder_store(path, where, system))
            case "file":
                folder = posixpath.dirname(where if system is None else path.rstrip("/"))
                if folder not in loose:
                    loose[folder] = []
                    stores.append(SegmentStore("", folder, (), filesystem=system))
                loose[folder].append(where)
            case _:
                raise SegmentPathError(
                    f"{path}: there is no such file or folder", _nearby(files, where)
                )
    stores = [_of_files(s, loose[s.root]) if not s.files else s for s in stores]
    name_left_out(stores)
    if not broker_names:
        stores = [_by_its_files(store) for store in stores]
    return _named(stores, broker_names)


def _by_its_files(store: SegmentStore) -> SegmentStore:
    """The store with the name that it says itself; else that of its folder stays."""
    name = config_folder.told_name(store.place, store.base or _above(store), store.root)
    return store if name is None else replace(store, name=name, folder_name=store.name)


def _above(store: SegmentStore) -> str:
    """The store folder that a commit-log folder, or the folder of single files, is in; "" where it
    is not named as those in a store are."""
    folder = store.folder or posixpath.dirname(store.files[0][2])
    above, name = posixpath.split(folder.rstrip("/"))
    return above if name == "commitlog" else ""


def _folder_store(path: str, where: str, system: FileSystem | None) -> SegmentStore:
    files = system or LOCAL
    found = files.list(where)
    names = {f.name for f in found if not f.is_file}
    raft = sorted(name for name in names if name.startswith("dledger-"))
    if raft:
        raise _dledger(f"{path}: {raft[0]}")
    name = posixpath.basename(where.rstrip("/")) or "store"
    if "commitlog" in names:
        folder = posixpath.join(where, "commitlog")
        segments, foreign = _segments(files.list(folder))
        store = SegmentStore(
            name, path, (), filesystem=system, folder=folder, base=where.rstrip("/")
        )
        store = _with_queues(store, names)
    else:
        folder = where
        if name == "commitlog":
            name = posixpath.basename(posixpath.dirname(where)) or name
        segments, foreign = _segments(found)
        if not segments and names & {"consumequeue", "config"}:
            raise SegmentPathError(
                f"{path}: this is a store without a commitlog folder",
                "storePathCommitLog lies elsewhere: give that folder",
            )
        reason = "a commit-log folder was given, not a store"
        store = SegmentStore(name, path, (), filesystem=system, folder=folder, no_queues=reason)
    if foreign:
        shown = ", ".join(foreign[:_SHOWN]) + (", …" if len(foreign) > _SHOWN else "")
        log.warning(
            "%s: %d foreign files are left out: %s", escape(folder), len(foreign), escape(shown)
        )
    if not segments:
        raise SegmentPathError(f"{path}: there are no segments in it", _within(files, where, names))
    return _checked(replace(store, files=_in_order(segments)))


def _with_queues(store: SegmentStore, names: set[str]) -> SegmentStore:
    """Adds queues and index of a store folder; they are read where they are local."""
    queues = posixpath.join(store.base, "consumequeue")
    if "consumequeue_rocksdb" in names or store.place.kind(f"{queues}/CURRENT") == "file":
        return replace(store, no_queues="its queues are in RocksDB, which is not read here")
    if store.filesystem is not None:
        return replace(store, no_queues="its queues are not local files")
    index = posixpath.join(store.base, "index") if "index" in names else None
    if "consumequeue" not in names:
        return replace(store, no_queues="it has no consumequeue folder", index=index)
    return replace(store, queues=queues, index=index)


def _of_files(store: SegmentStore, paths: list[str]) -> SegmentStore:
    files = _in_order(_single_files(store.place, paths))
    if not files:
        raise SegmentPathError(f"{store.root}: the files named there are empty")
    folder = posixpath.dirname(files[0][2])
    name = posixpath.basename(folder)
    if name == "commitlog":
        name = posixpath.basename(posixpath.dirname(folder)) or name
    reason = "single segments were given, not a store"
    return _checked(replace(store, name=name or "store", files=files, no_queues=reason))


def _single_files(files: FileSystem | LocalFiles, paths: Iterable[str]) -> list[File]:
    out = []
    for path in dict.fromkeys(paths):
        name = posixpath.basename(path)
        base = _base_of(name)
        if base is None:
            raise SegmentPathError(
                f"{path} is not named as a segment is",
                "the name is the physical offset of its first byte in 20 digits",
            )
        out.append((base, files.size(path), path))
    return [file for file in out if file[1]]


def _base_of(name: str) -> int | None:
    if len(name) != NAME_DIGITS or not (name.isascii() and name.isdigit()):
        return None
    base = int(name)
    return base if base <= _MAX_OFFSET else None


def _segments(found: Iterable[Found]) -> tuple[list[File], list[str]]:
    """The segments of a folder, and the names of what is none. Empty files are neither: a broker
    makes a file before it gives it its size."""
    files, foreign = [], []
    for one in found:
        base = _base_of(one.name)
        if base is None or not one.is_file:
            foreign.append(one.name)
        elif one.size:
            files.append((base, one.size, one.path))
    return files, foreign


def segments_of(found: Iterable[Found]) -> tuple[File, ...]:
    """The files of a folder that are named by an offset, in order; others are passed over."""
    return _in_order(_segments(found)[0])


def _in_order(files: list[File]) -> tuple[File, ...]:
    files.sort()
    for before, after in pairwise(files):
        if before[0] + before[1] > after[0]:
            raise SegmentPathError(
                f"{before[2]} has {before[1]} bytes, but {after[2]} begins before its end",
                "these are not the segments of one log",
            )
    return tuple(files)


def _checked(store: SegmentStore) -> SegmentStore:
    """Refuses what can be seen at once to be no commit log."""
    path = store.files[0][2]
    parts = path.split("/")
    if any(folder in parts for folder in _QUEUE_FOLDERS):
        raise SegmentPathError(
            f"{store.root}: these are files of queues, not of the log",
            "give the store folder or its commitlog folder",
        )
    if any(part.startswith("dledger-") for part in parts):
        raise _dledger(store.root)
    if store.filesystem is None:
        for _, _, path in store.files:
            if not os.access(path, os.R_OK):
                raise SegmentPathError(f"{path} cannot be read", "its permissions forbid it")
    path = store.files[0][2]
    try:
        with store.place.open(path) as file:
            head = bytes(file.read(32))
    except OSError as error:
        raise SegmentPathError(f"{path} cannot be read: {error}") from error
    # [DLedgerEntryCoder: magic 1, size, index, term, pos]
    if head[:4] == b"\0\0\0\1" and head[24:32] == store.first.to_bytes(8, "big"):
        raise _dledger(store.root)
    return store


def _dledger(where: str) -> SegmentLayoutError:
    return SegmentLayoutError(
        f"{where}: a DLedger log wraps each record in an entry of its own, which is not read here",
        "read it through its broker, or give the commitlog folder of a plain broker",
    )


def _named(stores: list[SegmentStore], broker_names: Sequence[str]) -> list[SegmentStore]:
    names = [name.strip() for name in broker_names]
    if names and len(names) != len(stores):
        raise SegmentOptionError(
            (
                Parameter("broker_names"),
                f" has {len(names)} names for {len(stores)} stores: ",
                ", ".join(s.root for s in stores),
            ),
            "give one for each, in the order of the paths",
        )
    if not all(names):
        raise SegmentOptionError((Parameter("broker_names"), " has an empty name"))
    if names:
        stores = [replace(s, name=name) for s, name in zip(stores, names, strict=True)]
    seen: dict[str, str] = {}
    for store in stores:
        try:
            store.name.encode()
        except UnicodeEncodeError as error:
            raise SegmentOptionError(
                f"{store.root} would be broker {store.name!r}, which is not UTF-8",
                ("give ", Parameter("broker_names"), ", one for each path"),
            ) from error
        if store.name in seen:
            raise SegmentOptionError(
                f"{seen[store.name]} and {store.root} would both be broker {store.name!r}",
                ("give ", Parameter("broker_names"), ", one for each path"),
            )
        seen[store.name] = store.root
    return stores


def _nearby(files: FileSystem | LocalFiles, where: str) -> str:
    """What to do about a path that is not there: what is in the folder above it."""
    above = posixpath.dirname(where.rstrip("/")) or "."
    try:
        names = [f.name for f in files.list(above)] if files.kind(above) == "folder" else None
    except SegmentError:
        names = None
    if names is None:
        return f"{above} is not there either"
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return f"in {above} there is {shown}" if names else f"{above} is empty"


def _within(files: FileSystem | LocalFiles, where: str, names: set[str]) -> str:
    """What to do about a folder that has no segments: a store below it."""
    for name in sorted(names)[:100]:
        if files.kind(posixpath.join(where, name, "commitlog")) == "folder":
            return f"{posixpath.join(where, name)} is a store"
    return "a store has a folder commitlog, with files named by 20 digits"
