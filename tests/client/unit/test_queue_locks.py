"""Locks of queues: what is given up is not locked again by a renewal that is under way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from pyrmq.client.consumer.process_queue import (
    MAX_BYTES,
    MAX_MESSAGES,
    Limits,
    ProcessQueue,
)
from pyrmq.client.consumer.queue_locks import QueueLocks
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.net import fastjson


class Client:
    """A connection that opens late, so that all requests leave at the same moment."""

    client_id = "me"

    def __init__(self) -> None:
        self.on_greeted: list[Any] = []
        self.open = trio.Event()
        self.asked: list[int] = []

    async def known_master(self, topic: str, broker: str) -> Client:
        await self.open.wait()
        return self

    async def request(self, code: int, ext: Any, body: bytes, timeout: float) -> Any:
        self.asked.append(code)
        await trio.lowlevel.checkpoint()
        granted = fastjson.loads_object(body)["mqSet"]
        return SimpleNamespace(body=fastjson.dumps({"lockOKMQSet": granted}))


@pytest.mark.parametrize("first", ["renewal", "unlock"])
async def test_a_queue_that_is_given_up_stays_unlocked(first: str) -> None:
    for _ in range(5):  # trio changes the order of tasks
        client = Client()
        locks = QueueLocks(client, "g")  # type: ignore[arg-type]
        limits = Limits(MAX_MESSAGES, MAX_BYTES, None)
        process = ProcessQueue(MessageQueue("T", "b", 0), limits=limits)
        process.locked(trio.current_time())
        async with trio.open_nursery() as nursery:
            steps = [lambda: locks.run(lambda: [process]), lambda: locks.unlock([process])]  # noqa: B023
            if first == "unlock":
                steps.reverse()
            for step in steps:
                nursery.start_soon(step)
                await trio.testing.wait_all_tasks_blocked()
                locks._greeted(("b", 1))
                await trio.testing.wait_all_tasks_blocked()
            client.open.set()
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert client.asked[-1] == RequestCode.UNLOCK_BATCH_MQ, client.asked
        assert not locks.valid(process)
