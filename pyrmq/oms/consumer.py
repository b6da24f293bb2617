"""The common part of push and pull consumers: a group, its queues, and their lifecycle."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Generic, NoReturn, Self, TypeVar

from pyrmq.client.checks import check_topic, check_trio
from pyrmq.client.consumer import push_consumer as consumers
from pyrmq.errors import ClientError, NotSupportedError
from pyrmq.model.names import retry_topic, with_namespace
from pyrmq.model.subscription import ALL
from pyrmq.net.tasks import Tasks
from pyrmq.oms.message import KeyValue
from pyrmq.oms.settings import ON_TRIO, Attribute, Settings

L = TypeVar("L")


class OfConsumer:
    """What a consumer refuses, on trio, for asyncio and for plain code."""

    def add_interceptor(self, *_: object) -> NoReturn:
        raise NotSupportedError(
            "an interceptor is not supported: call the listener in a function of your own"
        )


class Consumer(OfConsumer, Generic[L]):
    """`attached` has the queues, each with its value (a listener). The client starts with only the
    retry topic of its group; queues are subscribed when they are attached."""

    def __init__(
        self, settings: Settings, listener: Callable[[Any], Any] | None, **options: Any
    ) -> None:
        self._attributes = settings.attributes
        self._namespace = settings.url.namespace
        group = with_namespace(self._namespace, settings.attributes[Attribute.CONSUMER_ID])
        timeout = settings.consume_timeout
        self._consume_timeout = timeout
        self._client = consumers.PushConsumer(
            group,
            {retry_topic(group): ALL},
            namesrv=settings.url.namesrv,
            listener=listener,
            max_reconsume_times=settings.whole(Attribute.MAX_REDELIVERY_TIMES),
            # The client's own limit is for listeners that never return.
            consume_timeout=timeout + 1,
            **options,
        )
        self._attached: dict[str, L] = {}
        self._tasks = Tasks()
        self._left = False
        self._entered = AsyncExitStack()

    @property
    def attributes(self) -> KeyValue:
        """The own attributes and the defaults; a copy."""
        return KeyValue(self._attributes)

    async def __aenter__(self) -> Self:
        check_trio(*ON_TRIO)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._client)
            await stack.enter_async_context(self._tasks)
            self._entered = stack.pop_all()
        try:
            for queue in list(self._attached):
                await self._subscribe(queue)
        except BaseException as e:
            await self.__aexit__(type(e), e, e.__traceback__)
            raise
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._left = True
        await self._entered.__aexit__(*error)

    def attach_first(self, queue: str, what: L) -> None:
        """Notes a queue that is subscribed when the consumer opens."""
        self._check_not_left()
        check_topic(queue)
        if queue in self._attached:
            raise ClientError(f"queue {queue} is attached already: detach it first")
        self._attached[queue] = what

    async def _subscribe(self, queue: str) -> None:
        if self._tasks.running:
            try:
                await self._client.subscribe(self._topic(queue))
            except BaseException:
                self._attached.pop(queue, None)
                raise

    def detach_first(self, queue: str) -> None:
        """The opposite of `attach_first`."""
        self._check_not_left()
        if queue not in self._attached:
            raise ClientError(f"queue {queue!r:.200} is not attached")
        del self._attached[queue]

    async def detach_queue(self, queue: str) -> None:
        """Stops consuming a queue; other members of the group get its messages. Raises ClientError
        if it is not attached."""
        self.detach_first(queue)
        if self._tasks.running:
            await self._client.unsubscribe(self._topic(queue))

    def _check_not_left(self) -> None:
        if self._left:
            raise ClientError("the consumer was left: make a new one")

    def _topic(self, queue: str) -> str:
        return with_namespace(self._namespace, queue)
