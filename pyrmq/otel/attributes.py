"""Attributes of spans and metrics: the semantic conventions for messaging and for RocketMQ."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pyrmq.client.telemetry import ClientInfo, Operation, Work
from pyrmq.errors import NotSentError, ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.message import Message, MessageQueue, SendResult, SendStatus
from pyrmq.model.properties import (
    DELAY,
    SHARDING_KEY,
    TIMER_DELIVER_MS,
)
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.transaction import TRAN_MSG

SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
SYSTEM = "messaging.system"
OPERATION, OPERATION_TYPE = "messaging.operation.name", "messaging.operation.type"
DESTINATION = "messaging.destination.name"
PARTITION = "messaging.destination.partition.id"
CONSUMER_GROUP = "messaging.consumer.group.name"
CLIENT_GROUP = "messaging.rocketmq.client_group"
CLIENT_ID = "messaging.client.id"
NAMESPACE = "messaging.rocketmq.namespace"
MODEL = "messaging.rocketmq.consumption_model"
COUNT = "messaging.batch.message_count"
MESSAGE_ID = "messaging.message.id"
CONVERSATION = "messaging.message.conversation_id"
KEYS = "messaging.rocketmq.message.keys"
TAG = "messaging.rocketmq.message.tag"
TYPE = "messaging.rocketmq.message.type"
ORDER_GROUP = "messaging.rocketmq.message.group"
DELAY_LEVEL = "messaging.rocketmq.message.delay_time_level"
DELIVERY_TIME = "messaging.rocketmq.message.delivery_timestamp"
SEND_RESULT = "messaging.rocketmq.send_result"
SERVER, PORT = "server.address", "server.port"
ERROR = "error.type"
STATE = "pyrmq.transaction.state"
"""COMMIT, ROLLBACK or UNKNOWN; the conventions have no name for it."""
CORRELATION_ID = "CORRELATION_ID"
RETRY_TOPIC = "RETRY_TOPIC"
MAX_TEXT = 1024
"""Characters of a value that a sender chose."""
MAX_KEYS = 64

TYPES = {
    Work.CREATE: "create",
    Work.SEND: "send",
    Work.REQUEST: "send",
    Work.RECEIVE: "receive",
    Work.PROCESS: "process",
    Work.CHECK: "process",
    Work.ACK: "settle",
    Work.CHANGE_INVISIBLE: "settle",
    Work.SEND_BACK: "settle",
    Work.COMMIT: "settle",
    Work.END: "settle",
}
"""messaging.operation.type; the others have none."""
Attributes = dict[str, Any]
_CODES = frozenset(code.value for code in ResponseCode)


def operation_name(operation: Operation) -> str:
    """messaging.operation.name. The end of a transaction is named for its outcome."""
    if operation.work is Work.END and operation.result is not None:
        return str(operation.result.state.name).lower()
    return operation.work.value


def of_client(client: ClientInfo) -> Attributes:
    """What all spans of a client have."""
    found: Attributes = {
        SYSTEM: "rocketmq",
        NAMESPACE: client.namespace,
        CLIENT_ID: client.client_id,
    }
    if client.consumes:
        found[CONSUMER_GROUP] = client.group
        found[MODEL] = "broadcasting" if client.broadcasting else "clustering"
    else:
        found[CLIENT_GROUP] = client.group
    return found


def of_message(message: Message | ReceivedMessage, ordering_key: str | None = None) -> Attributes:
    """What is said of a single message."""
    found: Attributes = {}
    properties = message.properties
    if isinstance(message, ReceivedMessage):
        found[MESSAGE_ID] = text(message.msg_id)
        _add_delay_of_received(found, message)
        keys: Sequence[str] = message.keys
        found[PARTITION] = partition(message.broker_name, message.queue_id)
        add_address(found, message.store_host)
    else:
        _add_delay(found, message)
        keys = message.keys.split(" ") if isinstance(message.keys, str) else message.keys or ()
    if message.tags:
        found[TAG] = text(message.tags)
    if keys:
        found[KEYS] = [text(key) for key in keys[:MAX_KEYS] if key]
    order = ordering_key or properties.get(SHARDING_KEY)
    if order:
        found[ORDER_GROUP] = text(order)
    if CORRELATION_ID in properties:
        found[CONVERSATION] = text(properties[CORRELATION_ID])
    if TRAN_MSG in properties:
        found[TYPE] = "transaction"
    elif DELAY_LEVEL in found or DELIVERY_TIME in found:
        found[TYPE] = "delay"
    else:
        found[TYPE] = "fifo" if order else "normal"
    return found


def _add_delay(found: Attributes, message: Message) -> None:
    if message.delay_time_level:
        found[DELAY_LEVEL] = message.delay_time_level
    elif message.deliver_at is not None:
        at = message.deliver_at
        found[DELIVERY_TIME] = round((at.timestamp() if isinstance(at, datetime) else at) * 1000)
    elif message.delay:
        delay = message.delay
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
        found[DELIVERY_TIME] = round((time.time() + seconds) * 1000)
    else:
        _add_level(found, message.properties)


def _add_level(found: Attributes, properties: Mapping[str, str]) -> None:
    level = properties.get(DELAY, "")
    if level.isascii() and level.isdecimal() and len(level) < 10 and int(level) > 0:
        found[DELAY_LEVEL] = int(level)


def _add_delay_of_received(found: Attributes, message: ReceivedMessage) -> None:
    properties = message.properties
    if RETRY_TOPIC in properties:
        return  # that is the delay of the retry
    at = properties.get(TIMER_DELIVER_MS, "")
    if at.isascii() and at.isdecimal() and len(at) < 16:
        found[DELIVERY_TIME] = int(at)
    else:
        _add_level(found, properties)


def text(value: str) -> str:
    """A value that a sender chose, as exporters take it: not too long, and without lone
    surrogates."""
    value = value[:MAX_TEXT]
    return value if value.isascii() else value.encode(errors="replace").decode()


def partition(broker_name: str, queue_id: int) -> str:
    """A queue within its topic."""
    return f"{broker_name}/{queue_id}"


def add_address(found: Attributes, address: str) -> None:
    """`host:port` of a broker, if it is known."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        found[SERVER] = host.strip("[]")
        found[PORT] = int(port)


