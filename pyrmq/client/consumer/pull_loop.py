"""Pulling one queue as long as this member holds it, from its master or a slave.
[DefaultMQPushConsumerImpl.pullMessage, PullAPIWrapper.recalculatePullFromWhichNode]"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import trio

from pyrmq.client.brokers import Replica, Replicas
from pyrmq.client.consumer.process_queue import ProcessQueue
from pyrmq.client.consumer.reports import Reports
from pyrmq.client.consumer.running_info import Statistics
from pyrmq.client.instance import ClientInstance
from pyrmq.errors import (
    ClientError,
    ConnectError,
    ProtocolError,
    PyrmqError,
    RequestTimeoutError,
    SystemBusyError,
)
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue, ReceivedMessage, decode_records
from pyrmq.model.names import RETRY_PREFIX
from pyrmq.model.pop import normal_topic
from pyrmq.model.record import Room
from pyrmq.model.route import MASTER_ID
from pyrmq.model.subscription import Subscription
from pyrmq.net.backoff import Backoff
from pyrmq.net.client.channel import Channel
from pyrmq.net.client.requests import PullAnswer, PullStatus, pull_fields, read_pull

log = logging.getLogger(__name__)


class PullSource:
    """After `channel` comes `answered` or `failed`."""

    def __init__(self, client: ClientInstance, queue: MessageQueue) -> None:
        self._client = client
        self._queue = queue
        self._replicas = Replicas(client)
        self._suggested = MASTER_ID
        self._current: Replica | None = None
        self._others: list[Replica] = []
        self._failed: set[str] = set()
        """Addresses that a pull has failed at since one was answered."""
        self._reads_slave = False

    @property
    def is_slave(self) -> bool:
        """Whether the last pull went to one."""
        return self._current is not None and self._current.is_slave

    async def channel(self) -> Channel:
        """Where the next pull goes. PyrmqError."""
        self._current = None
        queue = self._queue
        found = await self._replicas.find(queue.topic, queue.broker_name, self._suggested)
        fresh = [replica for replica in found if replica.address not in self._failed]
        self._current = (fresh or found)[0]
        self._others = [replica for replica in found if replica is not self._current]
        return await self._client.known_channel(self._current.address)

    def answered(self, pulled: PullAnswer, offset: int) -> None:
        """Of a pull at an offset. ClientError for what a slave says of an offset that it has not:
        its log may end before its master's, or begin after it, so that is no place to go on at."""
        current = self._current
        assert current is not None
        if current.is_slave:
            self._check(pulled, offset, current.address)
        self._failed.clear()
        self._suggested = pulled.suggested_broker
        if current.is_slave:
            if self._suggested == MASTER_ID:
                self._client.routes.look_again(self._queue.topic)  # the master may be back
            if not self._reads_slave:
                log.info(
                    "%s is read from slave %s",
                    escape(self._queue),
                    escape(current.address),
                    extra=about(queue=self._queue),
                )
        elif self._reads_slave:
            log.info(
                "%s is read from its master again",
                escape(self._queue),
                extra=about(queue=self._queue),
            )
        self._reads_slave = current.is_slave

    @staticmethod
    def _check(pulled: PullAnswer, offset: int, address: str) -> None:
        following = pulled.next_offset
        low, high = pulled.bounds
        status = pulled.status
        if status is PullStatus.OFFSET_ILLEGAL or following < offset or offset < low:
            raise ClientError(
                f"the slave at {address} has the offsets {low} to {high}, not {offset}: they are "
                "read once a master is there"
            )
        if status is PullStatus.NO_MATCHED_MESSAGE and following == offset:
            raise ClientError(f"the slave at {address} leaves its readers to the master")

    def failed(self, error: PyrmqError) -> bool:
        """Whether another replica can be tried at once. A master that answers has the last word."""
        current = self._current
        is_away = isinstance(error, ConnectError | RequestTimeoutError)
        if current is None or not (current.is_slave or is_away):
            return False
        if isinstance(error, RequestTimeoutError):
            self._client.away.add(current.address)  # until it answers to a heartbeat
        self._suggested = MASTER_ID
        self._client.routes.look_again(self._queue.topic)
        self._failed.add(current.address)
        away = self._client.away | self._failed
        if any(replica.address not in away for replica in self._others):
            return True
        self._failed.clear()
        return False


SUSPEND_MS = 15_000
PULL_TIMEOUT = 30.0
REFUSED_PAUSE, LONGEST_REFUSED_PAUSE = 1.0, 10.0
"""Seconds until a pull that a broker refused is tried again."""
LOST_PAUSE, LONGEST_LOST_PAUSE = 0.1, 1.0
"""The same without a connection, and where only a slave is there that will not do."""
BUSY_DELAY = 0.02
HOLD_DELAY = 0.05
LITE_FLAG = 0x10
"""Of sysFlag: the pull is that of a lite pull consumer. [PullSysFlag]"""
RETRY_TOPIC = "RETRY_TOPIC"
"""Property with the topic of a message that was sent back. [MessageConst]"""


