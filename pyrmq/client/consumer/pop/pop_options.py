"""How a member pops."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PopOptions:
    """`batch`: messages that one pop brings at most; `interval`: seconds from one to the next;
    `invisible`: seconds that other members do not get them; `most`: popping a queue pauses while
    more messages than that are not settled."""

    invisible: float = 60.0
    batch: int = 32
    interval: float = 0.0
    most: int = 96
