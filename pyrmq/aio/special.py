"""What producers and consumers for asyncio do in their own way.

That is sends in flight, listeners, loops and polls. The other methods are in
`_generated_clients.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Any, Self, TypeVar, Unpack

from pyrmq.client.consumer import lite_pull as lite_pulls
from pyrmq.client.consumer import push_consumer as consumers
from pyrmq.client.consumer.options import AsyncListener, PushConsumerOptions
from pyrmq.client.option_types import TransactionalProducerOptions, like
from pyrmq.client.producer import pending as pending_sends
from pyrmq.client.producer import producer as producers
from pyrmq.client.transaction import producer as transactions
from pyrmq.client.transaction.listener import TransactionListener
from pyrmq.client.user_functions import is_async
from pyrmq.errors import ClientError
from pyrmq.model.message import Message, MessageQueue, SendResult
from pyrmq.model.record import ReceivedMessage
from pyrmq.portal.awaiting import Calls, Client, bridge
from pyrmq.portal.client import ASYNCIO, in_words

S = TypeVar("S", bound=producers.Producer)


class PendingSend:
    """As `pyrmq.PendingSend`: a message that `send_soon` has taken. `await pending.result()`, or
    `await pending`, gives its SendResult or raises its error, also after the producer was
    closed."""

    def __init__(self, producer: Client[Any], pending: pending_sends.PendingSend) -> None:
        self._producer = producer
        self._pending = pending

    @property
    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._pending.done

    async def result(self) -> SendResult:
        """The SendResult. Raises the errors of `send`."""
        if self._pending.done:
            return self._pending.result_now()
        return await self._producer._call(self._pending.result)

    def __await__(self) -> Generator[Any, Any, SendResult]:
        return self.result().__await__()


class Sending(Client[S]):
    """A producer."""

    async def send_soon(
        self, message: Message, *, queue: MessageQueue | None = None
    ) -> PendingSend:
        return PendingSend(self, await self._call(self._client.send_soon, message, queue=queue))

    send_soon.__doc__ = in_words(producers.Producer.send_soon.__doc__, ASYNCIO)


class SendingInTransactions(Sending[transactions.TransactionalProducer]):
    """As `pyrmq.TransactionalProducer` with a listener. Its `async def` functions run in the
    asyncio loop, plain ones in worker threads."""

    @like(transactions.TransactionalProducer)
    def __init__(
        self,
        group: str,
        listener: TransactionListener,
        **options: Unpack[TransactionalProducerOptions],
    ) -> None:
        calls = Calls()
        bridged = _Bridged(listener, calls)
        super().__init__(transactions.TransactionalProducer(group, bridged, **options), calls)


class _Bridged:
    """A transaction listener with functions of asyncio."""

    def __init__(self, listener: TransactionListener, calls: Calls) -> None:
        for name in ("execute_local_transaction", "check_local_transaction"):
            function = getattr(listener, name, None)
            if not callable(function):
                raise ClientError(f"the listener has no function {name}")
            if is_async(function):
                # Who sends awaits the local transaction; a check's errors have nobody to go to.
                awaited = name == "execute_local_transaction"
                function = bridge(function, calls, awaited=awaited)
            setattr(self, name, function)
        if hasattr(listener, "half_properties"):  # an outbox's: it runs on trio
            self.half_properties = listener.half_properties

    execute_local_transaction: Callable[[Message, Any], Any]
    check_local_transaction: Callable[[ReceivedMessage], Any]


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
