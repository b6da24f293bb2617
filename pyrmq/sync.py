"""pyrmq's clients for blocking code: the same classes, and each call blocks.

    from pyrmq.sync import Message, Producer

    with Producer("group", namesrv="127.0.0.1:9876") as producer:
        producer.send(Message("TopicTest", b"Hello"))

All clients run in one background thread, which starts with the first client that is opened and ends
with the last. Any number of threads may call them. Options, results and errors are those of
`pyrmq`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, Unpack

from pyrmq.background import Face, as_async
from pyrmq.client.consumer import lite_pull as lite_pulls
from pyrmq.client.consumer import push_consumer as consumers
from pyrmq.client.consumer.consume_service import ConsumeResult as ConsumeResult
from pyrmq.client.consumer.consume_service import ReconsumeLater as ReconsumeLater
from pyrmq.client.consumer.offsets import ConsumeFrom as ConsumeFrom
from pyrmq.client.consumer.options import (
    LitePullConsumerOptions,
    PlainListener,
    PushConsumerOptions,
)
from pyrmq.client.consumer.options import MessageModel as MessageModel
from pyrmq.client.option_types import ProducerOptions, TransactionalProducerOptions
from pyrmq.client.producer import pending as pending_sends
from pyrmq.client.producer import producer as producers
from pyrmq.client.transaction import producer as transactions
from pyrmq.client.transaction.listener import TransactionListener as TransactionListener
from pyrmq.client.transaction.listener import TransactionSendResult as TransactionSendResult
from pyrmq.client.transaction.listener import TransactionStatistics as TransactionStatistics
from pyrmq.client.user_functions import is_async
from pyrmq.errors import ClientError
from pyrmq.face_docs import PLAIN, in_words, like
from pyrmq.model.compression import CompressionType as CompressionType
from pyrmq.model.message import Message as Message
from pyrmq.model.message import MessageQueue as MessageQueue
from pyrmq.model.message import SendResult as SendResult
from pyrmq.model.message import SendStatus as SendStatus
from pyrmq.model.record import ReceivedMessage as ReceivedMessage
from pyrmq.model.subscription import Sql as Sql
from pyrmq.model.transaction import TransactionState as TransactionState
from pyrmq.sync_face import Client, blocking

if TYPE_CHECKING:
    from pyrmq.sync_admin import Admin as Admin
    from pyrmq.sync_outbox import Outbox as Outbox
else:

    def __getattr__(name: str) -> Any:
        """Loads Admin, and Outbox with SQLAlchemy, at first use."""
        if name not in ("Admin", "Outbox"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"pyrmq.sync_{name.lower()}"), name)
        globals()[name] = found
        return found


P = ParamSpec("P")
R = TypeVar("R")


class PendingSend:
    """As `pyrmq.PendingSend`: a message that `send_soon` has taken. `pending.result()` waits for
    its SendResult or raises its error, also after the producer was closed."""

    def __init__(self, face: Face[Any], pending: pending_sends.PendingSend) -> None:
        self._face = face
        self._pending = pending

    @property
    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._pending.done

    def result(self) -> SendResult:
        """The SendResult. Raises the errors of `send`."""
        if self._pending.done:
            return self._pending.result_now()
        return self._face._running.call(self._pending.result)


S = TypeVar("S", bound=producers.Producer)


class _Sender(Client[S]):
    """The common methods of producers."""

    queues = blocking(producers.Producer.queues)
    send = blocking(producers.Producer.send)
    send_batch = blocking(producers.Producer.send_batch)
    send_batches = blocking(producers.Producer.send_batches)
    send_oneway = blocking(producers.Producer.send_oneway)
    request = blocking(producers.Producer.request)
    flush = blocking(producers.Producer.flush)

    @property
    def unsent(self) -> int:
        """Messages of `send_soon` that no broker has answered yet. After closing: those that failed
        and whose results were never awaited."""
        return self._client.unsent

    def send_soon(self, message: Message, *, queue: MessageQueue | None = None) -> PendingSend:
        call = partial(self._client.send_soon, message, queue=queue)
        return PendingSend(self, self._running.call(call))

    send_soon.__doc__ = in_words(producers.Producer.send_soon.__doc__, PLAIN)


class Producer(_Sender[producers.Producer]):
    __doc__ = in_words(producers.Producer.__doc__, PLAIN)

    @like(producers.Producer)
    def __init__(self, group: str, **options: Unpack[ProducerOptions]) -> None:
        super().__init__(producers.Producer(group, **options))


class TransactionalProducer(_Sender[transactions.TransactionalProducer]):
    """As `pyrmq.TransactionalProducer` with a listener, whose functions run in worker threads."""

    @like(transactions.TransactionalProducer)
    def __init__(
        self,
        group: str,
        listener: TransactionListener,
        **options: Unpack[TransactionalProducerOptions],
    ) -> None:
        super().__init__(transactions.TransactionalProducer(group, listener, **options))

    send_in_transaction = blocking(transactions.TransactionalProducer.send_in_transaction)

    def statistics(self) -> TransactionStatistics:
        """Counters since the start."""
        return self._client.statistics()


class PushConsumer(Client[consumers.PushConsumer]):
    __doc__ = in_words(consumers.PushConsumer.__doc__, PLAIN)

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

    acknowledge = blocking(as_async(consumers.PushConsumer.acknowledge))
    send_back = blocking(consumers.PushConsumer.send_back)
    subscribe = blocking(consumers.PushConsumer.subscribe)
    unsubscribe = blocking(consumers.PushConsumer.unsubscribe)
    suspend = blocking(as_async(consumers.PushConsumer.suspend))
    resume = blocking(as_async(consumers.PushConsumer.resume))
    is_suspended = blocking(as_async(consumers.PushConsumer.is_suspended))

    def __iter__(self) -> Loop:
        return Loop(self)

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that this consumer has now."""
        return self._client.assigned


