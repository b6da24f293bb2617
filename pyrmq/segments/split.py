"""The tasks of reads. The engine reads them; one can be sent to another process."""

from __future__ import annotations

from collections.abc import Iterable

from pyrmq.engine import Split, splits_of_at_most

__all__ = ["Split", "at_most"]


def at_most(splits: Iterable[Split], count: int) -> list[Split]:
    """The same messages in tasks of at most `count` each.

    Ranges of the log are walked for that, headers only; messages that tags, key or times leave out
    count as well. An inner batch stays whole.
    """
    return splits_of_at_most(list(splits), count)
