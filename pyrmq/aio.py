"""pyrmq's clients for asyncio: the same classes, and each call is awaited.

    from pyrmq.aio import Message, Producer

    async with Producer("group", namesrv="127.0.0.1:9876") as producer:
        await producer.send(Message("TopicTest", b"Hello"))

All clients run in one background thread, which starts with the first client that is opened and ends
with the last. Cancelling a task cancels its call. Options, results and errors are those of `pyrmq`.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
)
from contextlib import suppress
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, Unpack

import trio

from pyrmq.aio_face import Calls, Client, awaited
from pyrmq.background import Face, as_async
from pyrmq.client.consumer import lite_pull as lite_pulls
from pyrmq.client.consumer import push_consumer as consumers
from pyrmq.client.consumer.consume_service import ConsumeResult as ConsumeResult
from pyrmq.client.consumer.consume_service import ReconsumeLater as ReconsumeLater
from pyrmq.client.consumer.offsets import ConsumeFrom as ConsumeFrom
from pyrmq.client.consumer.options import (
    AsyncListener,
    LitePullConsumerOptions,
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
from pyrmq.client.user_functions import failure, is_async
from pyrmq.errors import ClientError
from pyrmq.face_docs import ASYNCIO, in_words, like
from pyrmq.model.compression import CompressionType as CompressionType
from pyrmq.model.message import Message as Message
from pyrmq.model.message import MessageQueue as MessageQueue
from pyrmq.model.message import SendResult as SendResult
from pyrmq.model.message import SendStatus as SendStatus
from pyrmq.model.record import ReceivedMessage as ReceivedMessage
from pyrmq.model.subscription import Sql as Sql
from pyrmq.model.transaction import TransactionState as TransactionState

if TYPE_CHECKING:
    from pyrmq.aio_admin import Admin as Admin
    from pyrmq.aio_outbox import Outbox as Outbox
else:

    def __getattr__(name: str) -> Any:
        """Loads Admin, and Outbox with SQLAlchemy, at first use."""
        if name not in ("Admin", "Outbox"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"pyrmq.aio_{name.lower()}"), name)
        globals()[name] = found
        return found


P = ParamSpec("P")
R = TypeVar("R")


class PendingSend:
    """As `pyrmq.PendingSend`: a message that `send_soon` has taken. `await pending.result()`, or
    `await pending`, gives its SendResult or raises its error, also after the producer was
    closed."""

    def __init__(self, face: Face[Any], pending: pending_sends.PendingSend) -> None:
        self._face = face
        self._pending = pending

    @property
    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._pending.done

    async def result(self) -> SendResult:
        """The SendResult. Raises the errors of `send`."""
        if self._pending.done:
            return self._pending.result_now()
        return await asyncio.wrap_future(self._face._submit(self._pending.result))

    def __await__(self) -> Generator[Any, Any, SendResult]:
        return self.result().__await__()


S = TypeVar("S", bound=producers.Producer)


class _Sender(Client[S]):
    """The common methods of producers."""

    queues = awaited(producers.Producer.queues)
    send = awaited(producers.Producer.send)
    send_batch = awaited(producers.Producer.send_batch)
    send_batches = awaited(producers.Producer.send_batches)
    send_oneway = awaited(producers.Producer.send_oneway)
    request = awaited(producers.Producer.request)
    flush = awaited(producers.Producer.flush)

    @property
    def unsent(self) -> int:
        """Messages of `send_soon` that no broker has answered yet. After closing: those that failed
        and whose results were never awaited."""
        return self._client.unsent

    async def send_soon(
        self, message: Message, *, queue: MessageQueue | None = None
    ) -> PendingSend:
        taken = self._submit(self._client.send_soon, message, queue=queue)
        return PendingSend(self, await asyncio.wrap_future(taken))

    send_soon.__doc__ = in_words(producers.Producer.send_soon.__doc__, ASYNCIO)


class Producer(_Sender[producers.Producer]):
    __doc__ = in_words(producers.Producer.__doc__, ASYNCIO)

    @like(producers.Producer)
    def __init__(self, group: str, **options: Unpack[ProducerOptions]) -> None:
        super().__init__(producers.Producer(group, **options))


class TransactionalProducer(_Sender[transactions.TransactionalProducer]):
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

    send_in_transaction = awaited(transactions.TransactionalProducer.send_in_transaction)

    def statistics(self) -> TransactionStatistics:
        """Counters since the start."""
        return self._client.statistics()


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
                function = _bridge(function, calls, awaited=awaited)
            setattr(self, name, function)
        if hasattr(listener, "half_properties"):  # an outbox's: it runs on trio
            self.half_properties = listener.half_properties

    execute_local_transaction: Callable[[Message, Any], Any]
    check_local_transaction: Callable[[ReceivedMessage], Any]


def _bridge(
    function: Callable[..., Awaitable[R]], calls: Calls, *, awaited: bool = False
) -> Callable[..., Coroutine[Any, Any, R]]:
    """The function, called in the asyncio loop. If it raises something that is no Exception, that
    becomes a RuntimeError, so that it does not end the tasks of the background thread, unless user
    code has `awaited` the call."""

    @wraps(function)
    async def call(*args: Any) -> R:
        try:
            return await calls(function, *args)
        except trio.Cancelled:
            raise
        except BaseException as e:
            if awaited or isinstance(e, Exception):
                raise
            raise failure(e) from e

    return call


class PushConsumer(Client[consumers.PushConsumer]):
    __doc__ = in_words(consumers.PushConsumer.__doc__, ASYNCIO)

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
        called: AsyncListener | None = None if listener is None else _bridge(listener, calls)
        client = consumers.PushConsumer(group, subscriptions, listener=called, **options)
        super().__init__(client, calls)

    acknowledge = awaited(as_async(consumers.PushConsumer.acknowledge))
    send_back = awaited(consumers.PushConsumer.send_back)
    subscribe = awaited(consumers.PushConsumer.subscribe)
    unsubscribe = awaited(consumers.PushConsumer.unsubscribe)
    suspend = awaited(as_async(consumers.PushConsumer.suspend))
    resume = awaited(as_async(consumers.PushConsumer.resume))
    is_suspended = awaited(as_async(consumers.PushConsumer.is_suspended))

    def __aiter__(self) -> Loop:
        return Loop(self)

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that this consumer has now."""
        return self._client.assigned


