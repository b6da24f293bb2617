"""Answers that are kept for a few seconds, so that a page that is looked at asks brokers seldom."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import trio

from pyrmq.admin.api import Admin

FRESH = 4.0
"""Seconds for which an answer is used again."""
DEAR, LONGEST = 10.0, 30.0
"""An answer that took long is used for so many times as long, up to so many seconds: looking at a
page never keeps a large cluster busy."""
T = TypeVar("T")


@dataclass(slots=True)
class _Slot:
    lock: trio.Lock = field(default_factory=trio.Lock)
    until: float = 0.0
    value: Any = None

    @property
    def is_over(self) -> bool:
        """Whether nothing is in it that counts, and nobody asks for it."""
        return trio.current_time() >= self.until and not self.lock.locked()


_kept: WeakKeyDictionary[Admin, dict[str, _Slot]] = WeakKeyDictionary()


async def kept(
    admin: Admin,
    name: str,
    ask: Callable[[], Awaitable[T]],
    *,
    seconds: float | None = None,
    longest: float | None = None,
) -> T:
    """What `ask` returns, or returned a short time ago under this name for the same Admin: up to
    `seconds` ago (FRESH), or if it took long up to `longest` (LONGEST). One page asks, others that
    want the same wait for it. Errors are not kept, and answers are dropped when they are too old.
    Users with rights of their own have an Admin each, so nobody sees what was answered to
    another."""
    slots = _kept.setdefault(admin, {})
    for other in [key for key, slot in slots.items() if key != name and slot.is_over]:
        del slots[other]
    slot = slots.setdefault(name, _Slot())
    async with slot.lock:
        begun = trio.current_time()
        if begun >= slot.until:
            slot.value = await ask()
            now = trio.current_time()
            most = LONGEST if longest is None else longest
            least = FRESH if seconds is None else seconds
            slot.until = now + max(least, min((now - begun) * DEAR, most))
        found: T = slot.value
        return found


def forget(admin: Admin) -> None:
    """Forgets all answers: something was changed. A page that is asking now does not keep its
    answer for others."""
    _kept.pop(admin, None)
