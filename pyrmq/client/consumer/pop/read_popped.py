"""Reads the messages of an answer to a pop. [MQClientAPIImpl.processPopResponse]"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from pyrmq.client.consumer.pull_loop import report_damage
from pyrmq.errors import ProtocolError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import MessageQueue, ReceivedMessage, decode_records
from pyrmq.model.pop import FIRST_POP_TIME, POP_CK, ExtraInfo
from pyrmq.model.record import Room
from pyrmq.net.client.pop_requests import PopAnswer

log = logging.getLogger(__name__)


def read_popped(
    queue: MessageQueue, answer: PopAnswer
) -> Iterator[tuple[ExtraInfo, ReceivedMessage]]:
    """The messages of an answer with their handles, which are in their properties as well. Each has
    the topic that was asked for. One that cannot be read is reported and left out, and so are those
    behind a compressed one that has no room: they come again after their invisible time."""

    def report(error: ProtocolError) -> None:
        report_damage(queue, error)

    room = Room(cuts=True)
    messages = decode_records(answer.body, report, broker_name=queue.broker_name, room=room)
    if room.cut is not None:
        log.warning(
            "%s: the messages of one pop are too large together",
            escape(queue),
            extra=about(queue=queue),
        )
    for message in messages:
        properties = message.properties
        try:
            handle = answer.handle_of(message, properties.get(POP_CK))
        except ProtocolError as e:
            report(e)
            continue
        properties[POP_CK] = handle.encode()
        properties.setdefault(FIRST_POP_TIME, str(handle.pop_time))
        if times := answer.times_of(handle):
            message.reconsume_times = times
        message.topic = queue.topic
        yield handle, message
