"""RECALL_MESSAGE: a producer takes back a timer message that waits. [RecallMessageProcessor]

A recall is a timer message itself, due with the one that it is about, and says whose key it ends.
The timers leave both out when their time comes. So the answer does not say whether the message was
still there: the code is SUCCESS for every handle whose time is to come."""

from __future__ import annotations

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.requests import fields
from pyrmq.broker.tables.topics import TopicTable, check_sendable, is_plain
from pyrmq.engine import Command, Store
from pyrmq.errors import (
    IllegalOperationError,
    MessageIllegalError,
    NoPermissionError,
    PyrmqError,
    ResponseError,
    ServiceNotAvailableError,
    TopicNotExistError,
)
from pyrmq.model.codes import ResponseCode
from pyrmq.model.names import TIMER_TOPIC, check_group
from pyrmq.model.properties import (
    BORN_TIMESTAMP,
    PRODUCER_GROUP,
    REAL_QID,
    REAL_TOPIC,
    TAGS,
    TIMER_DEL_UNIQKEY,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    UNIQ_KEY,
    encode_properties,
)
from pyrmq.model.recall import RECALL_BODY, RECALL_TAG, RecallHandle
from pyrmq.model.topic import PERM_WRITE, type_conflict
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response
from pyrmq.net.server.answers import WhenConfirmed
from pyrmq.net.server.connection import Connection

DELAY = "DELAY"
"""The type of messages that can be recalled."""
_NOT_AVAILABLE = "recall failed, broker service not available"


class RecallProcessor:
    def __init__(self, live: LiveConfig, store: Store, topics: TopicTable) -> None:
        self._live = live
        self._store = store
        self._topics = topics

    def __call__(self, connection: Connection, command: Command) -> Response | WhenConfirmed:
        region = {"MSG_REGION": self._live.now.region_id}
        try:
            handle, end = self._recall(connection, command)
        except ResponseError as e:
            return Response(e.code or ResponseCode.SYSTEM_ERROR, e.args[0], region)
        return WhenConfirmed(Response(ext=region | {"msgId": handle.key}), end)

    def _recall(self, connection: Connection, command: Command) -> tuple[RecallHandle, int]:
        """Sets the recall. Returns where its record ends."""
        config = self._live.now
        self._check_broker(config)
        topic = fields.text(command, "topic")
        group = command.ext.get("producerGroup", "")
        text = fields.text(command, "recallHandle")
        self._check_topic(config, topic)
        if group:
            check_group(group)
        handle = RecallHandle.parse(text)
        if handle.topic != topic:
            raise IllegalOperationError("recall failed, topic not match")
        if handle.broker_name != config.broker_name:
            raise IllegalOperationError(_NOT_AVAILABLE)
        now = now_ms()
        if not 0 < handle.deliver_ms - now < config.timer_max_delay_sec * 1000:
            raise IllegalOperationError("recall failed, timestamp invalid")
        properties = recall_properties(config, handle, group, now)
        try:
            phys, size, _, _ = self._store.put(
                TIMER_TOPIC,
                0,
                RECALL_BODY,
                properties,
                born_timestamp=now,
                born_host=connection.peer,
            )
        except PyrmqError as e:
            text = f"recall failed, execute error: {e}"
            raise ResponseError(text, ResponseCode.SYSTEM_ERROR) from e
        return handle, phys + size

    def _check_broker(self, config: BrokerConfig) -> None:
        if not config.recall_message_enable:
            raise NoPermissionError(
                "recall failed, operation is forbidden: recallMessageEnable is false"
            )
        if config.is_slave:
            raise ResponseError(_NOT_AVAILABLE, ResponseCode.SLAVE_NOT_AVAILABLE)
        writable = config.broker_permission & PERM_WRITE
        if not writable and not config.allow_recall_when_broker_not_writeable:
            raise ServiceNotAvailableError(_NOT_AVAILABLE)
        if not config.timer_wheel_enable:
            raise ResponseError(
                "recall failed, execute error: timerWheelEnable is false", ResponseCode.SYSTEM_ERROR
            )

    def _check_topic(self, config: BrokerConfig, topic: str) -> None:
        known = self._topics.get(topic)
        if known is None:
            raise TopicNotExistError(f"recall failed, the topic[{topic[:255]}] not exist")
        check_sendable(topic)
        if config.enable_topic_message_type_check and is_plain(topic):
            conflict = type_conflict(known.message_type, DELAY)
            if conflict:
                raise MessageIllegalError(conflict)


def recall_properties(config: BrokerConfig, handle: RecallHandle, group: str, now: int) -> str:
    """The properties of the record that recalls a message. The handle may be forged: what has no
    place in properties is refused."""
    key = handle.key
    if config.append_topic_for_timer_delete_key:
        key = f"{handle.topic}+{key}"
    precision = config.timer_precision_ms
    all_of_them = {
        TAGS: RECALL_TAG,
        TIMER_DEL_UNIQKEY: key,
        UNIQ_KEY: handle.key,
        TIMER_DELIVER_MS: str(handle.deliver_ms),
        BORN_TIMESTAMP: str(now),
        PRODUCER_GROUP: group,
        TIMER_OUT_MS: str(handle.deliver_ms - (handle.deliver_ms % precision or precision)),
        REAL_TOPIC: handle.topic,
        REAL_QID: "0",
    }
    try:
        return encode_properties({name: value for name, value in all_of_them.items() if value})
    except MessageIllegalError:
        raise IllegalOperationError("recall handle is invalid") from None
