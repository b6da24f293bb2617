"""A path is one broker's store: says which stores inside of it are not read."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from typing import Protocol

from pyrmq.errors import SegmentError
from pyrmq.escape import escape
from pyrmq.segments.beside import FOLDER, stores_beside
from pyrmq.segments.filesystem import FileSystem, LocalFiles

log = logging.getLogger("pyrmq.segments")


class Store(Protocol):
    """What of a store counts here."""

    @property
    def base(self) -> str: ...
    @property
    def place(self) -> FileSystem | LocalFiles: ...
    @property
    def root(self) -> str: ...


def name_left_out(stores: Iterable[Store]) -> None:
    """Warns of the stores of further brokers that are inside of these, and none of them."""
    folders = [store for store in stores if store.base]
    read = {store.base for store in folders}
    for store in folders:
        with suppress(SegmentError):  # the store itself can be read
            others = [one for one in stores_beside(store.base, store.place) if one not in read]
            if others:
                _warn(store.root, posixpath.join(store.root.rstrip("/"), FOLDER), len(others))


@lru_cache(256)  # a stream looks at its stores again and again
def _warn(root: str, folder: str, many: int) -> None:
    log.warning(
        "%s: the store of one broker is read; the stores of %d further brokers in %s are left out: "
        "give each as a path",
        escape(root),
        many,
        escape(folder),
    )
