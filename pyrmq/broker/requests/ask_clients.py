"""Passes questions of operators on to consumers: how they run, how far they are, and to
consume one message. [AdminBrokerProcessor.callConsumer, Broker2Client.getConsumeStatus]"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Mapping
from typing import Any

import trio

from pyrmq.broker.requests import fields
from pyrmq.broker.tables.clients import Client, ClientTable
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Command, Store
from pyrmq.errors import (
    ConnectError,
    PyrmqError,
    RequestTimeoutError,
    ResponseError,
    SystemBusyError,
)
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.net import fastjson
from pyrmq.net.address import offset_of_message_id
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.questions import Questions

TIMEOUT = 10.0
"""Seconds that a client has to answer. [Broker2Client.callClient]"""
STATUS_TIMEOUT = 5.0
"""The same for how far it is."""
MAX_ASKED = 256
"""Clients that are being asked, for all operators; more are refused."""
MAX_PER_OPERATOR = 16
"""Questions of one connection that are not answered yet."""
MAX_ANSWER = 4 << 20
"""Longest answer that is passed on, bytes."""
MAX_STATUS_BYTES = 2 << 20
"""Bytes of all that the members of a group answer to one question; what is more is left out."""
RUNNING_SINCE = 62
"""MQVersion of V3_1_8_SNAPSHOT, the first that says how it runs."""
STATUS_SINCE = 28
"""MQVersion of V3_0_7_SNAPSHOT, the first that says how far it is."""
_SIGNED = frozenset({"AccessKey", "Signature", "SecurityToken"})
"""Fields that are about who asked the broker, and no business of the client."""
READERS = 4
"""Messages that are read at a time."""


class ClientQuestions:
    """Each question goes to the client's own connection; its answer is passed on as it is."""

    def __init__(
        self,
        broker_name: str,
        store: Store,
        topics: TopicTable,
        groups: GroupTable,
        clients: ClientTable,
        questions: Questions,
    ) -> None:
        self._broker_name = broker_name
        self._store = store
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._questions = questions
        self._asked = 0
        self._asking: Counter[Connection] = Counter()
        """Operators that wait for answers."""
        self._readers = trio.CapacityLimiter(READERS)

    def running_info(self, connection: Connection, command: Command) -> Elsewhere:
        """GET_CONSUMER_RUNNING_INFO of one client."""
        client_id = fields.text(command, "clientId")
        return self._bounded(connection, self._call(command, client_id, command.ext))

    def _bounded(
        self, connection: Connection, answer: Coroutine[None, None, Response]
    ) -> Elsewhere:
        """Has a question answered, if its asker has not too many already."""

        async def run() -> Response:
            try:
                return await answer
            finally:
                self._asking[connection] -= 1
                if not self._asking[connection]:
                    del self._asking[connection]

        if self._asking[connection] >= MAX_PER_OPERATOR:
            answer.close()
            raise SystemBusyError(f"{MAX_PER_OPERATOR} questions of yours wait for answers")
        self._asking[connection] += 1
        return Elsewhere(run())

    def consume_directly(self, connection: Connection, command: Command) -> Elsewhere:
        """CONSUME_MESSAGE_DIRECTLY: one client consumes a message of the log, now and whatever it
        has consumed before."""
        return self._bounded(connection, self._consume_directly(command))

    async def _consume_directly(self, command: Command) -> Response:
        group = fields.text(command, "consumerGroup")
        text = fields.text(command, "msgId")
        phys = offset_of_message_id(text)
        if phys is None:
            raise _failed(f"msgId {text[:64]!r} is no offset id of 32 or 56 digits")
        self._member(group, command.ext.get("clientId", ""), RUNNING_SINCE)  # before it is read
        record = await trio.to_thread.run_sync(self._store.record_at, phys, limiter=self._readers)
        if record is None:
            raise _failed(f"can not find message by the offset, {phys}")
        ext = {**command.ext, "brokerName": self._broker_name}
        topic = self._topics.get(command.ext.get("topic", ""))
        if topic is not None:
            ext["topicSysFlag"] = str(topic.topic_sys_flag)
        known = self._groups.groups.get(group)
        if known is not None:
            ext["groupSysFlag"] = str(known.values.get("groupSysFlag", 0))
        return await self._call(command, command.ext.get("clientId", ""), ext, record)

    async def _call(
        self, command: Command, client_id: str, ext: Mapping[str, str], body: bytes = b""
    ) -> Response:
        """Asks one client the same, and passes on its answer."""
        group = fields.text(command, "consumerGroup")
        target, _ = self._member(group, client_id, RUNNING_SINCE)
        shown = f"consumer <{group[:255]}> <{client_id[:255]}>"
        kept = {name: value for name, value in ext.items() if name not in _SIGNED}
        try:
            answer = await self._ask(target, command.code, kept, body, TIMEOUT)
        except RequestTimeoutError as e:
            text = f"{shown} Timeout: {e}"
            raise ResponseError(text, ResponseCode.CONSUME_MSG_TIMEOUT) from None
        except ConnectError as e:
            raise _failed(f"invoke {shown} Exception: {e}") from None
        texts = [answer.remark or "", *answer.ext, *answer.ext.values()]
        if len(answer.body) + sum(map(len, texts)) > MAX_ANSWER:
            raise _failed(f"the answer of {shown} has more than {MAX_ANSWER} bytes")
        return Response(answer.code, answer.remark, answer.ext, answer.body)

    def _member(self, group: str, client_id: str, since: int) -> tuple[Connection, Client]:
        found = self._clients.find_consumer(group, client_id)
        if found is None:
            raise _failed(f"The Consumer <{group[:255]}> <{client_id[:255]}> not online")
        _check_version(found[1], since)
        return found

    async def _ask(
        self,
        target: Connection,
        code: int,
        ext: Mapping[str, str],
        body: bytes,
        timeout: float,
    ) -> Command:
        if self._asked >= MAX_ASKED:
            raise SystemBusyError("too many questions to clients are not answered yet: try again")
        self._asked += 1
        try:
            return await self._questions.ask(target, code, ext, body, timeout=timeout)
        finally:
            self._asked -= 1

    def consumer_status(self, connection: Connection, command: Command) -> Elsewhere:
        """INVOKE_BROKER_TO_GET_CONSUMER_STATUS: how far the members of a group are in a topic, by
        client id; `clientAddr`, a client id, names one of them. Who does not answer is left out."""
        return self._bounded(connection, self._consumer_status(command))

    async def _consumer_status(self, command: Command) -> Response:
        topic, group = fields.text(command, "topic"), fields.text(command, "group")
        wanted = command.ext.get("clientAddr", "").strip()
        live = self._clients.consumers.get(group)
        if live is None or not live.clients:
            raise _failed(f"No Any Consumer online in the consumer group: [{group[:255]}]")
        for client in live.clients.values():
            _check_version(client, STATUS_SINCE)
        targets = [
            (connection, client.client_id)
            for connection, client in live.clients.items()
            if not wanted or client.client_id == wanted
        ]
        if self._asked + len(targets) > MAX_ASKED:
            raise SystemBusyError(
                f"{len(targets)} clients are too many to be asked now: name one (clientAddr)"
            )
        found: dict[str, Any] = {}
        room = MAX_STATUS_BYTES

        async def ask(target: Connection, client_id: str) -> None:
            nonlocal room
            code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
            ext = {"topic": topic, "group": group}
            try:
                answer = await self._ask(target, code, ext, b"", STATUS_TIMEOUT)
                if answer.code == ResponseCode.SUCCESS and len(answer.body) <= room:
                    room -= len(answer.body)
                    table = fastjson.loads_object(answer.body).get("messageQueueTable")
                    found[client_id] = table if isinstance(table, dict) else {}
            except (PyrmqError, OSError):
                return

        async with trio.open_nursery() as nursery:
            for target, client_id in targets:
                nursery.start_soon(ask, target, client_id)
        return Response(body=fastjson.dumps({"consumerTable": found, "messageQueueTable": {}}))


def _check_version(client: Client, since: int) -> None:
    if client.version < since:
        raise _failed(
            f"The Consumer <{client.client_id}> Version <{client.version}> too low to finish"
        )


def _failed(text: str) -> ResponseError:
    return ResponseError(text, ResponseCode.SYSTEM_ERROR)
