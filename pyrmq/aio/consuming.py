"""What consumers for asyncio do in their own way: listeners, loops, polls.

The other methods of the consumers are in `_generated_clients.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self, Unpack

from pyrmq.client.consumer import lite_pull as lite_pulls
from pyrmq.client.consumer import push_consumer as consumers
from pyrmq.client.consumer.options import AsyncListener, PushConsumerOptions
from pyrmq.client.option_types import like
from pyrmq.client.user_functions import is_async
from pyrmq.errors import ClientError
from pyrmq.model.record import ReceivedMessage
from pyrmq.portal.awaiting import Calls, Client, bridge
from pyrmq.portal.words import ASYNCIO, in_words


class Listening(Client[consumers.PushConsumer]):
    """A push consumer."""

    @like(consumers.PushConsumer)
    def __init__(
        self,
        group: str,
        subscriptions: Mapping[str, str],
        *,
        listener: AsyncListener | None = None,
        **options: Unpack[PushConsumerOptions],
    ) -> None:
        calls = Calls()
        if listener is not None and not is_async(listener):
            raise ClientError("the listener must be an async function")
        called: AsyncListener | None = None if listener is None else bridge(listener, calls)
        client = consumers.PushConsumer(group, subscriptions, listener=called, **options)
        super().__init__(client, calls)

    def __aiter__(self) -> Loop:
        return Loop(self)


class Polling(Client[lite_pulls.LitePullConsumer]):
    """A lite pull consumer."""

    async def poll(self, timeout: float = 5.0) -> list[ReceivedMessage]:
        chunk = await self._call(self._client.poll_unseen, timeout)
        self._client.saw(chunk)
        return list(chunk)

    poll.__doc__ = in_words(lite_pulls.LitePullConsumer.poll.__doc__, ASYNCIO)

    def __aiter__(self) -> Loop:
        return Loop(self)


class Loop:
    """`async for` over a consumer. If its task is cancelled, the next loop gets the message that it
    was waiting for."""

    def __init__(self, consumer: Listening | Polling) -> None:
        self._consumer: Client[Any] = consumer
        self._messages = aiter(consumer._client)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        messages, call = self._messages, object()
        try:
            message = await self._consumer._call(messages.next_unseen, call)
        except asyncio.CancelledError:
            with suppress(ClientError):  # it was left
                self._consumer._submit(messages.give_back, call)
            raise
        messages.seen = message
        return message
