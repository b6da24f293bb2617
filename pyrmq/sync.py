"""The clients for plain code: the same names, and each call blocks.

    from pyrmq.sync import Message, Producer

    with Producer("group", namesrv="127.0.0.1:9876") as producer:
        producer.send(Message("TopicTest", b"Hello"))

They run on one background thread, which starts with the first client that is entered and ends with
the last one; any number of threads may call them. Options, results and errors are those of `pyrmq`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from pyrmq.background import Face, as_async
from pyrmq.client import consumer as consumers
from pyrmq.client import lite_pull as lite_pulls
from pyrmq.client import pending as pending_sends
from pyrmq.client import producer as producers
from pyrmq.client import transaction as transactions
from pyrmq.client.listener import TransactionListener, is_async
from pyrmq.errors import ClientError
from pyrmq.model.message import Message as Message
from pyrmq.model.message import MessageQueue as MessageQueue
from pyrmq.model.message import SendResult
from pyrmq.model.record import ReceivedMessage as ReceivedMessage
from pyrmq.sync_face import Client, blocking

if TYPE_CHECKING:
    from pyrmq.sync_admin import Admin as Admin

P = ParamSpec("P")
R = TypeVar("R")


def __getattr__(name: str) -> Any:
    if name == "Admin":
        from pyrmq.sync_admin import Admin

        return Admin
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class PendingSend:
    """As `pyrmq.PendingSend`: a message that `send_soon` has taken. `pending.result()` blocks until
    there is its SendResult, or raises its error, also when the producer was left."""

    def __init__(self, face: Face[Any], pending: pending_sends.PendingSend) -> None:
        self._face = face
        self._pending = pending

    @property
    def done(self) -> bool:
        """Whether the result, or the error, is there."""
        return self._pending.done

    def result(self) -> SendResult:
        """Where the message went. Errors are those of `send`."""
        if self._pending.done:
            return self._pending.result_now()
        return self._face._running.call(self._pending.result)


S = TypeVar("S", bound=producers.Producer)


class _Sender(Client[S]):
    """What all producers do."""

    queues = blocking(producers.Producer.queues)
    send = blocking(producers.Producer.send)
    send_batch = blocking(producers.Producer.send_batch)
    send_batches = blocking(producers.Producer.send_batches)
    send_oneway = blocking(producers.Producer.send_oneway)
    request = blocking(producers.Producer.request)
    flush = blocking(producers.Producer.flush)

    def send_soon(self, message: Message, *, queue: MessageQueue | None = None) -> PendingSend:
        call = partial(self._client.send_soon, message, queue=queue)
        return PendingSend(self, self._running.call(call))

    send_soon.__doc__ = producers.Producer.send_soon.__doc__


class Producer(_Sender[producers.Producer]):
    __doc__ = producers.Producer.__doc__

    def __init__(self, group: str, **options: Any) -> None:
        super().__init__(producers.Producer(group, **options))


class TransactionalProducer(_Sender[transactions.TransactionalProducer]):
    """As `pyrmq.TransactionalProducer` with a listener, whose functions run in worker threads."""

    def __init__(self, group: str, listener: TransactionListener, **options: Any) -> None:
        super().__init__(transactions.TransactionalProducer(group, listener, **options))

    send_in_transaction = blocking(transactions.TransactionalProducer.send_in_transaction)

    def statistics(self) -> Any:
        """What was done so far."""
        return self._client.statistics()


class PushConsumer(Client[consumers.PushConsumer]):
    """As `pyrmq.PushConsumer`: a loop over it, or a `listener`, a plain function that runs in
    worker threads."""

    def __init__(
        self,
        group: str,
        subscriptions: Mapping[str, str],
        *,
        listener: Callable[[Any], object] | None = None,
        **options: Any,
    ) -> None:
        if listener is not None and is_async(listener):
            raise ClientError("the listener must be a plain function, not an async one")
        super().__init__(
            consumers.PushConsumer(group, dict(subscriptions), listener=listener, **options)
        )

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
        """Queues that this consumer has now."""
        return self._client.assigned


class LitePullConsumer(Client[lite_pulls.LitePullConsumer]):
    """As `pyrmq.LitePullConsumer`: `poll`, or a loop over it. What a poll had when it was
    interrupted (Ctrl-C) is returned by the next one."""

    def __init__(
        self, group: str, subscriptions: Mapping[str, str] | None = None, **options: Any
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

    poll.__doc__ = lite_pulls.LitePullConsumer.poll.__doc__

    def __iter__(self) -> Loop:
        return Loop(self)

    @property
    def assigned(self) -> list[MessageQueue]:
        """Queues that this consumer has now."""
        return self._client.assigned


class Loop:
    """A loop over a consumer. What it had when it was interrupted (Ctrl-C) is there for the next
    one."""

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
