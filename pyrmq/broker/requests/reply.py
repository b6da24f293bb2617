"""SEND_REPLY_MESSAGE: the reply to a request goes to the client that waits for it.
[ReplyMessageProcessor]"""

from __future__ import annotations

import logging

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.requests import fields
from pyrmq.broker.tables.clients import ClientTable
from pyrmq.broker.tables.topics import TopicTable, check_sendable
from pyrmq.engine import Command, Store
from pyrmq.errors import (
    InvalidParameterError,
    MessageIllegalError,
    NoPermissionError,
    PyrmqError,
    ResponseError,
    SystemBusyError,
    TopicNotExistError,
)
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.names import RETRY_PREFIX, check_topic
from pyrmq.model.properties import NAME_END, VALUE_END, decode_properties
from pyrmq.model.request_kinds import MAX_FRAME
from pyrmq.model.topic import PERM_WRITE
from pyrmq.net.address import Address, format_address, message_id
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere, WhenConfirmed
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.questions import Questions

log = logging.getLogger(__name__)

REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
HEADER = 4096
"""More bytes than a pushed reply's header has beside its properties."""
ESCAPED = 6
"""Bytes of a JSON header for one of a property string, at most."""
PUSH_TIMEOUT = 10.0
"""Seconds that the client has to take the reply."""
MAX_BYTES = 64 << 20
"""Bytes of all replies that clients have not taken yet; more are refused."""
COMPRESSION = 0x701
"""The bits of a sysFlag that a stored reply keeps: whether and how it is compressed."""
STORERS = 4
"""Replies that are stored at a time, in threads."""


class ReplyProcessor:
    def __init__(
        self,
        config: LiveConfig,
        store: Store,
        topics: TopicTable,
        clients: ClientTable,
        questions: Questions,
        address: Address,
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._clients = clients
        self._questions = questions
        self._address = address
        self._bytes = 0
        self._storers = trio.CapacityLimiter(STORERS)

    def __call__(self, connection: Connection, command: Command) -> Elsewhere:
        return Elsewhere(self._reply(connection, command))

    async def _reply(self, connection: Connection, command: Command) -> Response | WhenConfirmed:
        """The reply counts as sent when its client has it. Then it is stored as well; that this
        fails changes nothing."""
        topic, queue_id = self._check(command)
        properties = fields.send_text(command, "properties", "")
        asker = decode_properties(properties).get(REPLY_TO_CLIENT)
        if asker is None:
            raise _failed(f"the reply has no property {REPLY_TO_CLIENT}")
        target = self._clients.by_client_id(asker)
        if target is None:
            raise _failed(f"the client {asker[:255]} that waits for the reply is not connected")
        self._bytes += len(command.body)
        try:
            await self._push(connection, command, target, properties)
        finally:
            self._bytes -= len(command.body)
        ext: dict[str, str | int | bool] = {
            "msgId": "0",
            "queueId": queue_id,
            "queueOffset": 0,
            "MSG_REGION": self._config.now.region_id,
            "TRACE_ON": self._config.now.trace_on,
        }
        if not self._config.now.store_reply_message_enable:
            return Response(ext=ext)
        try:
            phys, size, offset, _ = await trio.to_thread.run_sync(
                self._store_reply, connection, command, topic, queue_id, limiter=self._storers
            )
        except (PyrmqError, OSError) as e:
            log.warning("a reply is not stored: %s", escape(e))
            return Response(ext=ext)
        ext |= {"msgId": message_id(self._address, phys), "queueOffset": offset}
        return WhenConfirmed(Response(ext=ext), phys + size)

    def _store_reply(
        self, connection: Connection, command: Command, topic: str, queue_id: int
    ) -> tuple[int, int, int, int]:
        return self._store.put(
            topic,
            queue_id,
            command.body,
            fields.send_text(command, "properties", ""),
            flag=fields.send_number(command, "flag", "0"),
            sys_flag=fields.send_number(command, "sysFlag") & COMPRESSION,
            born_timestamp=fields.send_number(command, "bornTimestamp"),
            born_host=connection.peer,
            reconsume_times=fields.send_number(command, "reconsumeTimes", "0"),
        )

    def _check(self, command: Command) -> tuple[str, int]:
        topic = fields.send_text(command, "topic")
        if not self._config.now.broker_permission & PERM_WRITE:
            raise NoPermissionError(
                f"the broker[{self._config.now.broker_name}] sending message is forbidden"
            )
        check_topic(topic)
        check_sendable(topic)
        _check_fields(command)
        known = self._topics.get(topic)
        if known is None or not self._topics.is_saved(topic) or topic.startswith(RETRY_PREFIX):
            raise TopicNotExistError(f"topic[{topic}] not exist, apply first please!")
        queues = max(known.read_queue_nums, known.write_queue_nums)
        queue_id = fields.send_number(command, "queueId")
        if queue_id >= queues:
            raise InvalidParameterError(
                f"request queueId[{queue_id}] is illegal, topic has {queues} queues"
            )
        size, most = len(command.body), self._config.now.max_message_size
        if not 0 < size <= most:
            raise MessageIllegalError(f"message body size {size}, maxMessageSize: {most}")
        # The client that asked gets body and properties in one frame, the latter in its header.
        longest = ESCAPED * len(fields.send_text(command, "properties", "").encode())
        if size + longest + HEADER > MAX_FRAME:
            raise MessageIllegalError(
                f"a reply of {size} bytes with its properties does not fit into a frame of "
                f"{MAX_FRAME} bytes"
            )
        if self._bytes + size > MAX_BYTES:
            raise SystemBusyError("[OVERLOAD]too many replies wait for their clients: try again")
        return topic, max(queue_id, 0)

    async def _push(
        self, connection: Connection, command: Command, target: Connection, properties: str
    ) -> None:
        now = now_ms()
        end = "" if not properties or properties.endswith(VALUE_END) else VALUE_END
        ext: dict[str, str | int | bool] = {
            name: fields.send_text(command, name, default)
            for name, default in (
                ("producerGroup", ""), ("topic", None), ("defaultTopic", ""),
                ("defaultTopicQueueNums", "0"), ("queueId", None), ("sysFlag", None),
                ("bornTimestamp", None), ("flag", "0"), ("reconsumeTimes", "0"),
                ("unitMode", "false"),
            )
        }  # fmt: skip
        ext |= {
            "properties": f"{properties}{end}{PUSH_REPLY_TIME}{NAME_END}{now}{VALUE_END}",
            "bornHost": connection.peer,
            "storeHost": format_address(self._address),
            "storeTimestamp": now,
        }
        try:
            answer = await self._questions.ask(
                target,
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
                ext,
                command.body,
                timeout=PUSH_TIMEOUT,
            )
        except (PyrmqError, OSError) as e:
            raise _failed(f"the reply did not reach its client: {e}") from e
        if answer.code != ResponseCode.SUCCESS:
            raise _failed(f"the client did not take the reply: {answer.remark or answer.code}")


def _check_fields(command: Command) -> None:
    """Checks the fields that a send needs, though not all of them are used here."""
    for name in ("sysFlag", "bornTimestamp", "flag"):
        fields.send_number(command, name)
    for name in ("defaultTopicQueueNums", "reconsumeTimes"):
        fields.send_number(command, name, "0")


def _failed(text: str) -> ResponseError:
    return ResponseError(text, ResponseCode.SYSTEM_ERROR)
