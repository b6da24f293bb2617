"""Producers and listeners for tests of spans."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
from opentelemetry import trace

from pyrmq import (
    ConsumeFrom,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from pyrmq.server import Running
from tests.support.waiting import eventually_trio


class Heard:
    """A listener that keeps messages and the spans that it runs in."""

    def __init__(self, answer: Callable[[ReceivedMessage], Any] = lambda message: None) -> None:
        self.messages: list[ReceivedMessage] = []
        self.inside: list[int] = []
        self._answer = answer

    def take(self, message: ReceivedMessage) -> Any:
        self.inside.append(trace.get_current_span().get_span_context().span_id)
        self.messages.append(message)
        return self._answer(message)

    async def __call__(self, message: ReceivedMessage) -> Any:
        await trio.lowlevel.checkpoint()
        return self.take(message)


@asynccontextmanager
async def heard(
    server: Running, count: int, listener: Any = None, **options: Any
) -> AsyncIterator[Heard]:
    """Leaves when the listener has had so many messages."""
    found = listener if isinstance(listener, Heard) else Heard()
    options = {"consume_from": ConsumeFrom.FIRST_OFFSET, **options}
    topics = options.pop("topics", {"T": "*"})
    called = found if listener is None or isinstance(listener, Heard) else listener(found)
    async with PushConsumer("g", topics, namesrv=server.namesrv, listener=called, **options):
        yield found
        await eventually_trio(lambda: len(found.messages) >= count, f"{count} messages")


def producer(server: Running, **options: Any) -> Producer:
    return Producer("p", namesrv=server.namesrv, **options)
