"""Sending of the sink: requests that the engine made of rows, to queues, until they are stored.

Several requests are under way at once. Rows that name a queue, or have a sharding key, go to their
queue one request after the other, so that they stay in order also when one is tried again; all
other batches take turns over the queues. A request that fails in a way that may pass is tried
again, where the rows allow it on another broker: a message may be stored twice, but none is lost.
[DefaultMQProducerImpl.sendDefaultImpl]
"""

from __future__ import annotations

import itertools
import logging
import random
import time
import zlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyrmq.engine import Command, SendRequest, SendRows
from pyrmq.errors import (
    ClientError,
    PyrmqError,
    ResponseError,
)
from pyrmq.escape import escape
from pyrmq.model.codes import ResponseCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.retry import SendVerdict, send_verdict
from pyrmq.model.route import next_queue
from pyrmq.net.address import parse_address
from pyrmq.net.client.blocking_channel import BlockingChannel
from pyrmq.net.client.protocol import Ext, Request
from pyrmq.net.client.requests import (
    queue_fields,
    send_code,
    send_fields,
    stored_at,
)
from spark_ext.broker.cluster import Access, Cluster
from spark_ext.sink.stored import Questions, Repeats

log = logging.getLogger(__name__)


class SinkError(ClientError):
    """Rows were not acknowledged as stored."""


@dataclass(frozen=True)
class SendSettings:
    """How a query sends; travels to the tasks."""

    access: Access
    group: str
    in_flight: int
    retry_not_store_ok: bool


@dataclass(slots=True)
class Stored:
    """What became of the messages of one queue: how many, and their queue offsets."""

    messages: int = 0
    first: int = 2**63 - 1
    last: int = -1


@dataclass(slots=True)
class Totals:
    """What was acknowledged."""

    messages: int = 0
    nbytes: int = 0
    not_store_ok: int = 0
    skipped: int = 0
    """Messages that an earlier try had stored."""
    queues: dict[MessageQueue, Stored] = field(default_factory=dict)


@dataclass(slots=True)
class _Sending:
    request: SendRequest
    pinned: tuple[str, int | str | None, str | None] | None
    """What keeps it behind others: requests with the same value go one after the other."""
    queue: MessageQueue | None = None
    channel: BlockingChannel | None = None
    sent: Request | None = None
    """The request under way."""
    tries: int = 0


