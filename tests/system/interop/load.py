"""Numbered messages that are sent all the time, over restarts of the broker too, and what members
of a consumer group received of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Self

from tests.support.client import UPDATE_AND_CREATE_TOPIC, Client, Closed
from tests.support.ledger import Ledger
from tests.support.waiting import eventually

from .drivers import Line, Running, body

QUEUES = 8
RATE = 100.0
"""Messages a second."""
ANSWER_SECONDS = 5.0
SYSTEM_BUSY = 2


class Load:
    """Sends to the queues of a topic in turn until it is stopped: a context.

    Message n has n as its body and goes to queue n modulo QUEUES. It is not sent again if it was
    refused (SYSTEM_BUSY), or if no answer came: whether it is stored is not known then.
    """

    def __init__(self, address: tuple[str, int], topic: str) -> None:
        self._address = address
        self.topic = topic
        self.ledger = Ledger(topic, once=False)
        self.acked = 0
        self.sent = 0
        """Numbers below it may be stored."""
        self._stop = threading.Event()
        self._problems: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name="load")
        with Client(address) as client:
            made = client.call(
                UPDATE_AND_CREATE_TOPIC,
                topic=topic,
                defaultTopic="TBW102",
                readQueueNums=QUEUES,
                writeQueueNums=QUEUES,
                perm=6,
                topicFilterType="SINGLE_TAG",
                topicSysFlag=0,
                order="false",
            )
            assert made.code == 0, made.remark

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """No more is sent; raises what went wrong. Calling it again does nothing."""
        self._stop.set()
        self._thread.join()
        if self._problems:
            raise self._problems[0]

    def goes_on(self, count: int = 50) -> int:
        """Waits until so many more are acknowledged; the number of the first one."""
        first, had = self.sent, self.acked
        eventually(lambda: self.acked - had, "the load goes on", until=lambda n: n >= count)
        return first

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    with Client(self._address, ANSWER_SECONDS) as client:
                        self._send(client)
                except (Closed, OSError):
                    time.sleep(0.05)
        except BaseException as problem:
            self._problems.append(problem)

    def _send(self, client: Client) -> None:
        while not self._stop.wait(1 / RATE):
            number = self.sent
            self.sent += 1
            self.ledger.sent("load", number)
            properties = {"UNIQ_KEY": f"{number:032X}", "KEYS": f"key-{number}"}
            answer = client.send(
                self.topic,
                b"%d" % number,
                queue_id=number % QUEUES,
                queues=QUEUES,
                properties=properties,
            )
            assert answer.code in (0, SYSTEM_BUSY), f"{number}: {answer.code} {answer.remark}"
            if answer.code == 0:
                self.ledger.acknowledged("load", number)
                self.acked += 1


def numbers(received: Iterable[Line]) -> set[int]:
    return {int(body(line)) for line in received}


def each_receives(load: Load, members: Iterable[Running]) -> None:
    """Waits until every member has received something that was sent from now on."""
    first = load.goes_on(1)
    for member in members:
        member.wait_for(
            lambda report: any(int(body(line)) >= first for line in report.received),
            "it takes part",
        )


def together_receive_all_queues(load: Load, members: list[Running]) -> None:
    """Waits until something that was sent from now on has come from every queue."""
    first = load.goes_on()

    def missing() -> set[int]:
        found = set[int]()
        for member in members:
            found |= {n % QUEUES for n in numbers(member.report.received) if n >= first}
        return set(range(QUEUES)) - found

    eventually(missing, "every queue has a member", 90, until=lambda queues: not queues)


def nothing_is_missing(load: Load, members: list[Running]) -> None:
    """Waits until all that was acknowledged has come to some member; nothing else has come."""
    load.stop()
    ledger, taken = load.ledger, dict.fromkeys(members, 0)

    def owed() -> int:
        for member in members:
            lines = member.report.received[taken[member] :]
            taken[member] += len(lines)
            for line in lines:
                ledger.received("load", int(body(line)))
        return ledger.owed()

    eventually(owed, "everything is received", 90, until=lambda left: not left)
    ledger.check()
    for member in members:
        for line in member.report.received:
            number = int(body(line))
            assert line["topic"] == load.topic
            assert line["queueId"] == number % QUEUES
            assert line["keys"] == f"key-{number}"


def in_order(members: list[Running]) -> None:
    """The first deliveries of each queue came in the order of sending, whoever got them."""
    ledger = Ledger("first deliveries", once=False, ordered=True)
    received = (line for member in members for line in member.report.received)
    for _, number in sorted((int(line["receivedAt"]), int(body(line))) for line in received):
        queue = f"queue {number % QUEUES}"
        ledger.sent(queue, number)
        ledger.received(queue, number)
    ledger.check()
