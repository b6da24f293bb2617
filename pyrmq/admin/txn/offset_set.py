"""Many queue offsets in little memory."""

from __future__ import annotations

import re

from pyrmq.errors import ClientError

_SHIFT = 16
_PAGE = 1 << _SHIFT
_NOT_FULL = re.compile(rb"[^\xff]")
MAX_PAGES = 8192
"""64 MiB, for 500 million offsets in a row; offsets far from each other use it up sooner."""


class OffsetSet:
    """A set of offsets as bits, in pages that exist where there is an offset. ClientError when
    there are more pages than can be honest."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, offset: int) -> bool:
        page = self._pages.get(offset >> _SHIFT)
        if page is None:
            return False
        at = offset & _PAGE - 1
        return bool(page[at >> 3] & 1 << (at & 7))

    def add(self, offset: int) -> None:
        number = offset >> _SHIFT
        page = self._pages.get(number)
        if page is None:
            if len(self._pages) == MAX_PAGES:
                raise ClientError(
                    "the broker's op records name more half messages, or halves further apart, "
                    "than can be kept here"
                )
            page = self._pages[number] = bytearray(_PAGE >> 3)
        at = offset & _PAGE - 1
        bit = 1 << (at & 7)
        if not page[at >> 3] & bit:
            page[at >> 3] |= bit
            self._count += 1

    def next_absent(self, offset: int) -> int:
        """The first offset from `offset` on that is not in the set."""
        while True:
            page = self._pages.get(offset >> _SHIFT)
            if page is None:
                return offset
            at = offset & _PAGE - 1
            while at & 7 and page[at >> 3] & 1 << (at & 7):
                at += 1
            if at & 7:
                return offset - (offset & _PAGE - 1) + at
            found = _NOT_FULL.search(page, at >> 3)
            base = offset - (offset & _PAGE - 1)
            if found is None:
                offset = base + _PAGE
                continue
            byte = page[found.start()]
            bit = next(b for b in range(8) if not byte & 1 << b)
            return base + found.start() * 8 + bit
