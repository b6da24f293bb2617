"""What producers for threads do in their own way: sends in flight, listeners of transactions.

The other methods of the producers are in `_generated_clients.py`.
"""

from __future__ import annotations

from typing import Any, TypeVar, Unpack

from pyrmq.client.option_types import TransactionalProducerOptions, like
from pyrmq.client.producer import pending as pending_sends
from pyrmq.client.producer import producer as producers
from pyrmq.client.transaction import producer as transactions
from pyrmq.client.transaction.listener import TransactionListener
from pyrmq.model.message import Message, MessageQueue, SendResult
from pyrmq.portal.blocking import Client
from pyrmq.portal.words import PLAIN, in_words

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
