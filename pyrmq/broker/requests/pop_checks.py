"""The checks of requests about POP, in RocketMQ's order."""

from __future__ import annotations

from dataclasses import dataclass

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.requests import fields
from pyrmq.broker.tables.groups import Group, GroupTable
from pyrmq.broker.tables.order_batch import MAX_ATTEMPT_ID
from pyrmq.broker.tables.topics import TopicTable, no_topic
from pyrmq.engine import Command, Store
from pyrmq.errors import (
    InvalidParameterError,
    MessageIllegalError,
    NoPermissionError,
    ProtocolError,
    ResponseError,
)
from pyrmq.model.codes import ResponseCode
from pyrmq.model.names import check_group
from pyrmq.model.pop import ORDERLY, ExtraInfo
from pyrmq.model.topic import PERM_READ, TopicConfig
from pyrmq.net.clock import machine_ms, now_ms
from pyrmq.net.server.connection import Connection

CLOCK_SLACK = 600_000
"""ms that a pop time may lie ahead of the clock, which may have been set back; as in the engine."""
MOST_TIME = 1 << 62
"""A time in a request is below it, ms."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Who asks for messages of what."""

    group: Group
    topic: TopicConfig
    queue_id: int

    @property
    def names(self) -> tuple[str, str]:
        return self.topic.topic_name, self.group.name


class PopChecks:
    def __init__(
        self, live: LiveConfig, store: Store, topics: TopicTable, groups: GroupTable
    ) -> None:
        self.live = live
        self._store = store
        self._topics = topics
        self.groups = groups

    def may_read(self, what: str) -> None:
        """NoPermissionError where consumers may not read at all. `what` they would do."""
        config = self.live.now
        if not config.broker_permission & PERM_READ:
            raise NoPermissionError(f"the broker[{config.broker_name}] {what} is forbidden")

    def topic_of(self, topic: str, queue_id: int) -> TopicConfig:
        """A topic that may be read, and has the queue (below 0: all of them)."""
        known = self._topics.get(topic)
        if known is None:
            raise no_topic(topic)
        if not known.readable:
            raise NoPermissionError(f"the topic[{topic}] peeking message is forbidden")
        if queue_id >= known.read_queue_nums:
            raise InvalidParameterError(
                f"queueId[{queue_id}] is illegal, topic:[{topic}] "
                f"topicConfig.readQueueNums:[{known.read_queue_nums}]"
            )
        return known

    def has(self, topic: str, queue_id: int) -> bool:
        """Whether there is such a queue to read."""
        known = self._topics.get(topic)
        return known is not None and queue_id < known.read_queue_nums

    def group_of(self, name: str, connection: Connection) -> Group:
        """A group that may consume; made if that is allowed."""
        if not self.groups.admit(name, connection).enabled("consumeEnable"):
            raise NoPermissionError(f"subscription group no permission, {name}")
        return self.groups.require(name, connection)

    def reader(self, connection: Connection, command: Command, what: str) -> Reader:
        """Who asks with PEEK_MESSAGE, NOTIFICATION or POLLING_INFO."""
        group = fields.text(command, "consumerGroup")
        topic = fields.text(command, "topic")
        queue_id = fields.int32(command, "queueId")
        self.may_read(what)
        known = self.topic_of(topic, queue_id)
        return Reader(self.group_of(group, connection), known, queue_id)

    def read_again(self, reader: Reader) -> None:
        """The same again, for a request that waits: things may have changed."""
        self.may_read("pop message")
        self.topic_of(reader.topic.topic_name, reader.queue_id)
        known = self.groups.groups.get(reader.group.name)
        if known is None or not known.enabled("consumeEnable"):
            raise NoPermissionError(f"subscription group no permission, {reader.group.name}")

    def invisible_time(self, command: Command, *, least: int = 0) -> int:
        """ms for which messages become invisible: they wait for it as timer messages do."""
        value = fields.int64(command, "invisibleTime")
        most = 1000 * self.live.now.timer_max_delay_sec
        if not least <= value <= most:
            raise InvalidParameterError(
                f"invisibleTime {value} is illegal: {least} to {most} ms (timerMaxDelaySec)"
            )
        return value

    def handle(self, command: Command, *, end: int) -> tuple[str, str, int, int, ExtraInfo]:
        """Group, topic, queue, offset and handle of a message that was popped. Its offset is below
        the end of the queue plus `end`."""
        group = fields.text(command, "consumerGroup")
        topic = fields.text(command, "topic")
        queue_id = fields.int32(command, "queueId")
        text = fields.text(command, "extraInfo")
        offset = fields.int64(command, "offset")
        known = self._topics.get(topic)
        if known is None:
            raise no_topic(topic)
        if not 0 <= queue_id < known.read_queue_nums:
            raise MessageIllegalError(
                f"queueId[{queue_id}] is illegal, topic:[{topic}] "
                f"topicConfig.readQueueNums:[{known.read_queue_nums}]"
            )
        low, high = self._store.queue_range(topic, queue_id)
        if not low <= offset < high + end:
            raise ResponseError(
                f"offset is illegal, key:{topic}@{queue_id}, commit:{offset}, store:{low}~{high}",
                ResponseCode.NO_MESSAGE,
            )
        check_group(group)
        if command.ext.get("liteTopic"):
            raise InvalidParameterError(
                f"liteTopic: group[{group}] has no lite topics, this broker has none at all"
            )
        try:
            handle = ExtraInfo.parse(text)
        except ProtocolError as e:
            raise MessageIllegalError(f"extraInfo is illegal: {e}") from None
        self.check_handle(handle, queue_id, offset)
        return group, topic, queue_id, offset, handle

    def check_handle(self, handle: ExtraInfo, queue_id: int, offset: int) -> None:
        """MESSAGE_ILLEGAL for a handle that is of another message, or that this broker has not
        given."""
        if (handle.queue_id, handle.offset) != (queue_id, offset) or handle.start > offset:
            raise MessageIllegalError(
                f"extraInfo is of the message {handle.offset} of queue {handle.queue_id}, not of "
                f"{offset} of queue {queue_id}"
            )
        self.check_given(handle.broker_name, handle.pop_time, handle.revive_queue)

    def check_given(self, broker_name: str, pop_time: int, revive_queue: int) -> None:
        """The same for what handles and batches of acks say."""
        name = self.live.now.broker_name
        if broker_name != name:
            raise MessageIllegalError(
                f"extraInfo is of broker {broker_name[:100]!r}, this one is {name!r}"
            )
        if pop_time > now_ms() + CLOCK_SLACK:
            raise MessageIllegalError(f"extraInfo has a pop time to come: {pop_time}")
        queues = self.live.now.revive_queue_num
        if not 0 <= revive_queue < queues and revive_queue != ORDERLY:
            raise MessageIllegalError(
                f"extraInfo has a revive queue {revive_queue}: this broker has {queues}"
            )


def born_and_poll_time(command: Command) -> tuple[int, int]:
    """When a client began to ask, by its machine's clock, and how long it waits, ms.
    InvalidParameterError."""
    poll = fields.int64(command, "pollTime")
    born = fields.int64(command, "bornTime", 0) or machine_ms()
    if abs(born) >= MOST_TIME or abs(poll) >= MOST_TIME:
        raise InvalidParameterError(f"pollTime {poll} and bornTime {born} are illegal: ms expected")
    return born, poll


def attempt_of(command: Command) -> str | None:
    """The attempt id, as much of it as is kept: a request that waits takes no more memory."""
    return command.ext.get("attemptId", "")[:MAX_ATTEMPT_ID] or None
