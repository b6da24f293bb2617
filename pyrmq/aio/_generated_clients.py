"""The producers and consumers for asyncio.

Written by scripts/portals.py: change that, or what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from pyrmq.aio.special import Listening, Polling, Sending, SendingInTransactions
from pyrmq.client.consumer.lite_pull import LitePullConsumer as TrioLitePullConsumer
from pyrmq.client.consumer.lite_pull import assign as trio_assign
from pyrmq.client.consumer.options import LitePullConsumerOptions, SimpleConsumerOptions
from pyrmq.client.consumer.push_consumer import PushConsumer as TrioPushConsumer
from pyrmq.client.consumer.simple import SimpleConsumer as TrioSimpleConsumer
from pyrmq.client.option_types import ProducerOptions, like
from pyrmq.client.producer.producer import Producer as TrioProducer
from pyrmq.client.transaction.listener import TransactionStatistics
from pyrmq.client.transaction.producer import TransactionalProducer as TrioTransactionalProducer
from pyrmq.model.message import MessageQueue
from pyrmq.portal.awaiting import Client, awaited
from pyrmq.portal.client import ASYNCIO, as_async, in_words


class Producer(Sending[TrioProducer]):
    __doc__ = in_words(TrioProducer.__doc__, ASYNCIO)
    __module__ = "pyrmq.aio"

    @like(TrioProducer)
    def __init__(self, group: str, **options: Unpack[ProducerOptions]) -> None:
        super().__init__(TrioProducer(group, **options))

    flush = awaited(TrioProducer.flush)
    queues = awaited(TrioProducer.queues)
    recall = awaited(TrioProducer.recall)
    request = awaited(TrioProducer.request)
    send = awaited(TrioProducer.send)
    send_batch = awaited(TrioProducer.send_batch)
    send_batches = awaited(TrioProducer.send_batches)
    send_oneway = awaited(TrioProducer.send_oneway)

    @property
    def unsent(self) -> int:
        """Messages of `send_soon` that no broker has answered yet. After closing: those that failed
        and whose results were never awaited."""
        return self._client.unsent


class TransactionalProducer(SendingInTransactions):
    __doc__ = SendingInTransactions.__doc__
    __module__ = "pyrmq.aio"

    flush = awaited(TrioTransactionalProducer.flush)
    queues = awaited(TrioTransactionalProducer.queues)
    recall = awaited(TrioTransactionalProducer.recall)
    request = awaited(TrioTransactionalProducer.request)
    send = awaited(TrioTransactionalProducer.send)
    send_batch = awaited(TrioTransactionalProducer.send_batch)
    send_batches = awaited(TrioTransactionalProducer.send_batches)
    send_in_transaction = awaited(TrioTransactionalProducer.send_in_transaction)
    send_oneway = awaited(TrioTransactionalProducer.send_oneway)

    def statistics(self) -> TransactionStatistics:
        """Counters since the start."""
        return self._client.statistics()

    @property
    def unsent(self) -> int:
        """Messages of `send_soon` that no broker has answered yet. After closing: those that failed
        and whose results were never awaited."""
        return self._client.unsent


class PushConsumer(Listening):
    __doc__ = in_words(TrioPushConsumer.__doc__, ASYNCIO)
    __module__ = "pyrmq.aio"

    acknowledge = awaited(as_async(TrioPushConsumer.acknowledge))

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues of the subscribed topics that this consumer has now, sorted; empty before the
        first rebalance. (It may also have queues of the group's retry topics.) An id of -1 means
        all queues of a broker: they are popped."""
        return self._client.assigned

    is_suspended = awaited(as_async(TrioPushConsumer.is_suspended))
    resume = awaited(as_async(TrioPushConsumer.resume))
    send_back = awaited(TrioPushConsumer.send_back)
    subscribe = awaited(TrioPushConsumer.subscribe)
    suspend = awaited(as_async(TrioPushConsumer.suspend))
    unsubscribe = awaited(TrioPushConsumer.unsubscribe)


class LitePullConsumer(Polling):
    __doc__ = in_words(TrioLitePullConsumer.__doc__, ASYNCIO)
    __module__ = "pyrmq.aio"

    @like(TrioLitePullConsumer)
    def __init__(
        self,
        group: str,
        subscriptions: Mapping[str, str] | None = None,
        **options: Unpack[LitePullConsumerOptions],
    ) -> None:
        super().__init__(TrioLitePullConsumer(group, subscriptions, **options))

    assign = awaited(trio_assign)

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that this consumer has now, sorted."""
        return self._client.assigned

    commit = awaited(TrioLitePullConsumer.commit)
    committed = awaited(TrioLitePullConsumer.committed)
    offset_for_timestamp = awaited(TrioLitePullConsumer.offset_for_timestamp)
    pause = awaited(as_async(TrioLitePullConsumer.pause))
    queues = awaited(TrioLitePullConsumer.queues)
    resume = awaited(as_async(TrioLitePullConsumer.resume))
    seek = awaited(TrioLitePullConsumer.seek)
    seek_to_begin = awaited(TrioLitePullConsumer.seek_to_begin)
    seek_to_end = awaited(TrioLitePullConsumer.seek_to_end)
    subscribe = awaited(TrioLitePullConsumer.subscribe)


class SimpleConsumer(Client[TrioSimpleConsumer]):
    __doc__ = in_words(TrioSimpleConsumer.__doc__, ASYNCIO)
    __module__ = "pyrmq.aio"

    @like(TrioSimpleConsumer)
    def __init__(
        self, group: str, subscriptions: Mapping[str, str], **options: Unpack[SimpleConsumerOptions]
    ) -> None:
        super().__init__(TrioSimpleConsumer(group, subscriptions, **options))

    ack = awaited(TrioSimpleConsumer.ack)
    ack_all = awaited(TrioSimpleConsumer.ack_all)
    change_invisible = awaited(TrioSimpleConsumer.change_invisible)
    receive = awaited(TrioSimpleConsumer.receive)
    subscribe = awaited(TrioSimpleConsumer.subscribe)
    unsubscribe = awaited(TrioSimpleConsumer.unsubscribe)
