"""`send_soon` through a server that is killed and started again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from pyrmq import ConsumeFrom, LitePullConsumer, Message, Producer, PyrmqError, SendsFailedError
from pyrmq.net.address import format_address
from tests.support.server import ServerProcess

pytestmark = pytest.mark.usefixtures("deadline")
COUNT = 3000


async def test_a_broker_that_is_killed_and_comes_back(
    tmp_path: Path, serve_apart: Callable[[Path], ServerProcess]
) -> None:
    """What was answered is there, in the order of the calls; what failed is told."""
    with await trio.to_thread.run_sync(serve_apart(tmp_path / "store").start) as server:
        namesrv = format_address(server.namesrv)
        async with Producer("pg", namesrv=namesrv, auto_batch=True, send_timeout=1) as producer:
            queue = (await producer.queues("T"))[0]
            pending = []
            for n in range(COUNT):
                pending.append(await producer.send_soon(Message("T", b"%d" % n), queue=queue))
            await producer.flush()
            await trio.to_thread.run_sync(server.kill)
            lost = [await producer.send_soon(Message("T", b"lost"), queue=queue) for _ in range(9)]
            with pytest.raises(PyrmqError):
                await lost[0]
            with pytest.raises(SendsFailedError, match="8 messages"):
                await producer.flush()
            await trio.to_thread.run_sync(server.start)
            while True:
                again = await producer.send_soon(Message("T", b"again"), queue=queue)
                try:
                    await again
                    break
                except PyrmqError:
                    await trio.sleep(0.05)
            for n in range(COUNT, COUNT + 100):
                pending.append(await producer.send_soon(Message("T", b"%d" % n), queue=queue))
        results = [await p for p in pending]
        got = []
        async with LitePullConsumer(
            "cg", {"T": "*"}, namesrv=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
        ) as consumer:
            while not got or got[-1].body != b"%d" % (COUNT + 99):
                got += await consumer.poll(5)
    got = [m for m in got if m.body != b"again"]
    assert [int(m.body) for m in got] == list(range(COUNT + 100))
    assert [(m.msg_id, m.queue_offset) for m in got] == [
        (r.msg_id, r.queue_offset) for r in results
    ]
