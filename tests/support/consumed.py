"""Waiting for what a consumer must get."""

from __future__ import annotations

import trio

from pyrmq.client import PushConsumer
from pyrmq.model.record import ReceivedMessage
from tests.support.waiting import PATIENCE, eventually_trio


async def take(
    consumer: PushConsumer, count: int, seconds: float = PATIENCE
) -> list[ReceivedMessage]:
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


async def queues_assigned(consumer: PushConsumer, count: int, seconds: float = PATIENCE) -> None:
    """Returns when the consumer has exactly `count` queues."""
    what = f"{count} queues assigned"
    await eventually_trio(
        lambda: len(consumer.assigned), what, seconds, until=lambda found: found == count
    )
