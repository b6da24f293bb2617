"""How long pages wait for a broker that hangs: the others are shown meanwhile, and it is named."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.link import Replica
from pyrmq.admin.outcome import Outcomes
from pyrmq.errors import RequestTimeoutError

SECONDS = 4.0
"""Seconds for one broker and one question of a page."""
R = TypeVar("R")


async def ask_each(
    admin: Admin, brokers: Iterable[Replica], work: Callable[[str], Awaitable[R]]
) -> Outcomes[R]:
    """What all brokers answer; a broker that takes longer than SECONDS has failed."""

    async def one(address: str) -> R:
        with trio.move_on_after(SECONDS):
            return await work(address)
        raise RequestTimeoutError(f"{address} did not answer within {SECONDS:g} s")

    return await admin.link.on_each(brokers, one)


async def together(*works: Callable[[], Awaitable[None]]) -> None:
    """Does works at the same time. They raise no error of a server."""
    async with trio.open_nursery() as nursery:
        for work in works:
            nursery.start_soon(work)
