"""Requests as clients make them: sends and pulls.

SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE: the fields of the request, and where an answer says that
messages are. `send_fields` and `queue_fields` are the fields, `SendRequest` writes the same for a
JSON header. [SendMessageRequestHeaderV2, SendMessageResponseHeader]

PULL_MESSAGE: the fields of the request, and what an answer means.
[PullMessageRequestHeader, PullMessageResponseHeader, MQClientAPIImpl.processPullResponse]
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from pyrmq.engine import Command
from pyrmq.errors import ProtocolError, ResponseError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.names import AUTO_CREATE_TOPIC
from pyrmq.model.route import DEFAULT_QUEUES, MASTER_ID
from pyrmq.model.subscription import TAG
from pyrmq.model.topic import as_int
from pyrmq.net.clock import now_ms
from pyrmq.net.command import json_fields, json_text, number


def send_code(batch: bool) -> RequestCode:
    return RequestCode.SEND_BATCH_MESSAGE if batch else RequestCode.SEND_MESSAGE_V2


def send_fields(
    group: str, topic: str, properties: str, *, flag: int, sys_flag: int = 0, batch: bool = False
) -> dict[str, str | int | bool]:
    """The request's fields but for those of the queue (`queue_fields`); bornTimestamp is now."""
    return {
        "a": group,
        "b": topic,
        "c": AUTO_CREATE_TOPIC,
        "d": DEFAULT_QUEUES,
        "f": sys_flag,
        "g": now_ms(),
        "h": flag,
        "i": properties,
        "j": 0,
        "k": False,
        "m": batch,
    }


def queue_fields(queue_id: int, broker: str) -> dict[str, str | int | bool]:
    """The fields that say where a send goes."""
    return {"e": queue_id, "n": broker}


class SendHeader:
    """As `send_fields`, to be written when the queue is known: what does not change from message
    to message is encoded once."""

    __slots__ = ("batch", "born", "flag", "group", "properties", "sys_flag", "topic")

    def __init__(
        self,
        group: str,
        topic: str,
        properties: str,
        *,
        flag: int,
        sys_flag: int = 0,
        batch: bool = False,
    ) -> None:
        self.group = group
        self.topic = topic
        self.properties = properties
        self.flag = flag
        self.sys_flag = sys_flag
        self.born = now_ms()
        self.batch = batch


class SendRequest:
    """All fields of a send. `json` are the fields of a JSON header, as `json_fields` makes them,
    `values` their values in the order of their names: signing parses nothing."""

    __slots__ = ("broker", "header", "queue_id")

    def __init__(self, header: SendHeader, queue_id: int, broker: str) -> None:
        self.header = header
        self.queue_id = queue_id
        self.broker = broker

    @property
    def json(self) -> str:
        h = self.header
        return (
            f'{_fixed_text(h.group, h.topic, h.batch)},"f":"{h.sys_flag}","g":"{h.born}",'
            f'"h":"{h.flag}","i":{json_text(h.properties)},"e":"{self.queue_id}",'
            f'"n":{json_text(self.broker)}'
        )

    @property
    def values(self) -> str:
        h = self.header
        return (
            f"{h.group}{h.topic}{AUTO_CREATE_TOPIC}{DEFAULT_QUEUES}{self.queue_id}{h.sys_flag}"
            f"{h.born}{h.flag}{h.properties}0false{'true' if h.batch else 'false'}{self.broker}"
        )


@lru_cache(256)
def _fixed_text(group: str, topic: str, batch: bool) -> str:
    fields = send_fields(group, topic, "", flag=0, batch=batch)
    return json_fields({name: value for name, value in fields.items() if name not in "fghi"})


def stored_at(answer: Command) -> tuple[int, int]:
    """Queue id and queue offset (of the first message) that an answer states. ProtocolError."""
    queue_id, offset = number(answer, "queueId"), number(answer, "queueOffset")
    if queue_id < 0 or offset < 0:
        raise ProtocolError(f"stored with queueOffset={offset}, queueId={queue_id}")
    return queue_id, offset