class LitePullConsumer(Client[lite_pulls.LitePullConsumer]):
    __doc__ = in_words(lite_pulls.LitePullConsumer.__doc__, ASYNCIO)

    @like(lite_pulls.LitePullConsumer)
    def __init__(
        self,
        group: str,
        subscriptions: Mapping[str, str] | None = None,
        **options: Unpack[LitePullConsumerOptions],
    ) -> None:
        super().__init__(lite_pulls.LitePullConsumer(group, subscriptions, **options))

    queues = awaited(lite_pulls.LitePullConsumer.queues)
    subscribe = awaited(lite_pulls.LitePullConsumer.subscribe)
    assign = awaited(lite_pulls.assign)
    pause = awaited(as_async(lite_pulls.LitePullConsumer.pause))
    resume = awaited(as_async(lite_pulls.LitePullConsumer.resume))
    seek = awaited(lite_pulls.LitePullConsumer.seek)
    seek_to_begin = awaited(lite_pulls.LitePullConsumer.seek_to_begin)
    seek_to_end = awaited(lite_pulls.LitePullConsumer.seek_to_end)
    offset_for_timestamp = awaited(lite_pulls.LitePullConsumer.offset_for_timestamp)
    committed = awaited(lite_pulls.LitePullConsumer.committed)
    commit = awaited(lite_pulls.LitePullConsumer.commit)

    async def poll(self, timeout: float = 5.0) -> list[ReceivedMessage]:
        chunk = await asyncio.wrap_future(self._submit(self._client.poll_unseen, timeout))
        self._client.saw(chunk)
        return list(chunk)

    poll.__doc__ = in_words(lite_pulls.LitePullConsumer.poll.__doc__, ASYNCIO)

    def __aiter__(self) -> Loop:
        return Loop(self)

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that this consumer has now."""
        return self._client.assigned


class Loop:
    """`async for` over a consumer. If its task is cancelled, the next loop gets the message that it
    was waiting for."""

    def __init__(self, consumer: PushConsumer | LitePullConsumer) -> None:
        self._face: Face[Any] = consumer
        self._messages = aiter(consumer._client)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        messages, call = self._messages, object()
        try:
            message = await asyncio.wrap_future(self._face._submit(messages.next_unseen, call))
        except asyncio.CancelledError:
            with suppress(ClientError):  # it was left
                self._face._submit(messages.give_back, call)
            raise
        messages.seen = message
        return message
