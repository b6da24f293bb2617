"""The load of a rolling restart: all ways to send, and consumers that push and pop.

Every send is counted; one that raises is a failure, with its text. What was acknowledged, both
groups must get.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import trio

from pyrmq import (
    ConsumeFrom,
    Message,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionalProducer,
    TransactionState,
)
from pyrmq.errors import PyrmqError
from pyrmq.model.message import MessageQueue, ReceivedMessage
from tests.support.ledger import Ledger, parsed

TOPIC = "Rolling"
PAUSE = 0.002
"""Seconds between two sends of one sender: it is no benchmark."""


class Commits:
    """A listener whose transactions are all committed."""

    async def execute_local_transaction(self, message: Message, arg: object) -> TransactionState:
        return TransactionState.COMMIT

    async def check_local_transaction(self, message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT


@dataclass
class Load:
    """`async with trio.open_nursery() as n: await n.start(load.run)`; `stop` ends the senders."""

    namesrv: str
    push: Ledger = field(default_factory=lambda: Ledger("push", once=False))
    pop: Ledger = field(default_factory=lambda: Ledger("pop", once=False))
    failed: list[str] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)
    """By way of sending."""
    brokers: Counter[str] = field(default_factory=Counter)
    """Acknowledged messages by broker name."""
    stopping: bool = False
    ended: trio.Event = field(default_factory=trio.Event)

    def stop(self) -> None:
        self.stopping = True

    @property
    def owed(self) -> int:
        return self.push.owed() + self.pop.owed()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled; `ended` is set when all senders have ended."""
        async with (
            Producer("plain", namesrv=self.namesrv) as plain,
            Producer("soon", namesrv=self.namesrv, auto_batch=True) as soon,
            TransactionalProducer("halves", Commits(), namesrv=self.namesrv) as halves,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(self._push)
            nursery.start_soon(self._pop)
            task_status.started()
            async with trio.open_nursery() as senders:
                for n in range(2):
                    senders.start_soon(self._send, f"plain{n}", lambda m: plain.send(m))
                senders.start_soon(self._send, "chosen", lambda m: plain.send(m, select=_any))
                senders.start_soon(self._send, "batch", lambda m: plain.send_batch([m]))
                senders.start_soon(
                    self._send, "transaction", lambda m: halves.send_in_transaction(m, None)
                )
                senders.start_soon(self._send_soon, soon)
            self.ended.set()
            await trio.sleep_forever()

    async def _send(self, stream: str, send: Callable[[Message], Awaitable[object]]) -> None:
        number = 0
        while not self.stopping:
            await self._one(stream, number, send)
            number += 1
            await trio.sleep(PAUSE)

    async def _one(
        self, stream: str, number: int, send: Callable[[Message], Awaitable[object]]
    ) -> None:
        for ledger in (self.push, self.pop):
            ledger.sent(stream, number)
        self.sent[stream.rstrip("0123456789")] += 1
        try:
            result = await send(Message(TOPIC, f"{stream}-{number}".encode()))
        except PyrmqError as e:
            self.failed.append(f"{stream}-{number}: {e!r}")
            return
        queue = getattr(result, "queue", None)
        if queue is not None:
            self.brokers[queue.broker_name] += 1
        for ledger in (self.push, self.pop):
            ledger.acknowledged(stream, number)

    async def _send_soon(self, producer: Producer) -> None:
        """Many at a time, whose results are awaited later."""

        async def send(message: Message) -> object:
            return await (await producer.send_soon(message))

        number = 0
        while not self.stopping:
            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(self._one, "soon", number, send)
                    number += 1
            await trio.sleep(PAUSE)

    async def _push(self) -> None:
        async with PushConsumer(
            "pushed",
            {TOPIC: "*"},
            namesrv=self.namesrv,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ) as consumer:
            async for message in consumer:
                self.push.received(*parsed(message.body.decode()))

    async def _pop(self) -> None:
        async with SimpleConsumer(
            "popped",
            {TOPIC: "*"},
            namesrv=self.namesrv,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ) as consumer:
            while True:
                try:
                    for message in await consumer.receive(32, invisible_duration=20, timeout=2):
                        self.pop.received(*parsed(message.body.decode()))
                        await consumer.ack(message)
                except PyrmqError:
                    await trio.sleep(PAUSE)  # its broker restarts: what it had comes again


def _any(queues: list[MessageQueue]) -> MessageQueue:
    return random.choice(queues)
