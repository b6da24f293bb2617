"""What producers for asyncio do in their own way: sends in flight, listeners of transactions.

The other methods of the producers are in `_generated_clients.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar, Unpack

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
from pyrmq.portal.words import ASYNCIO, in_words

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
