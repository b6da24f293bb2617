"""Sends that the engine leaves to the broker. [SendMessageProcessor]

New messages: unknown topics, retry topics, and halves that are refused. Nothing is stored here; the
answer is a decision, which the session acts on.

CONSUMER_SEND_MSG_BACK: a message that a consumer could not deal with goes to its group's retry
topic after a delay, or to its dead-letter topic. [AbstractSendMessageProcessor.consumerSendMsgBack]
The delay is the level that the consumer names, or 3 plus the retries there were. groupRetryPolicy
of the group has no say in it, as in RocketMQ, where only proxies apply it."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.requests import fields
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.broker.tables.groups import Group, GroupTable
from pyrmq.broker.tables.locks import QueueLocks
from pyrmq.broker.tables.topic_creation import Topics
from pyrmq.broker.tables.topics import check_sendable, no_topic
from pyrmq.engine import Command, Delays, Returned
from pyrmq.errors import (
    MessageIllegalError,
    NoPermissionError,
    ResponseError,
    ServiceNotAvailableError,
    SystemBusyError,
)
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.names import DLQ_PREFIX, RETRY_PREFIX, check_topic, retry_topic
from pyrmq.model.properties import DELAY, TIMER_ORDER, TIMER_OUT_MS, decode_properties
from pyrmq.model.route import DEFAULT_QUEUES
from pyrmq.model.topic import PERM_WRITE, TopicConfig
from pyrmq.model.transaction import TRAN_MSG
from pyrmq.net.command import Response
from pyrmq.net.server.answers import After, Answer, Elsewhere, Resend, WhenConfirmed
from pyrmq.net.server.connection import Connection

_TRANSACTION_BITS = 0xC
_LEVEL = re.compile(r"[ \t\n\f\r]*[+-]?[0-9]{1,19}[ \t\n\f\r]*")
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
"""As the engine reads them."""


def is_delayed(properties: dict[str, str]) -> bool:
    """Whether DELAY asks for a delay; MessageIllegalError if it is no number."""
    level = properties.get(DELAY, "0")
    if not _LEVEL.fullmatch(level) or not -(1 << 63) <= int(level) < 1 << 63:
        raise MessageIllegalError(f"property DELAY={level[:32]!r} is no delay level")
    return int(level) > 0


def check_timer(properties: dict[str, str], enabled: bool) -> None:
    """Refuses timer messages for which no topic is made. Of several properties the one that counts
    is looked at. [HookUtils.transformTimerMessage]"""
    if not enabled:
        raise ResponseError(
            "accurate timer message is not enabled, timerWheelEnable is false",
            ResponseCode.SYSTEM_ERROR,
        )
    for name in TIMER_ORDER:
        if name in properties:
            if not _NUMBER.fullmatch(properties[name]):
                raise MessageIllegalError(
                    f"timer message illegal, property {name}={properties[name][:32]!r} is no number"
                )
            return


def _is_batch(command: Command) -> bool:
    return (
        command.code == RequestCode.SEND_BATCH_MESSAGE
        or fields.send_text(command, "batch", "false").lower() == "true"
    )


class SendProcessor:
    """Decides what the engine does not: each answer is a refusal, or has the session handle the
    frame again, with what was decided, once the topic is in its file."""

    def __init__(
        self, live: LiveConfig, topics: Topics, groups: GroupTable, locks: QueueLocks
    ) -> None:
        self._live = live
        self._config = live.now
        self._topics = topics.table
        self._creation = topics.creation
        self._groups = groups
        self._locks = locks

    def __call__(self, connection: Connection, command: Command) -> Answer:
        try:
            return self._send(connection, command)
        except ResponseError as e:
            return self._refusal(e)

    def _refusal(self, error: ResponseError) -> Response:
        return Response(error.code or ResponseCode.SYSTEM_ERROR, error.args[0], self._region())

    def _region(self) -> dict[str, str]:
        return {
            "MSG_REGION": self._config.region_id,
            "TRACE_ON": "true" if self._config.trace_on else "false",
        }

    def _send(self, connection: Connection, command: Command) -> Answer:
        topic = fields.send_text(command, "topic")
        if not self._live.now.broker_permission & PERM_WRITE:
            raise NoPermissionError(
                f"the broker[{self._config.broker_name}] sending message is forbidden: "
                "brokerPermission is without 2 (write)"
            )
        check_topic(topic)
        check_sendable(topic)
        properties = decode_properties(fields.send_text(command, "properties", ""))
        if topic.startswith(RETRY_PREFIX):
            return self._send_back(connection, command, topic, properties)
        self._refuse_special(command, properties)
        if self._topics.get(topic) is None:
            created = self._creation.create_in_send(
                topic,
                # A sender that names no template wants no topic made.
                fields.send_text(command, "defaultTopic", ""),
                fields.send_number(command, "defaultTopicQueueNums", str(DEFAULT_QUEUES)),
                fields.send_text(command, "unitMode", "false").lower() == "true",
                by=connection,
            )
            if created is None:
                raise no_topic(topic)
        assert command.frame is not None
        return self._when_saved(topic, Resend(command.frame))

    def _when_saved(self, topic: str, then: Resend) -> Answer:
        """A topic takes messages once it is in its file."""
        if self._topics.is_saved(topic):
            return then
        return After(
            topic,
            partial(self._topics.saved, topic),
            then,
            failed=partial(self._not_saved, topic),
            busy=partial(self._busy, topic),
        )

    def _not_saved(self, topic: str, error: Exception) -> Response:
        why = error.strerror if isinstance(error, OSError) else str(error)
        text = f"topic[{topic}] cannot be saved: {why}"
        return Response(ResponseCode.SERVICE_NOT_AVAILABLE, text, self._region())

    def _busy(self, topic: str) -> Response:
        text = f"[OVERLOAD]too many messages wait until topic[{topic}] is created: try again"
        return Response(ResponseCode.SYSTEM_BUSY, text, self._region())

    def _refuse_special(self, command: Command, properties: dict[str, str]) -> None:
        half = properties.get(TRAN_MSG, "").lower() == "true"
        if half and self._config.reject_transaction_message:
            raise NoPermissionError(
                f"the broker[{self._config.broker_name}] sending transaction message is forbidden"
            )
        if half and _is_batch(command):
            raise MessageIllegalError(
                f"property {TRAN_MSG}: a batch cannot be sent in a transaction"
            )
        retried = fields.send_text(command, "topic").startswith(RETRY_PREFIX)
        if not (half or retried) and fields.send_number(command, "sysFlag") & _TRANSACTION_BITS:
            raise MessageIllegalError("sysFlag has transaction bits but TRAN_MSG is not set")
        delayed = is_delayed(properties)
        if delayed and _is_batch(command):
            raise MessageIllegalError("a batch cannot be delayed")
        asked = () if delayed or TIMER_OUT_MS in properties else TIMER_ORDER
        timers = [name for name in asked if name in properties]
        if timers and _is_batch(command):
            raise MessageIllegalError("a batch cannot be delayed")
        if half and (delayed or timers):
            name = DELAY if delayed else timers[0]
            raise MessageIllegalError(f"property {name}: a half message cannot be delayed")
        if timers:
            check_timer(properties, self._config.timer_wheel_enable)

    def _send_back(
        self, connection: Connection, command: Command, topic: str, properties: dict[str, str]
    ) -> Answer:
        """A message for a group's retry topic, or its dead-letter topic. [handleRetryAndDLQ]"""
        name = topic[len(RETRY_PREFIX) :]
        group = self._groups.admit(name, connection)
        if not command.body:
            raise MessageIllegalError("the message has no body")
        times = fields.send_number(command, "reconsumeTimes", "0")
        most = fields.send_number(command, "maxReconsumeTimes", str(group.retry_max_times))
        # An orderly consumer (it holds locks) sends back only what it has given up.
        dead = times > most or self._locks.any_live(name, trio.current_time())
        properties.pop(TRAN_MSG, None)  # a committed message that comes back is no half
        if dead:
            properties.pop(DELAY, None)  # dead letters are not retried, and do not wait
            properties = {name: v for name, v in properties.items() if name not in TIMER_ORDER}
        self._refuse_special(command, properties)
        self._groups.require(name, connection)
        target = (
            self._creation.create_send_back(DLQ_PREFIX + name, 1)
            if dead
            else self._creation.create_send_back(topic, group.retry_queue_nums)
        )
        assert command.frame is not None
        then = Resend(command.frame, target.topic_name, dead)
        return self._when_saved(target.topic_name, then)


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
                asked.offset,
                escape(asked.group.name),
                extra=about(group=asked.group.name),
            )
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
