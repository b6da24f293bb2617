"""What producers and consumers for threads do in their own way.

That is sends in flight, listeners, loops and polls. The other methods are in
`_generated_clients.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Self, TypeVar, Unpack

from pyrmq.client.consumer import lite_pull as lite_pulls
from pyrmq.client.consumer import push_consumer as consumers
from pyrmq.client.consumer.options import PlainListener, PushConsumerOptions
from pyrmq.client.option_types import TransactionalProducerOptions, like
from pyrmq.client.producer import pending as pending_sends
from pyrmq.client.producer import producer as producers
from pyrmq.client.transaction import producer as transactions
from pyrmq.client.transaction.listener import TransactionListener
from pyrmq.client.user_functions import is_async
from pyrmq.errors import ClientError
from pyrmq.model.message import Message, MessageQueue, SendResult
from pyrmq.model.record import ReceivedMessage
from pyrmq.portal.blocking import Client
from pyrmq.portal.client import PLAIN, in_words

S = TypeVar("S", bound=producers.Producer)


class PendingSend:
    """As `pyrmq.PendingSend`: a message that `send_soon` has taken. `pending.result()` waits for
    its SendResult or raises its error, also after the producer was closed."""

    def __init__(self, producer: Client[Any], pending: pending_sends.PendingSend) -> None:
        self._producer = producer
        self._pending = pending

    @property
    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._pending.done

    def result(self) -> SendResult:
        """The SendResult. Raises the errors of `send`."""
        if self._pending.done:
            return self._pending.result_now()
        return self._producer._call(self._pending.result)


class Sending(Client[S]):
    """A producer."""

    def send_soon(self, message: Message, *, queue: MessageQueue | None = None) -> PendingSend:
        return PendingSend(self, self._call(self._client.send_soon, message, queue=queue))

    send_soon.__doc__ = in_words(producers.Producer.send_soon.__doc__, PLAIN)


class SendingInTransactions(Sending[transactions.TransactionalProducer]):
    """As `pyrmq.TransactionalProducer` with a listener, whose functions run in worker threads."""

    @like(transactions.TransactionalProducer)
    def __init__(
        self,
        group: str,
        listener: TransactionListener,
        **options: Unpack[TransactionalProducerOptions],
    ) -> None:
        super().__init__(transactions.TransactionalProducer(group, listener, **options))


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
