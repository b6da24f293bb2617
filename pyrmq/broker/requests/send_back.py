"""CONSUMER_SEND_MSG_BACK: a message that a consumer could not deal with goes to its group's retry
topic after a delay, or to its dead-letter topic.
[AbstractSendMessageProcessor.consumerSendMsgBack]

The delay is the level that the consumer names, or 3 plus the retries there were. groupRetryPolicy
of the group has no say in it, as in RocketMQ, where only proxies apply it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.requests import fields
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.broker.tables.groups import Group, GroupTable
from pyrmq.broker.tables.topic_creation import Topics
from pyrmq.engine import Command, Delays, Returned
from pyrmq.errors import (
    MessageIllegalError,
    NoPermissionError,
    ResponseError,
    ServiceNotAvailableError,
    SystemBusyError,
)
from pyrmq.escape import escape
from pyrmq.model.codes import ResponseCode
from pyrmq.model.names import DLQ_PREFIX, RETRY_PREFIX, retry_topic
from pyrmq.model.topic import PERM_WRITE, TopicConfig
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere, WhenConfirmed
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)

FIRST_LEVEL = 3
"""Delay level of the first retry, where the consumer leaves it to the broker."""
HIGHEST_LEVEL = 1024
"""More than any broker has; a level above the highest counts as that one."""
DISK_READERS = 16
"""Messages that are read from the disk at a time."""


@dataclass(frozen=True, slots=True)
class SendBack:
    """A request, as it was checked."""

    connection: Connection
    group: Group
    offset: int
    delay_level: int
    """0: the broker's choice; negative: it is not to be retried."""
    max_times: int
    unit: bool
    topic: str
    """The topic that the message was consumed from, for statistics."""


class SendBackProcessor:
    def __init__(
        self,
        config: LiveConfig,
        topics: Topics,
        groups: GroupTable,
        engine: Delays,
        stats: BrokerStats,
    ) -> None:
        self._config = config
        self._topics = topics.table
        self._creation = topics.creation
        self._groups = groups
        self._engine = engine
        self._stats = stats
        self._readers = trio.CapacityLimiter(DISK_READERS)

    def __call__(
        self, connection: Connection, command: Command
    ) -> Response | WhenConfirmed | Elsewhere:
        asked = self._check(connection, command)
        if asked.group.retry_queue_nums <= 0:
            return Response()  # the group wants no retries: it is as good as consumed
        known, returned = self._engine.find_returned(asked.offset, False)
        if not known:
            return Elsewhere(self._from_disk(asked))
        return self._send(asked, returned)

    def _check(self, connection: Connection, command: Command) -> SendBack:
        name = fields.text(command, "group")
        offset = fields.int64(command, "offset")
        level = fields.int32(command, "delayLevel")
        group = self._groups.admit(name, connection)
        if not self._config.now.broker_permission & PERM_WRITE:
            raise NoPermissionError(
                f"the broker[{self._config.now.broker_name}] sending message is forbidden"
            )
        if offset < 0:
            raise self._no_message(offset)
        most = fields.int32(command, "maxReconsumeTimes", group.retry_max_times)
        unit = fields.flag(command, "unitMode")
        topic = command.ext.get("originTopic", "")
        if self._topics.get(topic) is None:  # an older client, or one that makes names up
            topic = retry_topic(group.name)
        return SendBack(connection, group, offset, level, most, unit, topic)

    def _no_message(self, offset: int) -> ResponseError:
        text = f"look message by offset failed, {offset}"
        return ResponseError(text, ResponseCode.SYSTEM_ERROR)

    async def _from_disk(self, asked: SendBack) -> WhenConfirmed:
        _, returned = await trio.to_thread.run_sync(
            self._engine.find_returned, asked.offset, True, limiter=self._readers
        )
        return await self._send_when_saved(asked, *self._destination(asked, returned))

    def _send(self, asked: SendBack, returned: Returned | None) -> WhenConfirmed | Elsewhere:
        found, topic, level = self._destination(asked, returned)
        if not self._topics.is_saved(topic.topic_name):
            return Elsewhere(self._send_when_saved(asked, found, topic, level))
        return self._store(asked, found, topic, level)

    async def _send_when_saved(
        self, asked: SendBack, returned: Returned, topic: TopicConfig, level: int
    ) -> WhenConfirmed:
        """A topic takes messages once it is in its file."""
        if not self._topics.is_saved(topic.topic_name):
            await self._topics.saved(topic.topic_name)
        return self._store(asked, returned, topic, level)

    def _destination(
        self, asked: SendBack, returned: Returned | None
    ) -> tuple[Returned, TopicConfig, int]:
        """The message, its topic, made if it is new, and the delay level."""
        if returned is None:
            raise self._no_message(asked.offset)
        times = returned.reconsume_times
        if times >= asked.max_times or asked.delay_level < 0:
            name, queues, level = DLQ_PREFIX + asked.group.name, 1, 0
        else:
            name, queues = RETRY_PREFIX + asked.group.name, asked.group.retry_queue_nums
            level = asked.delay_level or min(FIRST_LEVEL + times, HIGHEST_LEVEL)
        with _one_code():  # else nothing is made for it
            has_room = self._engine.has_room(returned, name, level)
        if not has_room:
            log.error(
                "the message at physical offset %d cannot be retried by group %s, it goes to the "
                "dead-letter topic at once: its properties leave no room for what a retry adds",
                asked.offset, escape(asked.group.name),
            )  # fmt: skip
            name, queues, level = DLQ_PREFIX + asked.group.name, 1, 0
        topic = self._topics.get(name)
        if topic is not None and not topic.writable:
            raise NoPermissionError(f"the topic[{name}] sending message is forbidden")
        self._groups.require(asked.group.name, asked.connection)
        if topic is None:
            topic = self._creation.create_send_back(name, queues, unit=asked.unit and level > 0)
        return returned, topic, level

    def _store(
        self, asked: SendBack, returned: Returned, topic: TopicConfig, level: int
    ) -> WhenConfirmed:
        read = min(topic.write_queue_nums, topic.read_queue_nums)
        queue_id = random.randrange(max(read, 1))
        with _one_code():
            end = self._engine.send_back(returned, topic.topic_name, queue_id, level)
        dead = topic.topic_name.startswith(DLQ_PREFIX)
        self._stats.sent_back(asked.topic, asked.group.name, dead=dead)
        return WhenConfirmed(Response(), end)


@contextmanager
def _one_code() -> Iterator[None]:
    """RocketMQ has one code for all that the store refuses; the client then sends the message by
    itself."""
    try:
        yield
    except (MessageIllegalError, SystemBusyError, ServiceNotAvailableError) as e:
        raise ResponseError(str(e), ResponseCode.SYSTEM_ERROR) from e
