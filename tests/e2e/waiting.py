"""Waiting for what must come soon, with deadlines; nothing here sleeps for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable

import trio

from pyrmq.client import PushConsumer
from pyrmq.model.message import ReceivedMessage

POLL = 0.01
"""Seconds between two looks at a condition."""


async def eventually(condition: Callable[[], bool], what: str, seconds: float = 10) -> None:
    """Returns when the condition holds; fails when it does not within `seconds`."""
    with trio.move_on_after(seconds):
        while not condition():  # noqa: ASYNC110 - the condition is not an event of ours
            await trio.sleep(POLL)
        return
    raise AssertionError(f"not within {seconds:g} s: {what}")


def soon(condition: Callable[[], bool], what: str, seconds: float = 10) -> None:
    """The same for tests without trio."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(POLL)


async def take(consumer: PushConsumer, count: int, seconds: float = 10) -> list[ReceivedMessage]:
    """Takes and acknowledges `count` messages."""
    got: list[ReceivedMessage] = []
    with trio.move_on_after(seconds):
        async for message in consumer:
            consumer.acknowledge(message)
            got.append(message)
            if len(got) == count:
                return got
    raise AssertionError(f"{len(got)} of {count} messages within {seconds:g} s: {bodies(got)}")


async def take_none(consumer: PushConsumer, seconds: float = 0.3) -> None:
    """Fails if a message comes within `seconds`."""
    with trio.move_on_after(seconds):
        async for message in consumer:
            raise AssertionError(f"unexpected message: {message}")


def bodies(messages: list[ReceivedMessage]) -> list[bytes]:
    """Bodies in sorted order: queues have an order among their own messages only."""
    return sorted(message.body for message in messages)


async def queues_assigned(consumer: PushConsumer, count: int, seconds: float = 10) -> None:
    """Returns when the consumer has exactly `count` queues."""
    await eventually(lambda: len(consumer.assigned) == count, f"{count} queues assigned", seconds)
