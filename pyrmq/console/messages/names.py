"""Names of topics, for suggestions and lists; kept for a few seconds."""

from __future__ import annotations

from pyrmq.admin.api import Admin
from pyrmq.console.views.cache import kept

MOST = 20


async def topic_names(admin: Admin) -> list[str]:
    """The names of all topics, sorted; as of a few seconds ago."""
    return await kept(admin, "names of topics", admin.topics.list)


def suggested(names: list[str], typed: str) -> list[str]:
    """The names that may be meant: those that begin so, then those that have it inside."""
    low = typed.casefold()
    first = [n for n in names if n.casefold().startswith(low)]
    if len(first) < MOST:
        first += [n for n in names if low in n.casefold() and not n.casefold().startswith(low)]
    return first[:MOST]
