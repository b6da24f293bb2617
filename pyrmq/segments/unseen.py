"""Whether a segment that is not found was deleted, or cannot be seen from where a task runs.

A broker deletes its oldest segments and goes on with newer ones. A folder that is not there, is
empty, or ends before the segment is no sign of that: it is a store that is not mounted, or another
copy of it. What stands in it must not be passed over.
"""

from __future__ import annotations

import posixpath
import socket

from pyrmq.errors import SegmentError, SegmentPathError
from pyrmq.segments.filesystem import FileSystem
from pyrmq.segments.local import LocalFiles
from pyrmq.segments.store import File, segments_of

HINT = (
    "mount the store under the same path on every host that runs tasks, and see that the user of "
    "the tasks may list it"
)


def check_seen(
    place: FileSystem | LocalFiles, missing: File, span: tuple[int, int], what: str
) -> None:
    """Returns where a segment was deleted; SegmentPathError, with host and path, where it cannot be
    seen. `span`: physical offsets of all that is read of this log, by other tasks too; `what` is
    read here, for the message."""
    path = missing[2]
    why = _why_unseen(place, missing, span)
    if why:
        raise SegmentPathError(
            f"{what}: {path} is not there on host {socket.gethostname()}: {why}", HINT
        )


def _why_unseen(place: FileSystem | LocalFiles, missing: File, span: tuple[int, int]) -> str:
    base, _, path = missing
    folder = posixpath.dirname(path)
    try:
        if place.kind(folder) != "folder":
            return f"there is no folder {_first_missing(place, folder)}"
        there = segments_of(place.list(folder))
    except (SegmentError, OSError) as error:
        return str(error)
    if not there:
        return f"{folder} has no segments"
    if there[-1][0] < base:
        return f"the newest segment of {folder} is {posixpath.basename(there[-1][2])}"
    start, end = span
    if not any(first < end and start < first + length for first, length, _ in there):
        return f"{folder} has nothing of bytes {start} to {end} of the log"
    return ""


def _first_missing(place: FileSystem | LocalFiles, folder: str) -> str:
    """The uppermost folder that is not there."""
    above = posixpath.dirname(folder)
    while above != folder and above and place.kind(above) != "folder":
        folder, above = above, posixpath.dirname(above)
    return folder
