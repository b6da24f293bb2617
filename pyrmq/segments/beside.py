"""The stores of further brokers inside of a store folder.

Several broker processes on one machine (pyrmq/processes/plan.py) have the first broker's store at
ROOT, and the others in ROOT/brokers, each in a folder with the name of its broker.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from pyrmq.segments.filesystem import LOCAL, FileSystem, LocalFiles

FOLDER = "brokers"


def stores_beside(root: str | Path, files: FileSystem | LocalFiles = LOCAL) -> list[str]:
    """The folders of the stores in ROOT/brokers that have a commit log, by name."""
    folder = posixpath.join(str(root), FOLDER)
    if files.kind(folder) != "folder":
        return []
    stores = sorted(posixpath.join(folder, f.name) for f in files.list(folder) if not f.is_file)
    return [store for store in stores if _has_log(store, files)]


def _has_log(store: str, files: FileSystem | LocalFiles) -> bool:
    log = posixpath.join(store, "commitlog")
    if files.kind(log) != "folder":
        return False
    return any(f.is_file and re.fullmatch(r"[0-9]{20}", f.name) for f in files.list(log))
