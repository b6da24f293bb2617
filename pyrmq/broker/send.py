"""Sends that the engine leaves to the broker: unknown topics, retry topics, and what this version
refuses. [SendMessageProcessor]"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from pyrmq.broker import fields
from pyrmq.broker.config import BrokerConfig
from pyrmq.broker.groups import GroupTable
from pyrmq.broker.locks import QueueLocks
from pyrmq.broker.topics import TopicTable, check_sendable
from pyrmq.engine import Command, Store
from pyrmq.errors import (
    EngineError,
    InvalidParameterError,
    MessageIllegalError,
    NoPermissionError,
    ResponseError,
    TopicNotExistError,
)
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.message import decode_properties, encode_properties
from pyrmq.model.names import DLQ_PREFIX, RETRY_PREFIX, check_topic
from pyrmq.model.transaction import TRAN_MSG
from pyrmq.net.address import Address, message_id
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response
from pyrmq.net.connection import Connection
from pyrmq.net.dispatch import MAX_AWAITED

log = logging.getLogger(__name__)

_LETTERS = {
    "producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d",
    "queueId": "e", "sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i",
    "reconsumeTimes": "j", "unitMode": "k", "maxReconsumeTimes": "l", "batch": "m",
}  # fmt: skip
_DELAYS = ("DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_DEL_UNIQKEY")
_TRANSACTION_BITS = 0xC
MAX_WAITING = 1024
"""Sends that wait for a new topic to be saved; their frames are in memory meanwhile."""


class SendProcessor:
    """`resend` gives a frame back to its session after the topic was made, `answer` answers once
    the log is durable up to an offset."""

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        topics: TopicTable,
        groups: GroupTable,
        locks: QueueLocks,
        store_host: Callable[[], Address],
        *,
        resend: Callable[[Connection, bytes], None],
        answer: Callable[[Connection, Command, Response, int], None],
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._locks = locks
        self._store_host = store_host
        self._resend = resend
        self._answer = answer
        self._waiting: dict[str, list[tuple[Connection, Command]]] = {}

    def __call__(
        self, connection: Connection, command: Command
    ) -> Response | Awaitable[Response | None] | None:
        """None: the answer comes from the session, or when the log is durable."""
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

    def _field(self, command: Command, name: str, default: str | None = None) -> str:
        key = name if command.code == RequestCode.SEND_MESSAGE else _LETTERS[name]
        value = command.ext.get(key, default)
        if value is None:
            raise ResponseError(f"the custom field <{name}> is null", ResponseCode.SYSTEM_ERROR)
        return value

    def _int(self, command: Command, name: str, default: str | None = None) -> int:
        bits = 64 if name == "bornTimestamp" else 32
        return fields.number(name, self._field(command, name, default), 1 << bits - 1)

    def _send(self, connection: Connection, command: Command) -> Awaitable[Response | None] | None:
        topic = self._field(command, "topic")
        check_topic(topic)
        check_sendable(topic)
        properties = decode_properties(self._field(command, "properties", ""))
        if topic.startswith(RETRY_PREFIX):
            return self._send_retry(connection, command, topic, properties)
        self._refuse_special(command, properties)
        if self._topics.get(topic) is None:
            created = self._topics.create_in_send(
                topic,
                self._field(command, "defaultTopic"),
                self._int(command, "defaultTopicQueueNums"),
                self._field(command, "unitMode", "false").lower() == "true",
            )
            if created is None:
                raise TopicNotExistError(f"topic[{topic}] not exist, apply first please!")
        if self._topics.is_saved(topic):
            assert command.frame is not None
            self._resend(connection, command.frame)
            return None
        waiting = self._waiting.setdefault(topic, [])
        if len(waiting) >= MAX_WAITING:
            raise ResponseError(
                f"topic[{topic}] is being created, try again", ResponseCode.SYSTEM_BUSY
            )
        waiting.append((connection, command))
        connection.begin_awaited()
        return self._when_saved(topic) if len(waiting) == 1 else None

    async def _when_saved(self, topic: str) -> None:
        """Sends that wait for a new topic to be in its file, in the order they came."""
        try:
            await self._topics.saved(topic)
        except Exception as e:  # whatever it is (no thread, say): nobody may wait for ever
            log.error(
                "topic %s is not saved, its messages are refused: %s", escape(topic), escape(e)
            )
            why = e.strerror if isinstance(e, OSError) else str(e)
            text = f"topic[{topic}] cannot be saved: {why}"
            refusal = Response(ResponseCode.SERVICE_NOT_AVAILABLE, text, self._region())
            for connection, command in self._waiting.pop(topic):
                self._answer(connection, command, refusal, 0)
                connection.end_awaited(MAX_AWAITED)
            return
        for connection, command in self._waiting.pop(topic):
            assert command.frame is not None
            try:
                self._resend(connection, command.frame)
            except EngineError:
                log.exception("closing %s", connection.peer)
                connection.closed = True  # as for any frame that the engine cannot handle
            connection.end_awaited(MAX_AWAITED)

    def _refuse_special(self, command: Command, properties: dict[str, str]) -> None:
        half = properties.get(TRAN_MSG, "").lower() == "true"
        if half and self._config.reject_transaction_message:
            raise NoPermissionError(
                f"the broker[{self._config.broker_name}] sending transaction message is forbidden"
            )
        retried = self._field(command, "topic").startswith(RETRY_PREFIX)
        if not (half or retried) and self._int(command, "sysFlag") & _TRANSACTION_BITS:
            raise MessageIllegalError("sysFlag has transaction bits but TRAN_MSG is not set")
        for name in _DELAYS:
            if name in properties and not (name == "DELAY" and properties[name] == "0"):
                why = (
                    "a half message cannot be delayed"
                    if half
                    else "delayed messages are not supported by this version"
                )
                raise MessageIllegalError(f"property {name}: {why}")

    def _send_retry(
        self, connection: Connection, command: Command, topic: str, properties: dict[str, str]
    ) -> Awaitable[None] | None:
        """A message for a group's retry topic, or its dead-letter topic. [handleRetryAndDLQ]"""
        name = topic[len(RETRY_PREFIX) :]
        group = self._groups.find(name)
        if group is None:
            raise ResponseError(
                f"subscription group not exist, {name}", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            )
        if not command.body:
            raise MessageIllegalError("the message has no body")
        times = self._int(command, "reconsumeTimes", "0")
        most = self._int(command, "maxReconsumeTimes", str(group.retry_max_times))
        properties.pop(TRAN_MSG, None)  # a committed message that comes back is no half
        queue_id = max(self._int(command, "queueId"), 0)
        # An orderly consumer (it holds locks) sends back only what it has given up.
        dead = times > most or self._locks.any_live(name, trio.current_time())
        if dead:
            properties.pop("DELAY", None)  # dead letters are not retried
            queue_id = 0
        self._refuse_special(command, properties)
        target = (
            self._topics.create_send_back(DLQ_PREFIX + name, 1)
            if dead
            else self._topics.create_send_back(topic, group.retry_queue_nums)
        )
        if queue_id >= max(target.write_queue_nums, target.read_queue_nums):
            raise InvalidParameterError(f"request queueId[{queue_id}] is illegal")
        added = {**self._region(), "CLUSTER": self._config.broker_cluster_name}
        properties.pop("POP_CK", None)
        phys, size, offset, _ = self._store.put(
            target.topic_name,
            queue_id,
            command.body,
            encode_properties({**properties, **added}),
            flag=self._int(command, "flag"),
            sys_flag=self._int(command, "sysFlag") & ~_TRANSACTION_BITS,
            born_timestamp=self._int(command, "bornTimestamp", str(now_ms())),
            born_host=connection.peer,
            reconsume_times=times,
        )
        ext: dict[str, str | int | bool] = {
            **self._region(),
            "msgId": message_id(self._store_host(), phys),
            "queueId": queue_id,
            "queueOffset": offset,
            "transactionId": properties.get("UNIQ_KEY", ""),
        }
        wait = properties.get("WAIT", "").lower() != "false"
        end = phys + size if wait else 0
        if not self._topics.is_saved(target.topic_name):
            return self._answer_saved(
                target.topic_name, connection, command, Response(ext=ext), end
            )
        self._answer(connection, command, Response(ext=ext), end)
        return None

    async def _answer_saved(
        self, topic: str, connection: Connection, command: Command, answer: Response, end: int
    ) -> None:
        await self._topics.saved(topic)
        self._answer(connection, command, answer, end)
