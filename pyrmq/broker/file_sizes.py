"""A store whose files have another size than the configuration says: what to do about it.

The engine sees one file of a wrong size, which may have been cut. Where its neighbours are like it,
it is the configuration that is another one than that of before: `-c` was forgotten, mostly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from pyrmq.errors import ConfigError, StoreDamagedError

LOOKED_AT = 1024
"""Files that are compared, at most."""
_WRONG = re.compile(
    r"(?P<path>.+?): (?:file has \d+ bytes, the configured size is (?P<size>\d+)"
    r"|name is no multiple of the configured file size (?P<unit>\d+))"
)
_KEYS = {
    "consumequeue": "mappedFileSizeConsumeQueue",
    "consumequeue_ext": "mappedFileSizeConsumeQueueExt",
    "batchconsumequeue": "mapperFileSizeBatchConsumeQueue",
}
"""By the folder below storePathRootDir."""


def explained(error: StoreDamagedError, root: Path) -> StoreDamagedError | ConfigError:
    """The error that says what to do about a file of a wrong size; `error` itself where it is about
    something else, or where other files have the size that is configured."""
    text = error.args[0] if error.args else ""
    found = _WRONG.match(str(text))
    if found is None:
        return error
    path = Path(found["path"])
    size = int(found["size"] or found["unit"])
    folder, key, files = _alike(path, root)
    lengths = _lengths(files)
    if len(set(lengths)) != 1 or lengths[0] == size:
        return error
    length = lengths[0]
    many = f"each of its {len(lengths)} files" if len(lengths) > 1 else "its file"
    remedy = (
        f"{folder}: {many} has {length} bytes, and {key} is {size}. The store was made with "
        f"another configuration: start with that broker.conf (-c), or with {key}={length}"
    )
    if len(lengths) > 1:
        return ConfigError(remedy)
    return StoreDamagedError(f"{remedy}. Only if {size} is right: {text}")


def _alike(path: Path, root: Path) -> tuple[Path, str, Iterable[Path]]:
    """Folder and key of the files that have the size of this one, and some of them."""
    for name, key in _KEYS.items():
        if path.is_relative_to(root / name):
            return root / name, key, (root / name).glob("*/*/*")
    return path.parent, "mappedFileSizeCommitLog", path.parent.glob("*")


def _lengths(files: Iterable[Path]) -> list[int]:
    """Of those that are named after an offset, and not empty."""
    named = (file for file in files if file.name.isdecimal() and len(file.name) == 20)
    try:
        return [size for file in islice(named, LOOKED_AT) if (size := file.stat().st_size)]
    except OSError:
        return []
