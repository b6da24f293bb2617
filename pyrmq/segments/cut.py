"""Tasks cut into smaller ones, so that none has more messages than so many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pyrmq.engine import segment_advance
from pyrmq.segments.filesystem import need
from pyrmq.segments.queues import Queue
from pyrmq.segments.split import IndexSplit, Split


def at_most(splits: Iterable[Split], count: int) -> list[Split]:
    """The same messages in tasks of at most `count` each.

    Ranges of the log are walked for that, headers only; messages that tags, key or times leave out
    count as well. An inner batch stays whole.
    """
    out: list[Split] = []
    for split in splits:
        out += _entries(split, count) if isinstance(split, IndexSplit) else _ranges(split, count)
    return out


def _ranges(split: Split, count: int) -> Iterator[Split]:
    at = split.start
    while at < split.end:
        stop, _ = segment_advance(
            split.range(at, split.end),
            split.rule,
            max_rows=count,
            on_corruption=split.how.on_corruption,
        )
        if stop <= at or stop >= split.end:
            stop = split.end
        yield replace(split, start=at, end=stop)
        at = stop


def _entries(split: IndexSplit, count: int) -> Iterator[Split]:
    np = need("numpy", "reading by queue entries")
    places = np.frombuffer(split.positions(), "<i8").reshape(-1, 2)[:, 0]
    if len(places) <= count:
        yield split
        return
    edges = [split.start, *places[count::count].tolist(), split.end]
    cuts = [_cut(queue, start, end, edges) for queue, start, end in split.queues]
    for number, (low, high) in enumerate(pairwise(edges)):
        queues = tuple(
            (queue, at[number], at[number + 1])
            for (queue, _, _), at in zip(split.queues, cuts, strict=True)
            if at[number] < at[number + 1]
        )
        inside = tuple(place for place in split.places if low <= place < high)
        yield replace(split, start=low, end=high, log_end=high, queues=queues, places=inside)


def _cut(queue: Queue, start: int, end: int, edges: list[int]) -> list[int]:
    """The places of a queue that lead to the edges; the first is its start, the last its end."""
    np = need("numpy", "reading by queue entries")
    parts: list[Any] = [entries["phys"].astype("i8") for _, entries in queue.read(start, end)]
    phys = np.maximum.accumulate(np.concatenate(parts)) if parts else np.array([], "i8")
    inner = (start + int(at) for at in np.searchsorted(phys, edges[1:-1]))
    return [start, *(min(at, end) for at in inner), end]
