"""What a producer is made of: how its parts are entered and left, and the way of a request through
them. [DefaultMQProducerImpl]"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import trio

from pyrmq.client.checks import check_queue
from pyrmq.client.hooks import SendHooks
from pyrmq.client.instance import ClientInstance, within
from pyrmq.client.namespaces import Namespace, Selector
from pyrmq.client.producer.delivery import Delivery, check_timers
from pyrmq.client.producer.faults import select_by_hash
from pyrmq.client.producer.outgoing import PRIORITY_CHOOSES, Outgoing, Packer
from pyrmq.errors import ClientError
from pyrmq.model.message import Message, MessageQueue, SendResult
from pyrmq.model.properties import SHARDING_KEY
from pyrmq.net.client.channel import Channel
from pyrmq.net.client.requests import SendRequest

if TYPE_CHECKING:
    # Imported where they are used: most producers need neither.
    from pyrmq.client.producer.accumulator import Accumulator
    from pyrmq.client.producer.send_soon import SoonSender
    from pyrmq.client.trace.tracer import Tracer

UNREGISTER_TIMEOUT = 3.0
"""Seconds that leaving waits for brokers that are told of it."""


class ProducerBase:
    """`Producer` makes the parts. Topics, queues and `_wire_group` are as brokers know them."""

    _names: Namespace
    _wire_group: str
    _client: ClientInstance
    _packer: Packer
    _delivery: Delivery
    _accumulator: Accumulator | None
    _soon: SoonSender | None
    _hooks: SendHooks | None
    _tracer: Tracer | None
    _leaving: AsyncExitStack

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._enter(stack)
            self._leaving = stack.pop_all()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._leaving.__aexit__(*error)

    async def _enter(self, stack: AsyncExitStack) -> None:
        """Opens what closes, in reverse order, when the producer is closed."""
        await stack.enter_async_context(self._client)
        stack.push_async_callback(self._unregister)
        if self._tracer is not None:
            await stack.enter_async_context(self._tracer)
        await self._enter_helpers(stack)

    async def _enter_helpers(self, stack: AsyncExitStack) -> None:
        detector = self._delivery.detector()
        if detector is not None:
            await stack.enter_async_context(detector)
        if self._accumulator is not None:
            await stack.enter_async_context(self._accumulator)
        if self._soon is not None:
            await stack.enter_async_context(self._soon)

    def _deliver_batch(
        self, request: Outgoing, queue: MessageQueue | None
    ) -> Coroutine[Any, Any, SendResult]:
        return self._deliver(request, queue, None, None)

    async def _unregister(self) -> None:
        self._client.producer_groups.discard(self._wire_group)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + UNREGISTER_TIMEOUT):
            await self._client.unregister(producerGroup=self._wire_group)

    # The way of a request.

    async def _send(
        self,
        message: Message,
        queue: MessageQueue | None,
        select: Selector | None,
        sharding_key: str | None,
        timeout: float | None,
    ) -> SendResult:
        accumulator = self._accumulator
        plain = select is None and sharding_key is None and timeout is None
        if accumulator is not None and plain:
            check_queue(queue)
            entry = accumulator.entry(message)
            if entry is not None:
                return self._names.shown_result(await accumulator.send(message, entry, queue))
        if sharding_key is None:
            request = await self._packer.plain(message)
        else:
            self._packer.check(message)
            properties, select = self._keyed(message, select, sharding_key)
            request = await self._packer.single(message, properties)
        return self._names.shown_result(await self._deliver(request, queue, select, timeout))

    async def _send_oneway(
        self, message: Message, queue: MessageQueue | None, timeout: float | None
    ) -> None:
        limit = self._delivery.timeout if timeout is None else timeout
        target = None

        def why() -> str:
            return self._client.routes.no_answer() if target is None else ""

        if queue is not None and message.priority is not None:
            raise ClientError(PRIORITY_CHOOSES)
        with within(limit, f"message to {message.topic} has not left", why):
            request = await self._packer.plain(message)
            target = self._names.wire_queue(queue) or await self._delivery.choose(request.topic)
            channel = await self._channel_of(target, request.topic)
            if request.is_timer:
                await check_timers(self._client, channel, target.broker_name)
            fields = SendRequest(request.header, target.queue_id, target.broker_name)
            await channel.oneway(request.code, fields, request.body)

    def _keyed(
        self, message: Message, select: Selector | None, sharding_key: str | None
    ) -> tuple[dict[str, str], Selector | None]:
        """The properties of a message, and the function that chooses its queue."""
        properties = self._packer.properties(message)
        if sharding_key is None:
            return properties, select
        if select is not None:
            raise ClientError("give either select or sharding_key, not both")
        properties.setdefault(SHARDING_KEY, sharding_key)
        return properties, select_by_hash(sharding_key)

    def _deliver(
        self,
        request: Outgoing,
        queue: MessageQueue | None,
        select: Selector | None,
        timeout: float | None,
    ) -> Coroutine[Any, Any, SendResult]:
        """Returns an awaitable send. Raises ClientError at once if an argument is invalid."""
        if queue is not None or select is not None:
            if queue is not None and select is not None:
                raise ClientError("give either queue, or select or sharding_key, not both")
            if request.message is not None and request.message.priority is not None:
                raise ClientError(PRIORITY_CHOOSES)
            check_queue(queue)
            queue, select = self._names.wire_queue(queue), self._names.wire_selector(select)
        delivering = self._delivery.deliver(request, queue, select, timeout)
        if self._tracer is not None:
            return self._tracer.around(request, delivering, self._client)
        return delivering

    async def _recall(self, topic: str, handle: str, limit: float) -> str:
        from pyrmq.client.producer.recall import handle_for, recall_at, recalled

        wire = self._names.wire(topic)
        found = handle_for(topic, wire, handle)
        until = trio.current_time() + limit
        with within(limit, f"message {found.key} is not recalled", self._client.routes.no_answer):
            channel = await self._channel_of(MessageQueue(wire, found.broker_name, 0), wire)
        left = max(until - trio.current_time(), 0)
        answer = await recall_at(channel, self._wire_group, found, handle, left)
        if self._tracer is not None:
            self._tracer.recalled(topic, found.key, answer)
        return recalled(answer, found)

    def _channel_now(self, queue: MessageQueue, topic: str) -> Channel | None:
        """The same, if it is there already."""
        return self._client.open_master(topic, queue.broker_name) if queue.topic == topic else None

    async def _channel_of(self, queue: MessageQueue, topic: str) -> Channel:
        """The connection that messages of `topic` for a queue go to."""
        if queue.topic != topic:
            raise ClientError(f"{queue} is not a queue of topic {topic}")
        await self._client.routes.first_broker.once_there(
            partial(self._client.routes.publish, topic)
        )
        channel = await self._client.master(topic, queue.broker_name)
        self._client.greet_soon(channel)
        return channel
