"""Reads the next rows while the last ones are worked on."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
_END = object()


def ahead(rows: Iterator[T], depth: int = 2) -> Generator[T, None, None]:
    """What `rows` gives, which a thread of its own asks for: up to `depth` before they are wanted.
    It raises what `rows` raises, in its place. Closing this generator waits for the one that is
    being read, and reads no more."""

    def read() -> T | object:
        return next(rows, _END)

    with ThreadPoolExecutor(1, "read ahead") as thread:
        waiting = deque(thread.submit(read) for _ in range(depth))
        try:
            while (one := waiting.popleft().result()) is not _END:
                waiting.append(thread.submit(read))
                yield one  # type: ignore[misc]
        finally:
            for future in waiting:
                future.cancel()
