"""SEND_REPLY_MESSAGE: the reply to a request goes to the client that waits for it.
[ReplyMessageProcessor]"""

from __future__ import annotations

import trio

from pyrmq.broker import send_fields
from pyrmq.broker.clients import ClientTable
from pyrmq.broker.config import BrokerConfig
from pyrmq.broker.topics import TopicTable
from pyrmq.engine import Command, Store
from pyrmq.errors import (
    InvalidParameterError,
    NoPermissionError,
    PyrmqError,
    ResponseError,
    TopicNotExistError,
)
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.message import NAME_END, VALUE_END, decode_properties
from pyrmq.model.names import check_topic
from pyrmq.model.topic import PERM_WRITE
from pyrmq.net.address import Address, format_address, message_id
from pyrmq.net.answers import Durable, Elsewhere
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response
from pyrmq.net.connection import Connection
from pyrmq.net.questions import Questions

REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
PUSH_TIMEOUT = 10.0
"""Seconds that the client has to take the reply."""
MAX_PUSHES = 1024
"""Replies that are under way at a time; more wait for their turn."""


class ReplyProcessor:
    def __init__(
        self,
        config: BrokerConfig,
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
        self._limit = trio.CapacityLimiter(MAX_PUSHES)

    def __call__(self, connection: Connection, command: Command) -> Elsewhere:
        return Elsewhere(self._reply(connection, command))

    async def _reply(self, connection: Connection, command: Command) -> Response | Durable:
        """The reply counts as sent when its client has it. Then it is stored as well; that this
        fails changes nothing."""
        topic, queue_id = self._check(command)
        properties = send_fields.text(command, "properties", "")
        asker = decode_properties(properties).get(REPLY_TO_CLIENT)
        if asker is None:
            raise _failed(f"the reply has no property {REPLY_TO_CLIENT}")
        target = self._clients.by_client_id(asker)
        if target is None:
            raise _failed(f"the client {asker[:255]} that waits for the reply is not connected")
        async with self._limit:
            await self._push(connection, command, target, properties)
        ext: dict[str, str | int | bool] = {
            "msgId": "0",
            "queueId": queue_id,
            "queueOffset": 0,
            "MSG_REGION": self._config.region_id,
            "TRACE_ON": self._config.trace_on,
        }
        if not self._config.store_reply_message_enable:
            return Response(ext=ext)
        try:
            phys, size, offset, _ = self._store.put(
                topic,
                queue_id,
                command.body,
                properties,
                flag=send_fields.number(command, "flag", "0"),
                sys_flag=send_fields.number(command, "sysFlag"),
                born_timestamp=send_fields.number(command, "bornTimestamp"),
                born_host=connection.peer,
                reconsume_times=send_fields.number(command, "reconsumeTimes", "0"),
            )
        except PyrmqError:
            return Response(ext=ext)
        ext |= {"msgId": message_id(self._address, phys), "queueOffset": offset}
        return Durable(Response(ext=ext), phys + size)

    def _check(self, command: Command) -> tuple[str, int]:
        topic = send_fields.text(command, "topic")
        if not self._config.broker_permission & PERM_WRITE:
            raise NoPermissionError(
                f"the broker[{self._config.broker_name}] sending message is forbidden"
            )
        check_topic(topic)
        known = self._topics.get(topic)
        if known is None:
            raise TopicNotExistError(f"topic[{topic}] not exist, apply first please!")
        queues = max(known.read_queue_nums, known.write_queue_nums)
        queue_id = send_fields.number(command, "queueId")
        if queue_id >= queues:
            raise InvalidParameterError(
                f"request queueId[{queue_id}] is illegal, topic has {queues} queues"
            )
        return topic, max(queue_id, 0)

    async def _push(
        self, connection: Connection, command: Command, target: Connection, properties: str
    ) -> None:
        now = now_ms()
        end = "" if not properties or properties.endswith(VALUE_END) else VALUE_END
        ext: dict[str, str | int | bool] = {
            name: send_fields.text(command, name, default)
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


def _failed(text: str) -> ResponseError:
    return ResponseError(text, ResponseCode.SYSTEM_ERROR)
