"""Recalling a timer message before it is delivered. [DefaultMQProducerImpl.recallMessage]"""

from __future__ import annotations

from pyrmq.client.checks import check_kind, check_topic
from pyrmq.engine import Command
from pyrmq.errors import (
    IllegalOperationError,
    ResponseError,
    UnusableHandleError,
    UnusableNameError,
)
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.names import DLQ_PREFIX, RETRY_PREFIX
from pyrmq.model.recall import RecallHandle
from pyrmq.net.client.channel import Channel

_HINTS: dict[int, str] = {
    ResponseCode.NO_PERMISSION: "the broker needs recallMessageEnable=true",
    ResponseCode.ILLEGAL_OPERATION: "its time is over, or the handle is not of this broker",
}
"""What to do about refusals, by code."""


def handle_for(topic: str, wire_topic: str, handle: str) -> RecallHandle:
    """The handle of a message of this topic. Raises NotSentError if it cannot be one."""
    check_topic(topic)
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        raise UnusableNameError(f"topic {topic}: messages of retry and DLQ topics have no handle")
    check_kind("the recall handle", handle, (str,), "SendResult.recall_handle")
    try:
        found = RecallHandle.parse(handle)
    except IllegalOperationError as e:
        raise UnusableHandleError(
            f"{e.args[0]}: SendResult.recall_handle of a delayed message is needed"
        ) from None
    if found.topic != wire_topic:
        raise UnusableHandleError(f"the recall handle is of topic {found.topic}, not {wire_topic}")
    return found


async def recall_at(
    channel: Channel, group: str, found: RecallHandle, handle: str, timeout: float
) -> Command:
    """The broker's answer, whatever its code."""
    fields = {
        "producerGroup": group,
        "topic": found.topic,
        "recallHandle": handle,
        "bname": found.broker_name,
    }
    return await channel.call(RequestCode.RECALL_MESSAGE, fields, timeout=timeout)


def recalled(answer: Command, found: RecallHandle) -> str:
    """The id of the message in an answer. Raises ResponseError for a refusal."""
    if answer.code != ResponseCode.SUCCESS:
        error = ResponseError.of(answer.code, answer.remark or "")
        error.hint = _HINTS.get(answer.code, error.hint)
        raise error
    return answer.ext.get("msgId") or found.key
