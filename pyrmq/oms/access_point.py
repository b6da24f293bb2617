"""The access point, which creates producers and consumers of OpenMessaging.
[MessagingAccessPointImpl]"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from pyrmq.client.option_types import SecurityOptions, check_types
from pyrmq.errors import NotSupportedError
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls
from pyrmq.oms.consumers import PullConsumer, PushConsumer
from pyrmq.oms.message import KeyValue, Value
from pyrmq.oms.producer import Producer
from pyrmq.oms.settings import (
    Kind,
    Settings,
    attributes_of_url,
    check_attributes,
    parse_url,
    settings,
)


class AccessPoint:
    """A URL and attributes; it has no connection."""

    impl_version = "0.3.0"
    """The version of OpenMessaging's interface that this follows."""

    def __init__(
        self,
        url: str,
        attributes: Mapping[str, Value] | None = None,
        *,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
    ) -> None:
        check_types(SecurityOptions, locals())
        self._url = parse_url(url)
        self._shared = check_attributes(attributes)
        self._credentials = credentials
        self._tls = tls

    @property
    def attributes(self) -> KeyValue:
        """The attributes of the URL and the given ones; a copy."""
        return KeyValue({**attributes_of_url(self._url), **self._shared})

    def _settings(self, attributes: Mapping[str, Value] | None, kind: Kind) -> Settings:
        return settings(self._url, self._shared, attributes, kind, self._credentials, self._tls)

    def create_streaming_consumer(self, *_: object) -> NoReturn:
        raise NotSupportedError(
            "a streaming consumer is not supported: use a pull consumer, or pyrmq.LitePullConsumer"
        )

    def resource_manager(self) -> NoReturn:
        raise NotSupportedError(
            "the resource manager is not supported: brokers and their tools make topics and groups"
        )


class MessagingAccessPoint(AccessPoint):
    """Creates producers and consumers for trio.

        access_point = MessagingAccessPoint("oms:rocketmq://127.0.0.1:9876/default")
        async with access_point.create_producer() as producer:
            await producer.send(producer.create_bytes_message("Orders", b"Hello"))

    url: `oms:rocketmq://HOST:PORT[,HOST:PORT…]/NAMESPACE` with name servers; `openmessaging:`
    instead of `oms:` means the same. `default` and `default:default` mean no namespace.
    attributes: for all producers and consumers, by `Attribute`; the own attributes of each have
    precedence.
    credentials, tls: sign all requests (`pyrmq.Credentials`); connect with TLS (`pyrmq.Tls`).

    Raises ConfigError for an invalid URL or attribute, and NotSupportedError for features of
    OpenMessaging that RocketMQ, or this client, does not have.
    """

    def create_producer(self, attributes: Mapping[str, Value] | None = None) -> Producer:
        """Attributes: OPERATION_TIMEOUT (ms, 5000), `rmq.producer.group`."""
        return Producer(self._settings(attributes, Kind.PRODUCER))

    def create_push_consumer(self, attributes: Mapping[str, Value] | None = None) -> PushConsumer:
        """Attributes: CONSUMER_ID, the group (required); `rmq.max.redelivery.times` (16),
        `rmq.message.consume.timeout` (minutes, 15), `rmq.max.consume.thread.nums` (20)."""
        return PushConsumer(self._settings(attributes, Kind.PUSH_CONSUMER))

    def create_pull_consumer(self, attributes: Mapping[str, Value] | None = None) -> PullConsumer:
        """Attributes: CONSUMER_ID, the group (required); OPERATION_TIMEOUT (ms, 5000),
        `rmq.max.redelivery.times` (16), `rmq.message.consume.timeout` (minutes, 15),
        `rmq.pull.message.batch.nums` (32), `rmq.pull.message.cache.capacity` (1000)."""
        return PullConsumer(self._settings(attributes, Kind.PULL_CONSUMER))
