"""Answers that are kept for a few seconds, so that a page that is looked at asks brokers seldom."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

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


_kept: weakref.WeakKeyDictionary[Admin, dict[str, _Slot]] = weakref.WeakKeyDictionary()


async def kept(
    admin: Admin, name: str, ask: Callable[[], Awaitable[T]], *, seconds: float = FRESH
) -> T:
    """What `ask` returns, or returned up to `seconds` ago under this name for the same Admin. One
    page asks, others that want the same wait for it. Errors are not kept. Users with rights of
    their own have an Admin each, so nobody sees what was answered to another."""
    slot = _kept.setdefault(admin, {}).setdefault(name, _Slot())
    async with slot.lock:
        begun = trio.current_time()
        if begun >= slot.until:
            slot.value = await ask()
            now = trio.current_time()
            slot.until = now + max(seconds, min((now - begun) * DEAR, LONGEST))
        found: T = slot.value
        return found


def forget(admin: Admin) -> None:
    """Forgets all answers: something was changed. A page that is asking now does not keep its
    answer for others."""
    _kept.pop(admin, None)
