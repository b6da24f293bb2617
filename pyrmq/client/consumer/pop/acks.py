"""Acknowledges popped messages, and changes how long they stay invisible.

Acknowledgements are collected while a request is under way, and the next request has all of them. A
failed request is repeated until the messages become visible again: what is not acknowledged by then
comes again. [DefaultMQPushConsumerImpl.ackAsync, changePopInvisibleTimeAsync]
"""

from __future__ import annotations

import logging
from collections import defaultdict

import trio

from pyrmq.client.consumer.pop.popped import Popped
from pyrmq.client.consumer.reports import Reports
from pyrmq.client.instance import ClientInstance
from pyrmq.errors import PyrmqError, RequestCodeNotSupportedError, ResponseError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode
from pyrmq.net.backoff import Backoff
from pyrmq.net.client.channel import Channel
from pyrmq.net.client.pop_requests import ack_body, ack_fields, change_fields
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)

TIMEOUT = 3.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds until a request that failed is repeated."""
MOST = 1024
"""Messages that one request acknowledges."""
SINGLE = 32
"""Requests under way to a broker that takes only one message in each."""
Ack = tuple[Popped, int]
"""An offset of a check point."""


class Acks:
    """Those of one group. `put` returns at once; `drain` waits until all are sent."""

    def __init__(self, client: ClientInstance, group: str, tasks: Tasks, reports: Reports) -> None:
        self._client = client
        self._group = group
        self._tasks = tasks
        self._reports = reports
        self._lines: dict[str, list[Ack]] = defaultdict(list)
        """By broker name."""
        self._working: set[str] = set()
        self._single: set[str] = set()
        """Brokers that do not know BATCH_ACK_MESSAGE."""
        self._drained = trio.lowlevel.ParkingLot()

    def put(self, popped: Popped, offset: int) -> None:
        """A message is consumed."""
        broker = popped.queue.broker_name
        self._lines[broker].append((popped, offset))
        if broker not in self._working:
            self._working.add(broker)
            self._tasks.start_soon(self._work, broker)

    async def drain(self) -> None:
        """Returns when nothing is left to be acknowledged."""
        while self._working:
            await self._drained.park()

    async def _work(self, broker: str) -> None:
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        subject = f"acknowledging messages of broker {broker}"
        try:
            await trio.lowlevel.checkpoint()  # others may have consumed something, too
            while line := self._fresh(broker):
                some, self._lines[broker] = line[:MOST], line[MOST:]
                try:
                    failed = await self._send(broker, some)
                except PyrmqError as e:
                    failed = [] if refused(e) else some
                    self._reports.waiting(subject, str(e))
                else:
                    if not failed:
                        self._reports.resolved(subject)
                if failed:
                    self._lines[broker] = failed + self._lines[broker]
                    await trio.sleep(backoff.next())
                else:
                    backoff.reset()
        finally:
            self._working.discard(broker)
            self._drained.unpark_all()

    def _fresh(self, broker: str) -> list[Ack]:
        """What can still be acknowledged."""
        line = self._lines[broker]
        fresh = [ack for ack in line if not ack[0].expired]
        if len(fresh) < len(line):
            log.warning(
                "%d messages of broker %s come again: they could not be acknowledged in their "
                "invisible time",
                len(line) - len(fresh), escape(broker), extra=about(broker=broker),
            )  # fmt: skip
        return fresh

    async def _send(self, broker: str, some: list[Ack]) -> list[Ack]:
        """What is to be sent again. PyrmqError if that is all."""
        channel = await self._client.known_master(some[0][0].queue.topic, broker)
        if len(some) == 1:
            await self._send_one(channel, *some[0])
            return []
        if broker not in self._single:
            acks = [(popped.queue.topic, popped.handle_of(offset)) for popped, offset in some]
            body = ack_body(broker, self._group, acks)
            try:
                await channel.request(RequestCode.BATCH_ACK_MESSAGE, {}, body, timeout=TIMEOUT)
            except RequestCodeNotSupportedError:
                log.info(
                    "broker %s takes acknowledgements one by one",
                    escape(broker),
                    extra=about(broker=broker),
                )
                self._single.add(broker)
            else:
                return []
        failed: list[Ack] = []

        async def send(ack: Ack) -> None:
            try:
                await self._send_one(channel, *ack)
            except PyrmqError as e:
                if not refused(e):
                    failed.append(ack)

        for at in range(0, len(some), SINGLE):
            async with trio.open_nursery() as nursery:
                for ack in some[at : at + SINGLE]:
                    nursery.start_soon(send, ack)
        return failed

    async def _send_one(self, channel: Channel, popped: Popped, offset: int) -> None:
        fields = ack_fields(popped.handle_of(offset), popped.queue.topic, self._group)
        try:
            await channel.request(RequestCode.ACK_MESSAGE, fields, timeout=TIMEOUT)
        except ResponseError as e:
            if refused(e):
                log.warning(
                    "offset %d of %s is not acknowledged: %s",
                    offset,
                    escape(popped.queue),
                    escape(e),
                    extra=about(queue=popped.queue),
                )
            raise

    async def change(self, popped: Popped, offset: int, seconds: float) -> bool:
        """A message becomes visible so many seconds from now; whether the broker has said so. If
        not, it does at the end of its invisible time."""
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        queue = popped.queue
        fields = change_fields(
            popped.handle_of(offset), queue.topic, self._group, int(seconds * 1000)
        )
        code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        while not popped.expired:
            try:
                channel = await self._client.known_master(queue.topic, queue.broker_name)
                await channel.request(code, fields, timeout=TIMEOUT)
            except PyrmqError as e:
                why = e
                if refused(e):
                    break
                await trio.sleep(backoff.next())
            else:
                return True
        else:
            why = PyrmqError("its invisible time is over")
        log.warning(
            "offset %d of %s comes again after its invisible time: %s",
            offset, escape(queue), escape(why), extra=about(queue=queue),
        )  # fmt: skip
        return False


def refused(error: PyrmqError) -> bool:
    """Whether the broker has said no, and would again."""
    return isinstance(error, ResponseError) and error.answered and not error.retriable