SUSPEND = 0x2
"""The broker may wait for a message."""
SUBSCRIPTION = 0x4
"""The pull says by itself what it wants. [PullSysFlag]"""
TOOLS_GROUP = "TOOLS_CONSUMER"
"""The group that tools pull as; every broker knows it, nothing is committed for it.
[MixAll.TOOLS_CONSUMER_GROUP]"""
REMOVING = "MESSAGE_WAS_REMOVING"
"""The status that a broker gives as the remark, where it answers the same code for a place whose
messages are deleted as for one where none has the tag. [PullMessageProcessor]"""


def pull_fields(
    topic: str,
    queue_id: int,
    offset: int,
    count: int,
    *,
    broker: str | None = None,
    group: str = TOOLS_GROUP,
    suspend_ms: int = 0,
    expression: str = "*",
    expression_type: str = TAG,
    version: int = 0,
) -> dict[str, str | int | bool]:
    """The request's fields. `count` messages at most; the broker may wait `suspend_ms` for one;
    `version` is that of the subscription; `broker` is the queue's broker name."""
    fields: dict[str, str | int | bool] = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue_id,
        "queueOffset": offset,
        "maxMsgNums": count,
        "sysFlag": SUSPEND | SUBSCRIPTION if suspend_ms else SUBSCRIPTION,
        "commitOffset": 0,
        "suspendTimeoutMillis": suspend_ms,
        "subscription": expression,
        "subVersion": version,
        "expressionType": expression_type,
    }
    if broker is not None:
        fields["bname"] = broker
    return fields


class PullStatus(Enum):
    """What a pull came to. [PullStatus]"""

    FOUND = "messages"
    NO_NEW_MESSAGE = "nothing there yet: the offset is the queue's end"
    NO_MATCHED_MESSAGE = "nothing that is wanted up to the next offset"
    OFFSET_ILLEGAL = "the queue has no such offset"


_STATUS = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MESSAGE,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MESSAGE,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


@dataclass(frozen=True, slots=True)
class PullAnswer:
    """An answer to a pull. Its offsets are read when they are asked for: ProtocolError then if
    the broker has not given them."""

    status: PullStatus
    answer: Command

    @property
    def next_offset(self) -> int:
        """Where the next pull continues."""
        return number(self.answer, "nextBeginOffset")

    @property
    def min_offset(self) -> int:
        """The queue's first offset."""
        return number(self.answer, "minOffset")

    @property
    def max_offset(self) -> int:
        """The queue's end."""
        return number(self.answer, "maxOffset")

    @property
    def bounds(self) -> tuple[int, int]:
        """`min_offset` and `max_offset`, 0 where the broker has not given them."""
        ext = self.answer.ext
        return as_int(ext.get("minOffset"), 0), as_int(ext.get("maxOffset"), 0)

    @property
    def suggested_broker(self) -> int:
        """The id of the broker that the next pull should go to: the master's, unless another one
        is given. [suggestWhichBrokerId]"""
        return max(as_int(self.answer.ext.get("suggestWhichBrokerId"), MASTER_ID), MASTER_ID)

    @property
    def body(self) -> bytes:
        """Records as they are in the log, if FOUND."""
        return self.answer.body

    @property
    def is_removing(self) -> bool:
        """Whether there is no match because messages are being deleted there."""
        return (self.answer.remark or "").endswith(REMOVING)

    def next_beyond(self, offset: int) -> int:
        """`next_offset`, which has to lie beyond the offset that was pulled. ProtocolError."""
        following = self.next_offset
        if following <= offset:
            raise ProtocolError(f"a pull at {offset} continues at {following}")
        return following


def read_pull(answer: Command) -> PullAnswer:
    """ResponseError for a code that is no pull's."""
    status = _STATUS.get(answer.code)  # type: ignore[call-overload]
    if status is None:
        raise ResponseError.of(answer.code, answer.remark or "")
    return PullAnswer(status, answer)
