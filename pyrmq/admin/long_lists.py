"""Lists of topics or groups that are longer than one request may be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from pyrmq.errors import PyrmqError

T = TypeVar("T")
AT_ONCE = 500
"""Rows in one request. pyrmq's brokers take up to 4096, and 1 MiB."""
LIST_TIMEOUT = 20.0
"""Seconds for one request."""


async def in_parts(
    rows: Sequence[T], what: str, send: Callable[[Sequence[T]], Awaitable[None]]
) -> None:
    """Sends `rows` (`what` they are: "topics") in as many requests as they need. Where one fails
    its error says how many rows of earlier requests are created or changed."""
    for at in range(0, len(rows), AT_ONCE):
        try:
            await send(rows[at : at + AT_ONCE])
        except PyrmqError as e:
            if at:
                e.hint = f"the first {at} of the {what} are created or changed there"
            raise
