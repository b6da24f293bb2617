"""Names of topics, for suggestions and lists; kept for a few seconds."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import trio

from pyrmq.admin.api import Admin

FRESH = 5.0
MOST = 20
_kept: WeakKeyDictionary[Admin, tuple[float, list[str]]] = WeakKeyDictionary()


async def topic_names(admin: Admin) -> list[str]:
    """The names of all topics, sorted; as of a few seconds ago."""
    known = _kept.get(admin)
    if known is not None and trio.current_time() - known[0] < FRESH:
        return known[1]
    names = await admin.topics.list()
    _kept[admin] = trio.current_time(), names
    return names


def suggested(names: list[str], typed: str) -> list[str]:
    """The names that may be meant: those that begin so, then those that have it inside."""
    low = typed.casefold()
    first = [n for n in names if n.casefold().startswith(low)]
    if len(first) < MOST:
        first += [n for n in names if low in n.casefold() and not n.casefold().startswith(low)]
    return first[:MOST]
