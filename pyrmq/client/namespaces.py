"""Queues with a namespace, as brokers know them, and without, as users do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import overload

from pyrmq.client.consumer.allocate import Configured, Strategy
from pyrmq.model.message import MessageQueue, SendResult
from pyrmq.model.namespace import with_namespace, without_namespace

Selector = Callable[[list[MessageQueue]], MessageQueue]


class Namespace:
    """A client's namespace; an empty one changes nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    def wire(self, topic_or_group: str) -> str:
        """A name as brokers know it."""
        return with_namespace(self.name, topic_or_group)

    def shown(self, topic: str) -> str:
        """A topic as users know it."""
        return without_namespace(self.name, topic)

    @overload
    def wire_queue(self, queue: MessageQueue) -> MessageQueue: ...

    @overload
    def wire_queue(self, queue: MessageQueue | None) -> MessageQueue | None: ...

    def wire_queue(self, queue: MessageQueue | None) -> MessageQueue | None:
        if queue is None or not self.name:
            return queue
        return replace(queue, topic=self.wire(queue.topic))

    def shown_queues(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        return [replace(q, topic=self.shown(q.topic)) for q in queues] if self.name else queues

    def shown_result(self, result: SendResult) -> SendResult:
        return replace(result, queue=self.shown_queues([result.queue])[0]) if self.name else result

    def wire_selector(self, select: Selector | None) -> Selector | None:
        """What chooses among queues as brokers know them; `select` sees those of users."""
        if select is None or not self.name:
            return select
        chosen_by_user = select

        def choose(queues: list[MessageQueue]) -> MessageQueue:
            chosen = chosen_by_user(self.shown_queues(queues))
            return replace(chosen, topic=self.wire(chosen.topic))

        return choose

    def wire_strategy(self, strategy: Strategy) -> Strategy:
        """Strategies see queues as brokers know them, as those of Java's members do; what a user
        has configured gets their names."""
        if self.name and isinstance(strategy, Configured):
            return strategy.renamed(self.wire)
        return strategy
