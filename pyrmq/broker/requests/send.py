"""Decisions on sends that the engine leaves to the broker: unknown topics, retry topics, and what
this version refuses. Nothing is stored here. [SendMessageProcessor]"""

from __future__ import annotations

import re
from functools import partial

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.requests import fields
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.locks import QueueLocks
from pyrmq.broker.tables.topic_creation import Topics
from pyrmq.broker.tables.topics import check_sendable, no_topic
from pyrmq.engine import Command
from pyrmq.errors import MessageIllegalError, NoPermissionError, ResponseError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.names import DLQ_PREFIX, RETRY_PREFIX, check_topic
from pyrmq.model.properties import DELAY, TIMER_PROPERTIES, decode_properties
from pyrmq.model.route import DEFAULT_QUEUES
from pyrmq.model.topic import PERM_WRITE
from pyrmq.model.transaction import TRAN_MSG
from pyrmq.net.command import Response
from pyrmq.net.server.answers import After, Answer, Resend
from pyrmq.net.server.connection import Connection

_TRANSACTION_BITS = 0xC
_LEVEL = re.compile(r"[ \t\n\f\r]*[+-]?[0-9]{1,19}[ \t\n\f\r]*")
"""As the engine reads it."""


def is_delayed(properties: dict[str, str]) -> bool:
    """Whether DELAY asks for a delay; MessageIllegalError if it is no number."""
    level = properties.get(DELAY, "0")
    if not _LEVEL.fullmatch(level) or not -(1 << 63) <= int(level) < 1 << 63:
        raise MessageIllegalError(f"property DELAY={level[:32]!r} is no delay level")
    return int(level) > 0


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
        timers = TIMER_PROPERTIES & properties.keys()
        if half and (delayed or timers):
            name = next(iter(timers), DELAY)
            raise MessageIllegalError(f"property {name}: a half message cannot be delayed")
        if timers and not delayed:
            raise MessageIllegalError(
                f"property {next(iter(timers))}: timer messages are not supported by this version, "
                "delay levels (property DELAY) are"
            )

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
            properties.pop(DELAY, None)  # dead letters are not retried
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
