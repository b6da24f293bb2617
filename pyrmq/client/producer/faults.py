"""Which queue a message goes to: brokers that answer late or not at all are left alone for a while.

Those that could not be reached are asked whether they are back. `select_by_hash` is for users who
choose by a key. [MQFaultStrategy, LatencyFaultToleranceImpl, SelectMessageQueueByHash]
"""

from __future__ import annotations

import logging
import random
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count

import trio

from pyrmq.client.instance import ClientInstance
from pyrmq.client.routes import keep
from pyrmq.engine import java_hash as _java_hash
from pyrmq.errors import ClientError, PyrmqError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.route import next_queue
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)

LATENCY = (0.05, 0.1, 0.55, 1.8, 3.0, 5.0, 15.0)
OFF = (0.0, 0.0, 2.0, 5.0, 6.0, 10.0, 30.0)
"""Seconds for which a broker is avoided after an answer that took so long or longer."""
ISOLATED = 10.0
"""The latency that a failure counts as."""
ASK_INTERVAL = 3.0
ASK_TIMEOUT = 0.2
"""Seconds that a broker that was asked has to answer, with connecting."""


def off_for(latency: float) -> float:
    """Seconds for which a broker is avoided."""
    return OFF[bisect(LATENCY, latency) - 1] if latency >= LATENCY[0] else 0.0


@dataclass(slots=True)
class _Fault:
    until: float
    reachable: bool


class FaultTable:
    """The state of brokers by name; an unknown broker counts as available and reachable.

    `clock` returns seconds and never goes back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._faults: dict[str, _Fault] = {}

    def answered(self, broker: str, latency: float) -> None:
        """The broker accepted the message after `latency` seconds."""
        self._update(broker, latency, reachable=True)

    def failed(self, broker: str, *, reachable: bool) -> None:
        """The broker refused the message, or did not answer."""
        self._update(broker, ISOLATED, reachable=reachable)

    def unreachable(self) -> list[str]:
        """Brokers that did not answer."""
        return [broker for broker, fault in self._faults.items() if not fault.reachable]

    def reached(self, broker: str) -> None:
        """The broker answers again; it is still avoided until its time is over."""
        fault = self._faults.get(broker)
        if fault is not None:
            fault.reachable = True

    def forget(self, broker: str) -> None:
        """The broker is in no route any more."""
        self._faults.pop(broker, None)

    def _update(self, broker: str, latency: float, *, reachable: bool) -> None:
        until = self._clock() + off_for(latency)
        fault = self._faults.setdefault(broker, _Fault(until, reachable))
        fault.until = max(fault.until, until)
        fault.reachable = reachable

    def available(self, broker: str) -> bool:
        fault = self._faults.get(broker)
        return fault is None or self._clock() >= fault.until

    def reachable(self, broker: str) -> bool:
        fault = self._faults.get(broker)
        return fault is None or fault.reachable


class QueueChooser:
    """Chooses queues of each topic in rotation, starting at a random one. With `faults` it prefers
    queues of available brokers, then those of reachable ones."""

    def __init__(self, faults: FaultTable | None = None) -> None:
        self._faults = faults
        self._counts: dict[str, count[int]] = {}

    def forget(self, topics: set[str]) -> None:
        """Keeps only these topics."""
        keep(self._counts, topics)

    def choose(self, queues: Sequence[MessageQueue], avoid: str | None = None) -> MessageQueue:
        """One of these queues of a topic, not on the broker `avoid` if there is another one."""
        topic = queues[0].topic
        counter = self._counts.get(topic)
        if counter is None or (avoid is not None and self._faults is not None):
            counter = self._counts[topic] = count(random.randrange(1 << 30))
        if self._faults is not None:
            others = [q for q in queues if q.broker_name != avoid]
            for allowed in (self._faults.available, self._faults.reachable):
                known = {name: allowed(name) for name in {q.broker_name for q in others}}
                if good := [q for q in others if known[q.broker_name]]:
                    return good[next(counter) % len(good)]
        return next_queue(queues, counter, avoid)


class Detector:
    """An async context manager. `topics` are the topics in use: the probe asks a broker of their
    routes for the end of a queue of one of them. A broker that is in no route any more is
    forgotten."""

    def __init__(
        self, client: ClientInstance, faults: FaultTable, topics: Callable[[], Iterable[str]]
    ) -> None:
        self._client = client
        self._faults = faults
        self._topics = topics
        self._tasks = Tasks()

    async def __aenter__(self) -> Detector:
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._run)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._tasks.__aexit__(*error)

    async def _run(self) -> None:
        while True:
            await trio.sleep(ASK_INTERVAL)
            async with trio.open_nursery() as nursery:
                for broker in self._faults.unreachable():
                    nursery.start_soon(self._ask, broker)

    async def _ask(self, broker: str) -> None:
        found = self._topic_of(broker)
        if found is None:
            self._faults.forget(broker)
            return
        topic, address = found
        try:
            with trio.move_on_after(ASK_TIMEOUT):
                channel = await self._client.channel(address)
                fields: dict[str, str | int | bool] = {"topic": topic, "queueId": 0}
                await channel.request(RequestCode.GET_MAX_OFFSET, fields, timeout=ASK_TIMEOUT)
                log.info("broker %s is back", escape(broker), extra=about(broker=broker))
                self._faults.reached(broker)
        except PyrmqError as e:
            log.info(
                "broker %s is still away: %s", escape(broker), escape(e), extra=about(broker=broker)
            )

    def _topic_of(self, broker: str) -> tuple[str, str] | None:
        """A topic of a broker, and the address of its master."""
        for topic in self._topics():
            route = self._client.routes.known(topic)
            address = None if route is None else route.master_of(broker)
            if address is not None:
                return topic, address
        return None


def java_hash(text: str) -> int:
    """Java's String.hashCode, a 32-bit int: the same in every process and every client. Raises
    ClientError if `text` is not a string, because Java has other hashes for other types."""
    if not isinstance(text, str):
        raise ClientError(f"the key is {type(text).__name__}, a str is needed: {text!r:.80}")
    return _java_hash(text)


def select_by_hash(key: str) -> Callable[[Sequence[MessageQueue]], MessageQueue]:
    """Chooses the queue of a key: messages with the same key go to the same queue, in order.

        await producer.send(message, select=select_by_hash("user-1"))

    The choice is that of Java's SelectMessageQueueByHash with a String: the absolute value of
    String.hashCode modulo the number of queues. It is the same in every process and every client.
    If the number of queues that accept messages changes, it changes for most keys. Raises
    ClientError if `key` is not a string, because Java has other hashes for other types.
    """
    number = abs(java_hash(key))
    return lambda queues: queues[number % len(queues)]
