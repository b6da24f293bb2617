"""A client's process that stood still does not take its peer for dead."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from pyrmq.errors import RequestTimeoutError
from pyrmq.net.client.channel import MOST_GRACE, Channel
from tests.support.wire import FrameReader, encode


@pytest.mark.parametrize("steps", [0, 1, 3, 10])
async def test_an_answer_that_comes_after_a_stall_counts(mock_clock: MockClock, steps: int) -> None:
    here, there = memory_stream_pair()
    channel = Channel(here, ("peer", 1), None)

    async def serve() -> None:
        (request,) = FrameReader().feed(bytes(await there.receive_some(4096)))
        mock_clock.jump(60)  # nobody runs meanwhile
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        await there.send_all(encode(request.reply(0, body=b"late")))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.run)
        nursery.start_soon(serve)
        answer = await channel.call(34, timeout=3)
        assert answer.body == b"late"
        assert not channel.closed
        nursery.cancel_scope.cancel()


async def test_a_peer_that_says_nothing_is_given_up_all_the_same(mock_clock: MockClock) -> None:
    here, there = memory_stream_pair()
    channel = Channel(here, ("peer", 1), None)

    async def stall() -> None:
        await there.receive_some(4096)
        mock_clock.jump(60)
        mock_clock.autojump_threshold = 0
        await trio.sleep(MOST_GRACE)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.run)
        nursery.start_soon(stall)
        await wait_all_tasks_blocked()
        mock_clock.jump(1)  # nothing arrived since the request
        with pytest.raises(RequestTimeoutError):
            await channel.call(34, timeout=3)
        assert channel.closed
        nursery.cancel_scope.cancel()