@dataclass(frozen=True, slots=True)
class PullOptions:
    """`batch`: messages that one pull brings at most; `interval`: seconds from one to the next;
    `suspend_ms`: how long a broker may wait for a message; `lite`: the pulls are those of a lite
    pull consumer; `hold` says whether all queues have to wait."""

    batch: int = 32
    interval: float = 0.0
    suspend_ms: int = SUSPEND_MS
    lite: bool = False
    hold: Callable[[], bool] | None = None


class PullLoop:
    """`deliver` gets each queue's messages in order; `moved` is told where a queue goes on whose
    broker has not the offset that was asked for."""

    def __init__(
        self,
        client: ClientInstance,
        group: str,
        subscriptions: Mapping[str, Subscription],
        reports: Reports,
        options: PullOptions,
        statistics: Statistics,
        deliver: Callable[[ProcessQueue, list[ReceivedMessage]], None],
        moved: Callable[[ProcessQueue, int], None],
    ) -> None:
        self._client = client
        self._group = group
        self._subs = subscriptions
        self._reports = reports
        self._options = options
        self._statistics = statistics
        self._deliver = deliver
        self._moved = moved

    async def run(self, process: ProcessQueue) -> None:
        """Pulls until the queue is given up."""
        refused = Backoff(REFUSED_PAUSE, LONGEST_REFUSED_PAUSE)
        lost = Backoff(LOST_PAUSE, LONGEST_LOST_PAUSE)
        source = PullSource(self._client, process.queue)
        while not process.dropped:
            await process.wait_for_room()
            while self._options.hold is not None and self._options.hold():  # noqa: ASYNC110 - rare
                await trio.sleep(HOLD_DELAY)
            try:
                messages = await self._pull(process, source)
            except PyrmqError as e:
                if source.failed(e):
                    continue
                if isinstance(e, SystemBusyError) and not source.is_slave:
                    await trio.sleep(BUSY_DELAY)
                    continue
                self._reports.waiting(process.queue, str(e))
                away = isinstance(e, ConnectError) or source.is_slave
                await trio.sleep((lost if away else refused).next())
                continue
            self._reports.resolved(process.queue)
            refused.reset()
            lost.reset()
            if messages:
                process.put(messages)
                self._deliver(process, messages)
            if self._options.interval:
                await trio.sleep(self._options.interval)

    async def _pull(self, process: ProcessQueue, source: PullSource) -> list[ReceivedMessage]:
        queue = process.queue
        sub = self._subs[queue.topic]
        channel = await source.channel()
        fields = pull_fields(
            queue.topic,
            queue.queue_id,
            process.next_offset,
            self._options.batch,
            broker=queue.broker_name,
            group=self._group,
            suspend_ms=self._options.suspend_ms,
            expression=sub.sub_string,
            expression_type=sub.expression_type,
            version=sub.version,
        )
        code = RequestCode.PULL_MESSAGE
        if self._options.lite:
            code = RequestCode.LITE_PULL_MESSAGE
            fields["sysFlag"] = int(fields["sysFlag"]) | LITE_FLAG
        process.pull_began()
        began = trio.current_time()
        answer = await channel.call(code, fields, timeout=PULL_TIMEOUT)
        pulled = read_pull(answer)
        source.answered(pulled, process.next_offset)
        following = pulled.next_offset
        if pulled.status is PullStatus.OFFSET_ILLEGAL and following >= 0:
            self._moved(process, following)
            return []
        messages: list[ReceivedMessage] = []
        if following < process.next_offset:
            raise ProtocolError(f"a pull at {process.next_offset} continues at {following}")
        if pulled.status is PullStatus.FOUND:
            pulled.next_beyond(process.next_offset)
            room = Room(cuts=True)
            messages = read_messages(
                self._group, queue, pulled.body, process.next_offset, sub, room
            )
            following = room.next_offset(process.next_offset, following)
            took = trio.current_time() - began
            self._statistics.of(queue.topic).pulled(len(messages), took)
        process.advance(following)
        return messages


def read_messages(
    group: str, queue: MessageQueue, body: bytes, start: int, sub: Subscription, room: Room
) -> list[ReceivedMessage]:
    """The messages of a pull's answer that are wanted, as far as there is `room`. One that was sent
    back has the topic that it had. An inner batch comes whole, also when the pull began in the
    middle of it."""
    report = partial(report_damage, queue)
    messages = decode_records(body, report, broker_name=queue.broker_name, room=room)
    if messages and messages[0].queue_offset < start:
        messages = [message for message in messages if message.queue_offset >= start]
    if sub.tags:
        messages = [message for message in messages if sub.wants(message.tags)]
    if queue.topic.startswith(RETRY_PREFIX):
        for message in messages:
            restore_topic(message, group)
    return messages


def restore_topic(message: ReceivedMessage, group: str) -> None:
    """A message of a retry topic of the group gets the topic that it was sent to."""
    if message.topic.startswith(RETRY_PREFIX):
        original = message.properties.get(RETRY_TOPIC)
        message.topic = original or normal_topic(message.topic, group)


def report_damage(queue: MessageQueue, error: ProtocolError) -> None:
    """Logs that a message of an answer cannot be read."""
    log.error(
        "%s queue %d: a damaged message is left out: %s",
        escape(queue.topic),
        queue.queue_id,
        escape(error),
        extra=about(queue=queue),
    )
