"""Fields of a send, by their names or, as clients write them since 4.x, by one letter each.
[SendMessageRequestHeaderV2]"""

from __future__ import annotations

from pyrmq.broker.requests import fields
from pyrmq.engine import Command
from pyrmq.errors import ResponseError
from pyrmq.model.codes import RequestCode, ResponseCode

_LETTERS = {
    "producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d",
    "queueId": "e", "sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i",
    "reconsumeTimes": "j", "unitMode": "k", "maxReconsumeTimes": "l", "batch": "m",
}  # fmt: skip
_LONG = (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)


def text(command: Command, name: str, default: str | None = None) -> str:
    """A field; SYSTEM_ERROR if it is missing and has no default."""
    value = command.ext.get(name if command.code in _LONG else _LETTERS[name], default)
    if value is None:
        raise ResponseError(f"the custom field <{name}> is null", ResponseCode.SYSTEM_ERROR)
    return value


def number(command: Command, name: str, default: str | None = None) -> int:
    """A field as an int32, bornTimestamp as an int64."""
    bits = 64 if name == "bornTimestamp" else 32
    return fields.number(name, text(command, name, default), 1 << bits - 1)
