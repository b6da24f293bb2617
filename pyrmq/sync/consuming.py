"""What consumers for threads do in their own way: listeners, loops, polls.

The other methods of the consumers are in `_generated_clients.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Self, Unpack

from pyrmq.client.consumer import lite_pull as lite_pulls
from pyrmq.client.consumer import push_consumer as consumers
from pyrmq.client.consumer.options import PlainListener, PushConsumerOptions
from pyrmq.client.option_types import like
from pyrmq.client.user_functions import is_async
from pyrmq.errors import ClientError
from pyrmq.model.record import ReceivedMessage
from pyrmq.portal.blocking import Client
from pyrmq.portal.words import PLAIN, in_words


class Listening(Client[consumers.PushConsumer]):
    """A push consumer."""

    @like(consumers.PushConsumer)
    def __init__(
        self,
        group: str,
        subscriptions: Mapping[str, str],
        *,
        listener: PlainListener | None = None,
        **options: Unpack[PushConsumerOptions],
    ) -> None:
        if listener is not None and is_async(listener):
            raise ClientError("the listener must be a plain function, not an async one")
        super().__init__(consumers.PushConsumer(group, subscriptions, listener=listener, **options))

    def __iter__(self) -> Loop:
        return Loop(self)


class Polling(Client[lite_pulls.LitePullConsumer]):
    """A lite pull consumer."""

    def poll(self, timeout: float = 5.0) -> list[ReceivedMessage]:
        chunk = self._call(self._client.poll_unseen, timeout)
        self._client.saw(chunk)
        return list(chunk)

    poll.__doc__ = in_words(lite_pulls.LitePullConsumer.poll.__doc__, PLAIN)

    def __iter__(self) -> Loop:
        return Loop(self)


class Loop:
    """A loop over a consumer. If it is interrupted (Ctrl-C), the next loop gets the message that it
    was waiting for."""

    def __init__(self, consumer: Listening | Polling) -> None:
        self._consumer: Client[Any] = consumer
        self._messages = aiter(consumer._client)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReceivedMessage:
        messages, call = self._messages, object()
        portal = self._consumer._portal
        try:
            message = portal.call(partial(messages.next_unseen, call))
        except BaseException:  # Ctrl-C, or what a signal handler has raised
            portal.submit(partial(messages.give_back, call))
            raise
        messages.seen = message
        return message
