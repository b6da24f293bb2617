"""A group whose members are clients of several languages, and what it received."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from pyrmq import MessageQueue, PyrmqError
from pyrmq.sync import Message, Producer
from tests.support.waiting import eventually

from .clusters import Cluster, Queue
from .drivers import Driver, Line, Running

PATIENCE = 300.0
"""Seconds for what has to happen: clients look for new routes every 30 s, share every 20 s, and a
lock that nobody gives up ends after 60 s."""
LOOK = 0.1
"""Seconds from one look at all members to the next."""
PER_QUEUE = 2
"""Keys of each queue."""


class Group:
    """The members, by name, of one group that consumes one topic. A context that kills them."""

    def __init__(
        self, cluster: Cluster, drivers: dict[str, Driver], topic: str, group: str, command: str
    ) -> None:
        self._cluster = cluster
        self._drivers = drivers
        self._topic = topic
        self._group = group
        self._command = command
        self._members: dict[str, Running] = {}
        self._everyone: list[tuple[str, Running]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self._members.values():
            member.__exit__()

    # Coming and going.

    def join(self, name: str, **words: object) -> None:
        """A member joins: its name begins with that of its driver."""
        driver = self._drivers[name.partition("-")[0]]
        member = driver.start(
            self._command,
            timeout=1200,
            topic=self._topic,
            group=self._group,
            instance=name,
            stay=1,
            **words,
        )
        self._members[name] = member
        self._everyone.append((name, member))

    def leave(self, *names: str) -> None:
        """Members leave in good order."""
        for name in names or list(self._members):
            member = self._members.pop(name)
            member.finish()
            member.__exit__()

    def kill(self, name: str) -> None:
        self._members.pop(name).__exit__()

    # What there is to see.

    def received(self) -> list[tuple[str, Line]]:
        """Member and line of each delivery so far, in the order of time."""
        lines = [(name, line) for name, run in self._everyone for line in run.report.received]
        return sorted(lines, key=lambda entry: entry[1]["receivedAt"])

    def await_all(self, indexes: Iterable[int]) -> None:
        """Until each of these messages was delivered."""
        wanted = {str(index) for index in indexes}

        def missing() -> set[str]:
            return wanted - {line["properties"]["index"] for _, line in self.received()}

        eventually(missing, "all are delivered", PATIENCE, until=lambda left: not left)

    def settle(self, seconds: float = 0.5) -> dict[Queue, str]:
        """Until each queue has had the same owner for so long, and no member has many more than
        another; the owners."""
        queues = self._cluster.queues(self._topic)
        since, last = time.monotonic(), {}

        def owners() -> dict[str, set[Queue]]:
            nonlocal since, last
            time.sleep(LOOK)
            for member in self._members.values():
                member.check()
            found = self._cluster.owners(self._group, self._topic)
            named = {_name(member): held for member, held in found.items()}
            if named != last:
                since, last = time.monotonic(), named
            return named

        def shared(found: dict[str, set[Queue]]) -> bool:
            sizes = [len(held) for held in found.values()]
            return (
                found.keys() == self._members.keys()
                and sum(sizes) == len(queues)
                and set().union(*found.values()) == queues
                and max(sizes) - min(sizes) <= 1
                and time.monotonic() - since >= seconds
            )

        found = eventually(owners, f"{sorted(queues)} have owners", PATIENCE, until=shared)
        return {queue: name for name, held in found.items() for queue in held}


def _name(client_id: str) -> str:
    return client_id.split("@")[1]


class Sender:
    """Sends numbered messages to all queues in turn: of each queue's keys one after the other. A
    message that fails is sent again, before anything else, until its broker has it."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        self._cluster = cluster
        self._producer = Producer("senders", namesrv=cluster.namesrv)
        self._steps: dict[str, int] = defaultdict(int)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.sent = 0

    def __enter__(self) -> Self:
        self._producer.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.rest()
        self._producer.__exit__(kind, error, trace)

    def round(self) -> range:
        """One message for each key; the indexes."""
        first = self.sent
        for broker, number in sorted(self._cluster.queues(self._topic)):
            for n in range(PER_QUEUE):
                self._send(MessageQueue(self._topic, broker, number), n)
        return range(first, self.sent)

    def _send(self, queue: MessageQueue, n: int) -> None:
        key = f"{queue.broker_name}-{queue.queue_id}-{n}"
        message = Message(
            self._topic,
            b"message %d" % self.sent,
            tags="TagA",
            keys=key,
            properties={
                "index": str(self.sent),
                "order": key,
                "step": str(self._steps[key]),
            },
        )
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._producer.send(message, queue=queue, timeout=2)
                break
            except PyrmqError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        self._steps[key] += 1
        self.sent += 1

    def go_on(self) -> None:
        """Sends all the time, in a thread."""

        def work() -> None:
            while not self._stop.wait(0.05):
                self.round()

        self._stop.clear()
        self._thread = threading.Thread(target=work, name="sender")
        self._thread.start()

    def rest(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def delivered_by_owners(
    received: list[tuple[str, Line]], indexes: Iterable[int], owners: dict[Queue, str]
) -> None:
    """Each of these messages once, by the member that has its queue."""
    wanted = {str(index) for index in indexes}
    found: dict[str, list[str]] = defaultdict(list)
    expected: dict[str, list[str]] = {}
    for name, line in received:
        index = line["properties"]["index"]
        if index in wanted:
            broker, number, _ = line["properties"]["order"].rsplit("-", 2)
            found[index].append(name)
            expected[index] = [owners[broker, int(number)]]
    assert found == expected
    assert found.keys() == wanted


def in_order(received: list[tuple[str, Line]]) -> None:
    """Of each key nothing came before all that was sent before it."""
    highest: dict[str, int] = defaultdict(lambda: -1)
    for name, line in received:
        key, step = line["properties"]["order"], int(line["properties"]["step"])
        assert step <= highest[key] + 1, f"{key}: step {step} after {highest[key]}, by {name}"
        highest[key] = max(highest[key], step)
