"""Answers that are kept for a few seconds."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pyrmq.admin.api import Admin
from pyrmq.console.views.cache import FRESH, _kept, forget, kept
from pyrmq.errors import ClientError


class Asked:
    def __init__(self) -> None:
        self.times = 0
        self.go = trio.Event()
        self.go.set()

    async def __call__(self) -> int:
        self.times += 1
        answer = self.times
        await self.go.wait()
        return answer


async def test_is_asked_once_in_a_while(mock_clock: MockClock) -> None:
    admin, ask = Admin("127.0.0.1:1"), Asked()
    assert [await kept(admin, "x", ask), await kept(admin, "x", ask)] == [1, 1]
    mock_clock.jump(FRESH)
    assert await kept(admin, "x", ask) == 2
    assert await kept(admin, "y", ask) == 3, "another name is another answer"
    assert await kept(Admin("127.0.0.1:1"), "x", ask) == 4, "another user is asked for anew"
    forget(admin)
    assert await kept(admin, "x", ask) == 5


async def test_names_that_nobody_asks_for_any_more_are_dropped(mock_clock: MockClock) -> None:
    """Names come from addresses: whoever makes them up does not fill the memory."""
    admin, ask = Admin("127.0.0.1:1"), Asked()

    async def fail() -> int:
        raise ClientError("no such cluster")

    for number in range(9):
        with pytest.raises(ClientError):
            await kept(admin, f"servers of {number}", fail)
    await kept(admin, "x", ask)
    assert len(_kept[admin]) == 1
    mock_clock.jump(FRESH)
    await kept(admin, "y", ask)
    assert list(_kept[admin]) == ["y"]


async def test_what_took_long_is_kept_for_longer(mock_clock: MockClock) -> None:
    admin = Admin("127.0.0.1:1")
    asked: list[int] = []

    async def ask() -> int:
        mock_clock.jump(2)
        asked.append(1)
        return len(asked)

    assert await kept(admin, "x", ask) == 1
    mock_clock.jump(19)
    assert await kept(admin, "x", ask) == 1
    mock_clock.jump(1)
    assert await kept(admin, "x", ask) == 2


async def test_many_pages_ask_once() -> None:
    admin, ask = Admin("127.0.0.1:1"), Asked()
    ask.go = trio.Event()
    found = []

    async def page() -> None:
        found.append(await kept(admin, "x", ask))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(page)
        await wait_all_tasks_blocked()
        ask.go.set()
    assert found == [1] * 5


async def test_errors_are_not_kept() -> None:
    admin, ask = Admin("127.0.0.1:1"), Asked()

    async def fail() -> int:
        raise ClientError("away")

    with pytest.raises(ClientError):
        await kept(admin, "x", fail)
    assert await kept(admin, "x", ask) == 1


async def test_a_page_that_is_left_does_not_hold_up_others() -> None:
    admin, ask = Admin("127.0.0.1:1"), Asked()
    ask.go = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept, admin, "x", ask)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    ask.go.set()
    assert await kept(admin, "x", ask) == 2
