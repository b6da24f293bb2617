"""Keeping what was made of a text of others, within bounds: they choose how long it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")

SHORT = 256
"""Characters of a text that is short."""
MANY = 1024
"""Short texts of which it is kept."""
FEW = 16
"""The same of longer ones, of which each may take a thousand times as much."""


def cached_by_text(make: Callable[[str], T]) -> Callable[[str], T]:
    """`make`, which remembers what it has returned lately."""
    short, longer = lru_cache(MANY)(make), lru_cache(FEW)(make)

    def made(text: str) -> T:
        return short(text) if len(text) <= SHORT else longer(text)

    return made
