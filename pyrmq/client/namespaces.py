"""Names with a namespace, as on brokers, and without, as users see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import overload

from pyrmq.client.consumer.allocate import Configured, Strategy
from pyrmq.model.message import MessageQueue, SendResult
from pyrmq.model.names import with_namespace, without_namespace

Selector = Callable[[list[MessageQueue]], MessageQueue]


class Namespace:
    """A client's namespace; an empty one changes nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    def wire(self, topic_or_group: str) -> str:
        """The broker's name for a user's name."""
        return with_namespace(self.name, topic_or_group)

    def shown(self, topic: str) -> str:
        """The user's name for a broker's topic."""
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
        """A selector for queues with the brokers' names; `select` gets the users' names."""
        if select is None or not self.name:
            return select
        chosen_by_user = select

        def choose(queues: list[MessageQueue]) -> MessageQueue:
            chosen = chosen_by_user(self.shown_queues(queues))
            return replace(chosen, topic=self.wire(chosen.topic))

        return choose

    def wire_strategy(self, strategy: Strategy) -> Strategy:
        """Strategies get queues with the brokers' names, as in Java's members; configured queues of
        a user are renamed."""
        if self.name and isinstance(strategy, Configured):
            return strategy.renamed(self.wire)
        return strategy
