"""OpenMessaging's access point, producer and consumers for threads.

Written by scripts/portals.py: change that, or what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyrmq.oms.access_point import MessagingAccessPoint as TrioMessagingAccessPoint
from pyrmq.oms.consumers import PullConsumer as TrioPullConsumer
from pyrmq.oms.consumers import PushConsumer as TrioPushConsumer
from pyrmq.oms.message import KeyValue, Value
from pyrmq.oms.producer import Producer as TrioProducer
from pyrmq.oms.sync.special import Connectionless, Listening, Pulling, Sending
from pyrmq.portal.blocking import blocking
from pyrmq.portal.client import PLAIN, as_async, in_words


class Producer(Sending):
    __doc__ = in_words(TrioProducer.__doc__, PLAIN)
    __module__ = "pyrmq.oms.sync"

    @property
    def attributes(self) -> KeyValue:
        """The own attributes and the defaults; a copy."""
        return self._client.attributes

    create_bytes_message = staticmethod(TrioProducer.create_bytes_message)
    send = blocking(TrioProducer.send)
    send_oneway = blocking(TrioProducer.send_oneway)


class PushConsumer(Listening):
    __doc__ = Listening.__doc__
    __module__ = "pyrmq.oms.sync"

    @property
    def attributes(self) -> KeyValue:
        """The own attributes and the defaults; a copy."""
        return self._client.attributes

    is_suspended = blocking(as_async(TrioPushConsumer.is_suspended))
    resume = blocking(as_async(TrioPushConsumer.resume))
    suspend = blocking(as_async(TrioPushConsumer.suspend))


class PullConsumer(Pulling):
    __doc__ = in_words(TrioPullConsumer.__doc__, PLAIN)
    __module__ = "pyrmq.oms.sync"

    ack = blocking(as_async(TrioPullConsumer.ack))

    @property
    def attributes(self) -> KeyValue:
        """The own attributes and the defaults; a copy."""
        return self._client.attributes

    receive = blocking(TrioPullConsumer.receive)


class MessagingAccessPoint(Connectionless, TrioMessagingAccessPoint):
    __doc__ = in_words(TrioMessagingAccessPoint.__doc__, PLAIN)
    __module__ = "pyrmq.oms.sync"

    def create_producer(  # type: ignore[override]
        self, attributes: Mapping[str, Value] | None = None
    ) -> Producer:
        """Attributes: OPERATION_TIMEOUT (ms, 5000), `rmq.producer.group`."""
        return Producer(super().create_producer(attributes))

    def create_push_consumer(  # type: ignore[override]
        self, attributes: Mapping[str, Value] | None = None
    ) -> PushConsumer:
        """Attributes: CONSUMER_ID, the group (required); `rmq.max.redelivery.times` (16),
        `rmq.message.consume.timeout` (minutes, 15), `rmq.max.consume.thread.nums` (20)."""
        return PushConsumer(super().create_push_consumer(attributes))

    def create_pull_consumer(  # type: ignore[override]
        self, attributes: Mapping[str, Value] | None = None
    ) -> PullConsumer:
        """Attributes: CONSUMER_ID, the group (required); OPERATION_TIMEOUT (ms, 5000),
        `rmq.max.redelivery.times` (16), `rmq.message.consume.timeout` (minutes, 15),
        `rmq.pull.message.batch.nums` (32), `rmq.pull.message.cache.capacity` (1000)."""
        return PullConsumer(super().create_pull_consumer(attributes))
