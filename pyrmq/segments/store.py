"""Where the segments of a broker's log are: a store folder, a commit-log folder, or single files.

The engine finds them; files that are not local come by `pyrmq.segments.filesystem`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyrmq.engine import SegmentStore, open_segment_stores
from pyrmq.errors import Parameter, SegmentOptionError, SegmentPathError

__all__ = ["File", "SegmentStore", "open_stores"]

File = tuple[int, int, str]
"""Physical offset of the first byte, length in bytes, path on its file system."""


def open_stores(
    paths: Sequence[str],
    broker_names: Sequence[str] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> list[SegmentStore]:
    """The stores at `paths`, one a broker; single files of one folder are one broker's. A path may
    be a pattern, such as `/data/store-*`: what matches is sorted.

    `broker_names`: one for each store, in their order; without them what the config folders of the
    stores say, and the names of the folders where they say nothing.
    `storage_options` go to fsspec. SegmentError says what is wrong with a place.
    """
    check_utf8(paths, broker_names)
    return open_segment_stores(list(paths), list(broker_names), dict(storage_options or {}))


def check_utf8(paths: Iterable[str], broker_names: Iterable[str]) -> None:
    """SegmentError for a name that is not UTF-8: the engine's files have none."""
    for path in paths:
        if not _is_utf8(path):
            raise SegmentPathError(
                f"{path}: the name is not UTF-8", "give the files a folder whose name is"
            )
    for name in broker_names:
        if not _is_utf8(name):
            raise SegmentOptionError((Parameter("broker_names"), f": {name!r} is not UTF-8"))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
