"""PULL_MESSAGE as clients send it: the fields of the request, and what an answer means.
[PullMessageRequestHeader, PullMessageResponseHeader, MQClientAPIImpl.processPullResponse]"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pyrmq.engine import Command
from pyrmq.errors import ProtocolError, ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.route import MASTER_ID
from pyrmq.model.subscription import TAG
from pyrmq.model.topic import as_int
from pyrmq.net.command import number

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
