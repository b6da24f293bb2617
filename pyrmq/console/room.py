"""A room of the console: a group of pages with one entry in the navigation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """`name`: of the folder of its templates. `title`: in the navigation. `path`: of its first
    page. `order`: where it stands in the navigation."""

    name: str
    title: str
    path: str
    order: int