class Sender:
    """Sends the rows of one task. `totals` holds what was acknowledged. `idempotent`: requests have
    repeatable keys, and those that an earlier try stored are left out."""

    def __init__(
        self, cluster: Cluster, settings: SendSettings, *, idempotent: bool = False
    ) -> None:
        self.totals = Totals()
        self._repeats: Repeats | None = None
        if idempotent:
            self._repeats = Repeats(Questions(cluster), settings.in_flight)
        self._cluster = cluster
        self._settings = settings
        self._under_way: list[_Sending] = []
        self._behind: dict[tuple[str, int | str | None, str | None], deque[_Sending]] = {}
        """Of queues with a request under way: what waits for it."""
        self._waiting = 0
        self._brokers: dict[tuple[str, int], str] = {}
        """Where rows go that name a queue without a broker."""
        self._turn = itertools.count(random.randrange(1 << 20))

    def send(self, rows: SendRows) -> None:
        """Takes the rows of a batch on; returns while the last of them may be under way. Raises
        SinkError with the rows that were not stored, and why."""
        rows.group([self._count_queues(topic) for topic in rows.topics])
        while (request := rows.next_request()) is not None:
            if self._repeats is None:
                self._take(request)
            else:
                self._take_all(self._repeats.take(request))

    def _take_all(self, requests: Iterable[SendRequest]) -> None:
        assert self._repeats is not None
        self.totals.skipped = self._repeats.skipped
        for request in requests:
            self._take(request)

    def _take(self, request: SendRequest) -> None:
        while len(self._under_way) + self._waiting >= self._settings.in_flight:
            self._wait_for_one()
        sending = _Sending(request, _pinned(request))
        if sending.pinned is not None:
            if sending.pinned in self._behind:
                self._behind[sending.pinned].append(sending)
                self._waiting += 1
                return
            self._behind[sending.pinned] = deque()
        self._start(sending)

    def queues(self, topics: Iterable[str]) -> int:
        """How many queues the topic has that has most of them."""
        return max(map(self._count_queues, topics), default=0)

    def _count_queues(self, topic: str) -> int:
        """How many queues a topic has. A broker that is coming back has none for a moment."""
        tries = 0
        while True:
            try:
                return len(self._queues(topic, fresh=tries > 0))
            except PyrmqError as error:
                tries += 1
                seconds = self._cluster.policy.pause(tries)
                if seconds is None:
                    raise
                log.warning("topic %s: %s; trying again", escape(topic), escape(error))
                self._cluster.channels.pause(seconds)

    def finish(self) -> None:
        """Waits until everything is acknowledged. SinkError as in `send`."""
        if self._repeats is not None:
            self._take_all(self._repeats.rest())
        while self._under_way:
            self._wait_for_one()

    def _queues(self, topic: str, fresh: bool = False) -> list[MessageQueue]:
        queues = self._cluster.publish_route(topic, fresh=fresh).publish_queues(topic)
        if not queues:
            raise ClientError(f"no broker takes messages of topic {topic}")
        return queues

    def _choose(self, sending: _Sending) -> MessageQueue:
        """The queue for the next try."""
        request = sending.request
        queues = self._queues(request.topic, fresh=sending.tries > 0)
        if request.nth >= 0:
            # The same queue at each try, also when other brokers have come or gone.
            if sending.queue is not None:
                return sending.queue
            return queues[request.nth % len(queues)]
        fitting = [
            queue
            for queue in queues
            if request.queue_id in (None, queue.queue_id)
            and request.broker_name in (None, queue.broker_name)
        ]
        if not fitting:
            wanted = "" if request.queue_id is None else f" queue {request.queue_id}"
            where = "" if request.broker_name is None else f" on broker {request.broker_name}"
            there = ", ".join(f"{q.broker_name} {q.queue_id}" for q in queues[:16])
            raise SinkError(
                f"topic {request.topic} has no{wanted}{where} that takes messages; it has: {there}"
            )
        avoid = None if sending.queue is None else sending.queue.broker_name
        if request.queue_id is not None and request.broker_name is None:
            fitting = [q for q in fitting if q.broker_name != avoid] or fitting
            return self._same_broker(request.topic, request.queue_id, fitting)
        return next_queue(fitting, self._turn, avoid)

    def _same_broker(self, topic: str, queue_id: int, fitting: list[MessageQueue]) -> MessageQueue:
        """One of several brokers' queues of a number: the same for all rows, in all tasks, until
        it fails, so that they stay in order."""
        by_name = {queue.broker_name: queue for queue in fitting}
        name = self._brokers.get((topic, queue_id))
        if name not in by_name:
            name = sorted(by_name)[(zlib.crc32(topic.encode()) + queue_id) % len(by_name)]
            self._brokers[topic, queue_id] = name
        return by_name[name]

    def _start(self, sending: _Sending) -> None:
        """Sends a request, however often that takes."""
        self._under_way.append(sending)
        while True:
            try:
                sending.queue = queue = self._choose(sending)
                address = self._cluster.publish_route(queue.topic).master_of(queue.broker_name)
                if address is None:
                    raise ClientError(f"broker {queue.broker_name} has no master now")
                sending.channel = self._cluster.channels.get(
                    parse_address(address, "broker address")
                )
                sending.sent = sending.channel.submit(
                    *_head(sending.request, queue, self._settings.group),
                    sending.request.body,
                    timeout=self._settings.access.timeout,
                )
                return
            except SinkError as error:
                raise self._failure(sending, error) from error
            except PyrmqError as error:
                self._retry_or_raise(sending, error)

    def _retry_or_raise(self, sending: _Sending, error: PyrmqError) -> None:
        sending.tries += 1
        seconds = self._cluster.policy.pause(sending.tries)
        if seconds is None:
            raise self._failure(sending, error) from error
        log.warning("%s: %s; trying again", escape(_rows(sending)), escape(error))
        self._cluster.channels.pause(seconds)

    def _wait_for_one(self) -> None:
        """Waits until at least one request is done, or has to be sent again."""
        while True:
            # What has arrived counts, however long Spark took for the next rows.
            self._cluster.channels.receive(0)
            for sending in self._under_way:
                assert sending.channel is not None
                assert sending.sent is not None
                try:
                    answer = sending.channel.take(sending.sent)
                except PyrmqError as error:
                    self._again(sending, error)
                    return
                if answer is not None:
                    self._answered(sending, answer)
                    return
            until = min(s.sent.deadline for s in self._under_way if s.sent is not None)
            self._cluster.channels.receive(until - time.monotonic())

    def _again(self, sending: _Sending, error: PyrmqError) -> None:
        self._under_way.remove(sending)
        self._retry_or_raise(sending, error)
        self._start(sending)

    def _answered(self, sending: _Sending, answer: Command) -> None:
        verdict = send_verdict(answer.code)
        if verdict is SendVerdict.NOT_STORE_OK and self._settings.retry_not_store_ok:
            verdict = SendVerdict.RETRY
        if verdict in (SendVerdict.RETRY, SendVerdict.REFUSED):
            error = ResponseError.of(answer.code, answer.remark or "")
            if verdict is SendVerdict.REFUSED:
                raise self._failure(sending, error) from error
            self._again(sending, error)
            return
        if verdict is SendVerdict.NOT_STORE_OK:
            if not self.totals.not_store_ok:
                why = answer.remark or ResponseCode(answer.code).name
                log.warning("%s: stored, but %s", escape(_rows(sending)), escape(why))
            self.totals.not_store_ok += sending.request.rows
        self._count(sending, answer)
        self._under_way.remove(sending)
        if sending.pinned is None:
            return
        behind = self._behind[sending.pinned]
        if behind:
            self._waiting -= 1
            self._start(behind.popleft())
        else:
            del self._behind[sending.pinned]

    def _count(self, sending: _Sending, answer: Command) -> None:
        request, queue = sending.request, sending.queue
        assert queue is not None
        queue_id, first = stored_at(answer)
        stored_in = MessageQueue(queue.topic, queue.broker_name, queue_id)
        stored = self.totals.queues.setdefault(stored_in, Stored())
        stored.messages += request.rows
        stored.first = min(stored.first, first)
        stored.last = max(stored.last, first + request.rows - 1)
        self.totals.messages += request.rows
        self.totals.nbytes += len(request.body)

    def _failure(self, sending: _Sending, error: PyrmqError) -> SinkError:
        done = f"{self.totals.messages} messages of this task were acknowledged before"
        return SinkError(f"{_rows(sending)} not acknowledged as stored: {error}; {done}")


def _pinned(request: SendRequest) -> tuple[str, int | str | None, str | None] | None:
    if request.nth >= 0:
        return request.topic, f"nth {request.nth}", None
    if request.queue_id is not None:
        return request.topic, request.queue_id, request.broker_name
    return None


def _rows(sending: _Sending) -> str:
    request, queue = sending.request, sending.queue
    many = f"rows {request.first_row} to {request.last_row} ({request.rows} messages)"
    rows = f"row {request.first_row}" if request.rows == 1 else many
    where = "" if queue is None else f", broker {queue.broker_name} queue {queue.queue_id}"
    return f"{rows} for topic {request.topic}{where}"


def _head(request: SendRequest, queue: MessageQueue, group: str) -> tuple[int, Ext]:
    """Code and fields of a request."""
    fields = send_fields(
        group, request.topic, request.properties, flag=request.flag, batch=request.batch
    )
    return send_code(request.batch), fields | queue_fields(queue.queue_id, queue.broker_name)