class LitePullConsumer(Client[lite_pulls.LitePullConsumer]):
    __doc__ = in_words(lite_pulls.LitePullConsumer.__doc__, PLAIN)

    @like(lite_pulls.LitePullConsumer)
    def __init__(
        self,
        group: str,
        subscriptions: Mapping[str, str] | None = None,
        **options: Unpack[LitePullConsumerOptions],
    ) -> None:
        super().__init__(lite_pulls.LitePullConsumer(group, subscriptions, **options))

    queues = blocking(lite_pulls.LitePullConsumer.queues)
    subscribe = blocking(lite_pulls.LitePullConsumer.subscribe)
    assign = blocking(lite_pulls.assign)
    pause = blocking(as_async(lite_pulls.LitePullConsumer.pause))
    resume = blocking(as_async(lite_pulls.LitePullConsumer.resume))
    seek = blocking(lite_pulls.LitePullConsumer.seek)
    seek_to_begin = blocking(lite_pulls.LitePullConsumer.seek_to_begin)
    seek_to_end = blocking(lite_pulls.LitePullConsumer.seek_to_end)
    offset_for_timestamp = blocking(lite_pulls.LitePullConsumer.offset_for_timestamp)
    committed = blocking(lite_pulls.LitePullConsumer.committed)
    commit = blocking(lite_pulls.LitePullConsumer.commit)

    def poll(self, timeout: float = 5.0) -> list[ReceivedMessage]:
        chunk = self._running.call(partial(self._client.poll_unseen, timeout))
        self._client.saw(chunk)
        return list(chunk)

    poll.__doc__ = in_words(lite_pulls.LitePullConsumer.poll.__doc__, PLAIN)

    def __iter__(self) -> Loop:
        return Loop(self)

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that this consumer has now."""
        return self._client.assigned


class Loop:
    """A loop over a consumer. If it is interrupted (Ctrl-C), the next loop gets the message that it
    was waiting for."""

    def __init__(self, consumer: PushConsumer | LitePullConsumer) -> None:
        self._face: Face[Any] = consumer
        self._messages = aiter(consumer._client)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReceivedMessage:
        messages, call = self._messages, object()
        running = self._face._running
        try:
            message = running.call(partial(messages.next_unseen, call))
        except BaseException:  # Ctrl-C, or what a signal handler has raised
            running.submit(partial(messages.give_back, call))
            raise
        messages.seen = message
        return message
