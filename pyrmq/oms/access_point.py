"""Where producers and consumers of OpenMessaging come from. [MessagingAccessPointImpl]"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from pyrmq.errors import NotSupportedError
from pyrmq.oms.message import KeyValue, Value
from pyrmq.oms.producer import Producer
from pyrmq.oms.pull_consumer import PullConsumer
from pyrmq.oms.push_consumer import PushConsumer
from pyrmq.oms.settings import (
    Kind,
    Settings,
    attributes_of_url,
    check_attributes,
    parse_url,
    settings,
)


class AccessPoint:
    """A URL and attributes; it holds no connection."""

    impl_version = "0.3.0"
    """The version of OpenMessaging's interface that this is like."""

    def __init__(self, url: str, attributes: Mapping[str, Value] | None = None) -> None:
        self._url = parse_url(url)
        self._shared = check_attributes(attributes)

    @property
    def attributes(self) -> KeyValue:
        """What the URL says, and what was given; a copy."""
        return KeyValue({**attributes_of_url(self._url), **self._shared})

    def _settings(self, attributes: Mapping[str, Value] | None, kind: Kind) -> Settings:
        return settings(self._url, self._shared, attributes, kind)

    def create_streaming_consumer(self, *_: object) -> NoReturn:
        raise NotSupportedError(
            "a streaming consumer is not supported: use a pull consumer, or pyrmq.LitePullConsumer"
        )

    def resource_manager(self) -> NoReturn:
        raise NotSupportedError(
            "the resource manager is not supported: brokers and their tools make topics and groups"
        )


class MessagingAccessPoint(AccessPoint):
    """Makes producers and consumers for trio.

        access_point = MessagingAccessPoint("oms:rocketmq://127.0.0.1:9876/default")
        async with access_point.create_producer() as producer:
            await producer.send(producer.create_bytes_message("Orders", b"Hello"))

    url: `oms:rocketmq://HOST:PORT[,HOST:PORT…]/NAMESPACE` with name servers; `openmessaging:` in
    front means the same. `default` and `default:default` mean no namespace. attributes: for all
    producers and consumers, by `Attribute`; each may have its own besides, which count more.

    ConfigError for a URL or an attribute that cannot be meant, NotSupportedError for those of
    OpenMessaging that RocketMQ, or this client, has not.
    """

    def create_producer(self, attributes: Mapping[str, Value] | None = None) -> Producer:
        """Attributes: OPERATION_TIMEOUT (ms, 5000), `rmq.producer.group`."""
        return Producer(self._settings(attributes, Kind.PRODUCER))

    def create_push_consumer(self, attributes: Mapping[str, Value] | None = None) -> PushConsumer:
        """Attributes: CONSUMER_ID, the group, which it needs; `rmq.max.redelivery.times` (16),
        `rmq.message.consume.timeout` (minutes, 15), `rmq.max.consume.thread.nums` (20)."""
        return PushConsumer(self._settings(attributes, Kind.PUSH_CONSUMER))

    def create_pull_consumer(self, attributes: Mapping[str, Value] | None = None) -> PullConsumer:
        """Attributes: CONSUMER_ID, the group, which it needs; OPERATION_TIMEOUT (ms, 5000),
        `rmq.max.redelivery.times` (16), `rmq.message.consume.timeout` (minutes, 15),
        `rmq.pull.message.batch.nums` (32), `rmq.pull.message.cache.capacity` (1000)."""
        return PullConsumer(self._settings(attributes, Kind.PULL_CONSUMER))