def server_of(operation: Operation) -> str:
    """`host:port` of the broker that an operation was with; empty if it is not known."""
    result = operation.result
    if isinstance(result, SendResult) and operation.work is not Work.TRANSACTION:
        return operation.client.address_of(result.queue)
    first = operation.messages[0] if operation.messages else None
    return first.store_host if isinstance(first, ReceivedMessage) else ""


def of_result(operation: Operation) -> Attributes:
    """What is known when an operation has ended well."""
    result = operation.result
    found: Attributes = {}
    if isinstance(result, SendResult) and operation.work is not Work.TRANSACTION:
        if not operation.batch:
            found[MESSAGE_ID] = result.msg_id
        queue: MessageQueue = result.queue
        found[PARTITION] = partition(queue.broker_name, queue.queue_id)
        add_address(found, server_of(operation))
        if result.status is not SendStatus.SEND_OK:
            found[SEND_RESULT] = result.status.name
    elif isinstance(result, ReceivedMessage):
        conversation = result.properties.get(CORRELATION_ID)
        if conversation:
            found[CONVERSATION] = text(conversation)
    state = getattr(result, "local_state", None) or getattr(result, "state", None)
    if state is not None:
        found[STATE] = state.name
    return found


def error_type(operation: Operation) -> str | None:
    """error.type: the name of a broker's code, the class of another error, or what a listener
    answered; None without a failure."""
    error = error_of(operation)
    if error is None:
        return operation.failure or None
    if isinstance(error, ResponseError) and not isinstance(error, NotSentError):
        code = error.code
        return ResponseCode(code).name if code in _CODES else str(code)
    return type(error).__qualname__


def error_of(operation: Operation) -> BaseException | None:
    """The error of an operation, or that of the local transaction or check in it."""
    if operation.error is not None:
        return operation.error
    if operation.work in (Work.EXECUTE, Work.CHECK):
        found: Exception | None = getattr(operation.result, "error", None)
        return found
    return None
