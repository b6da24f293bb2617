"""Requests that name a message by its offset in the log: who may use which message.

A consumer that may read one topic could otherwise have any message of the log sent back to its own
group, or shown. The message is read first; then its topic counts, whatever the request states.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isawaitable
from typing import Any, Protocol

from pyrmq.auth.table import NEEDS
from pyrmq.broker.bounds import Bounded
from pyrmq.broker.requests import fields
from pyrmq.engine import Command, Store
from pyrmq.errors import ProtocolError
from pyrmq.model.codes import RequestCode
from pyrmq.model.names import CHECK_MAX_TOPIC, HALF_TOPIC, TIMER_TOPIC
from pyrmq.model.record import decode_record
from pyrmq.model.transaction import REAL_TOPIC
from pyrmq.net.address import offset_of_message_id
from pyrmq.net.server.answers import Elsewhere, InTurns, Processor
from pyrmq.net.server.connection import Connection

READERS, WAITING = 4, 1024
"""Messages that are read at a time for this; how many more may wait."""
MESSAGE_ID = "msgId"
_FIELDS = {
    RequestCode.VIEW_MESSAGE_BY_ID: "offset",
    RequestCode.CONSUMER_SEND_MSG_BACK: "offset",
    RequestCode.END_TRANSACTION: "commitLogOffset",
    RequestCode.CONSUME_MESSAGE_DIRECTLY: MESSAGE_ID,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: MESSAGE_ID,
}
"""The field that names the message: its offset, or its id, which has the offset."""


class TopicCheck(Protocol):
    """The guard of a broker."""

    def check_topic(self, connection: Connection, command: Command, topic: str) -> None:
        """ResponseError if whoever makes the request, which was let through, has no right to the
        topic that the message turns out to be of."""


class NamedMessages:
    """Has the guard of a broker check the topic of the message, before a processor runs."""

    def __init__(self, store: Store, guard: TopicCheck) -> None:
        self._store = store
        self._guard = guard
        self._bounded = Bounded("look-ups of messages that requests name", READERS, WAITING)

    def guarded(self, processors: Mapping[int, Processor]) -> dict[int, Processor]:
        """The processors, those of such requests behind the check."""
        return {
            code: self._checked(processor, _FIELDS[RequestCode(code)])
            if code in NEEDS and NEEDS[code].of_message
            else processor
            for code, processor in processors.items()
        }

    def _checked(self, processor: Processor, field: str) -> Processor:
        def check(connection: Connection, command: Command) -> Elsewhere:
            if field == MESSAGE_ID:
                found = offset_of_message_id(fields.text(command, field))
                offset = -1 if found is None else found  # the processor says that it is none
            else:
                offset = fields.int64(command, field)
            return self._bounded.begin(self._run(processor, connection, command, offset))

        return check

    async def _run(
        self, processor: Processor, connection: Connection, command: Command, offset: int
    ) -> Any:
        record = None
        if offset >= 0:
            record = await self._bounded.run(self._store.record_at, offset)
        if record is not None:
            self._guard.check_topic(connection, command, _topic(record))
        answer = processor(connection, command)  # without such a message it says so
        while isinstance(answer, Elsewhere | InTurns) or isawaitable(answer):
            answer = await (answer.answer if isinstance(answer, Elsewhere | InTurns) else answer)
        return answer


def _topic(record: bytes) -> str:
    """The topic that a message is for; "", which no topic is called, for a damaged record."""
    try:
        message = decode_record(record, inflate_body=False)
    except ProtocolError:
        return ""
    if message.topic in (HALF_TOPIC, CHECK_MAX_TOPIC, TIMER_TOPIC):
        return message.properties.get(REAL_TOPIC, message.topic)
    return message.topic
