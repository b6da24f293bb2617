"""What both engines do alike when they write a run of an archive."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyrmq.segments.offsets import shown
from spark_ext.jobs.archive_manifest import HEAD, MANIFESTS, Head, Manifest, Run
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.folder import Folder

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
