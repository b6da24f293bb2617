"""Features of OpenMessaging that RocketMQ, or this client, does not have; each error says what to
use instead."""

from __future__ import annotations

from typing import NoReturn

from pyrmq.errors import NotSupportedError


def not_supported(what: str, instead: str) -> NoReturn:
    raise NotSupportedError(f"{what} is not supported: {instead}")


class OfAccessPoint:
    """What an access point refuses."""

    def create_streaming_consumer(self, *_: object) -> NoReturn:
        not_supported("a streaming consumer", "use a pull consumer, or pyrmq.LitePullConsumer")

    def resource_manager(self) -> NoReturn:
        not_supported("the resource manager", "brokers and their tools make topics and groups")


class OfProducer:
    """What a producer refuses."""

    def create_batch_message_sender(self) -> NoReturn:
        not_supported("a batch sender", "use send_batch of pyrmq.Producer")

    def send_in_transaction(self, *_: object) -> NoReturn:
        not_supported("sending in a transaction", "use pyrmq.TransactionalProducer")

    def add_interceptor(self, *_: object) -> NoReturn:
        not_supported("an interceptor", "call `send` in a function of your own")


class OfConsumer:
    """What a consumer refuses."""

    def add_interceptor(self, *_: object) -> NoReturn:
        not_supported("an interceptor", "call the listener in a function of your own")
