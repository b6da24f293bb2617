"""The producers and consumers for threads.

Written by scripts/portals.py: change that, or what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

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
from pyrmq.portal.blocking import Client, blocking
from pyrmq.portal.client import PLAIN, as_async, in_words
from pyrmq.sync.special import Listening, Polling, Sending, SendingInTransactions


class Producer(Sending[TrioProducer]):
    __doc__ = in_words(TrioProducer.__doc__, PLAIN)
    __module__ = "pyrmq.sync"

    @like(TrioProducer)
    def __init__(self, group: str, **options: Unpack[ProducerOptions]) -> None:
        super().__init__(TrioProducer(group, **options))

    flush = blocking(TrioProducer.flush)
    queues = blocking(TrioProducer.queues)
    recall = blocking(TrioProducer.recall)
    request = blocking(TrioProducer.request)
    send = blocking(TrioProducer.send)
    send_batch = blocking(TrioProducer.send_batch)
    send_batches = blocking(TrioProducer.send_batches)
    send_oneway = blocking(TrioProducer.send_oneway)

    @property
    def unsent(self) -> int:
        """Messages of `send_soon` that no broker has answered yet. After closing: those that failed
        and whose results were never awaited."""
        return self._client.unsent


class TransactionalProducer(SendingInTransactions):
    __doc__ = SendingInTransactions.__doc__
    __module__ = "pyrmq.sync"

    flush = blocking(TrioTransactionalProducer.flush)
    queues = blocking(TrioTransactionalProducer.queues)
    recall = blocking(TrioTransactionalProducer.recall)
    request = blocking(TrioTransactionalProducer.request)
    send = blocking(TrioTransactionalProducer.send)
    send_batch = blocking(TrioTransactionalProducer.send_batch)
    send_batches = blocking(TrioTransactionalProducer.send_batches)
    send_in_transaction = blocking(TrioTransactionalProducer.send_in_transaction)
    send_oneway = blocking(TrioTransactionalProducer.send_oneway)

    def statistics(self) -> TransactionStatistics:
        """Counters since the start."""
        return self._client.statistics()

    @property
    def unsent(self) -> int:
        """Messages of `send_soon` that no broker has answered yet. After closing: those that failed
        and whose results were never awaited."""
        return self._client.unsent


class PushConsumer(Listening):
    __doc__ = in_words(TrioPushConsumer.__doc__, PLAIN)
    __module__ = "pyrmq.sync"

    acknowledge = blocking(as_async(TrioPushConsumer.acknowledge))

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues of the subscribed topics that this consumer has now, sorted; empty before the
        first rebalance. (It may also have queues of the group's retry topics.) An id of -1 means
        all queues of a broker: they are popped."""
        return self._client.assigned

    is_suspended = blocking(as_async(TrioPushConsumer.is_suspended))
    resume = blocking(as_async(TrioPushConsumer.resume))
    send_back = blocking(TrioPushConsumer.send_back)
    subscribe = blocking(TrioPushConsumer.subscribe)
    suspend = blocking(as_async(TrioPushConsumer.suspend))
    unsubscribe = blocking(TrioPushConsumer.unsubscribe)


class LitePullConsumer(Polling):
    __doc__ = in_words(TrioLitePullConsumer.__doc__, PLAIN)
    __module__ = "pyrmq.sync"

    @like(TrioLitePullConsumer)
    def __init__(
        self,
        group: str,
        subscriptions: Mapping[str, str] | None = None,
        **options: Unpack[LitePullConsumerOptions],
    ) -> None:
        super().__init__(TrioLitePullConsumer(group, subscriptions, **options))

    assign = blocking(trio_assign)

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that this consumer has now, sorted."""
        return self._client.assigned

    commit = blocking(TrioLitePullConsumer.commit)
    committed = blocking(TrioLitePullConsumer.committed)
    offset_for_timestamp = blocking(TrioLitePullConsumer.offset_for_timestamp)
    pause = blocking(as_async(TrioLitePullConsumer.pause))
    queues = blocking(TrioLitePullConsumer.queues)
    resume = blocking(as_async(TrioLitePullConsumer.resume))
    seek = blocking(TrioLitePullConsumer.seek)
    seek_to_begin = blocking(TrioLitePullConsumer.seek_to_begin)
    seek_to_end = blocking(TrioLitePullConsumer.seek_to_end)
    subscribe = blocking(TrioLitePullConsumer.subscribe)


class SimpleConsumer(Client[TrioSimpleConsumer]):
    __doc__ = in_words(TrioSimpleConsumer.__doc__, PLAIN)
    __module__ = "pyrmq.sync"

    @like(TrioSimpleConsumer)
    def __init__(
        self, group: str, subscriptions: Mapping[str, str], **options: Unpack[SimpleConsumerOptions]
    ) -> None:
        super().__init__(TrioSimpleConsumer(group, subscriptions, **options))

    ack = blocking(TrioSimpleConsumer.ack)
    ack_all = blocking(TrioSimpleConsumer.ack_all)
    change_invisible = blocking(TrioSimpleConsumer.change_invisible)
    receive = blocking(TrioSimpleConsumer.receive)
    subscribe = blocking(TrioSimpleConsumer.subscribe)
    unsubscribe = blocking(TrioSimpleConsumer.unsubscribe)
