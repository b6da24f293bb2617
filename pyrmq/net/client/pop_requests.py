"""Requests of POP as clients make them, and what the answers mean.

POP_MESSAGE, ACK_MESSAGE, BATCH_ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME, NOTIFICATION and
QUERY_ASSIGNMENT. [PopMessageRequestHeader, AckMessageRequestHeader, BatchAckMessageRequestBody,
ChangeInvisibleTimeRequestHeader, NotificationRequestHeader, MQClientAPIImpl.processPopResponse]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from pyrmq.engine import Command
from pyrmq.errors import ProtocolError, ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.pop import (
    BatchAck,
    ExtraInfo,
    parse_count_info,
    parse_offsets_info,
    parse_start_info,
    retry_of,
)
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.subscription import Subscription
from pyrmq.net import fastjson
from pyrmq.net.clock import machine_ms
from pyrmq.net.command import number

ANY_QUEUE = -1
"""The queue id of a pop from whichever queue of the broker has messages."""
FROM_FIRST, FROM_LAST = 0, 1
"""Where a queue without an offset begins. [ConsumeInitMode]"""
Fields = dict[str, str | int | bool]


def pop_fields(
    queue: MessageQueue,
    group: str,
    sub: Subscription,
    count: int,
    invisible_ms: int,
    *,
    poll_ms: int,
    init_mode: int = FROM_FIRST,
    order: bool = False,
    attempt: str = "",
) -> Fields:
    """A pop of `count` messages at most, from one queue or from ANY_QUEUE of the broker. The broker
    may wait `poll_ms` for one. `attempt`: the same orderly pop again has the same one."""
    fields: Fields = {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": queue.queue_id,
        "maxMsgNums": count,
        "invisibleTime": invisible_ms,
        "pollTime": poll_ms,
        "bornTime": machine_ms(),
        "initMode": init_mode,
        "expType": sub.expression_type,
        "exp": sub.sub_string,
        "order": order,
        "bname": queue.broker_name,
    }
    if attempt:
        fields["attemptId"] = attempt
    return fields


class PopStatus(Enum):
    """What a pop came to. [PopStatus]"""

    FOUND = "messages"
    NOTHING = "no message came in time"
    POLLING_FULL = "the broker has too many pops that wait"


_STATUS = {
    ResponseCode.SUCCESS: PopStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PopStatus.NOTHING,
    ResponseCode.POLLING_TIMEOUT: PopStatus.NOTHING,
    ResponseCode.POLLING_FULL: PopStatus.POLLING_FULL,
}


class PopAnswer:
    """An answer to a pop. `handle_of` makes the handles of its messages. ResponseError for a code
    that is no pop's, ProtocolError for fields that cannot be read."""

    def __init__(self, answer: Command, broker_name: str) -> None:
        status = _STATUS.get(answer.code)  # type: ignore[call-overload]
        if status is None:
            raise ResponseError.of(answer.code, answer.remark or "")
        self.status: PopStatus = status
        self.body: bytes = b""
        if status is not PopStatus.FOUND:
            return
        self.body = answer.body
        ext = answer.ext
        self._broker_name = broker_name
        self.pop_time = number(answer, "popTime")
        self._invisible = number(answer, "invisibleTime")
        self._revive_queue = number(answer, "reviveQid")
        if min(self.pop_time, self._invisible, self._revive_queue) < 0:
            raise ProtocolError(f"popTime={self.pop_time}, invisibleTime={self._invisible}")
        self._starts = parse_start_info(ext.get("startOffsetInfo"))
        self._offsets = parse_offsets_info(ext.get("msgOffsetInfo"))
        self._counts = parse_count_info(ext.get("orderCountInfo"))

    def handle_of(self, message: ReceivedMessage, given: str | None) -> ExtraInfo:
        """The handle of one of its messages, whose topic is still that of the record. `given`: the
        handle in its properties, which counts only if the broker has put it there with this answer:
        a sender may have copied one. ProtocolError."""
        if given is not None:
            try:
                handle = ExtraInfo.parse(given)
            except ProtocolError:
                pass
            else:
                if handle.pop_time == self.pop_time and handle.offset == message.queue_offset:
                    return handle
        key = retry_of(message.topic), message.queue_id
        offset = message.queue_offset
        start = self._starts.get(key, offset if not self._starts else -1)
        if not 0 <= start <= offset or (self._offsets and offset not in self._offsets.get(key, ())):
            raise ProtocolError(f"a pop says nothing of queue {key[1]}, offset {offset}")
        return ExtraInfo(
            start,
            self.pop_time,
            self._invisible,
            self._revive_queue,
            key[0],
            self._broker_name,
            message.queue_id,
            offset,
        )

    def times_of(self, handle: ExtraInfo) -> int:
        """How often an orderly pop had the message before; 0 where the broker does not say."""
        place = handle.retry, handle.queue_id
        return max(
            self._counts.get((*place, handle.offset), self._counts.get((*place, None), 0)), 0
        )


def ack_fields(handle: ExtraInfo, topic: str, group: str) -> Fields:
    """ACK_MESSAGE; `topic` is the one that was asked for."""
    return {
        "consumerGroup": group,
        "topic": handle.topic(topic, group),
        "queueId": handle.queue_id,
        "extraInfo": handle.encode(),
        "offset": handle.offset,
        "bname": handle.broker_name,
    }


def change_fields(handle: ExtraInfo, topic: str, group: str, invisible_ms: int) -> Fields:
    """CHANGE_MESSAGE_INVISIBLETIME."""
    return {**ack_fields(handle, topic, group), "invisibleTime": invisible_ms}


def changed_handle(answer: Command, handle: ExtraInfo) -> ExtraInfo:
    """The handle that takes the place of one whose invisible time was changed. ProtocolError."""
    return replace(
        handle,
        start=handle.offset,
        pop_time=number(answer, "popTime"),
        invisible_time=number(answer, "invisibleTime"),
        revive_queue=number(answer, "reviveQid"),
    )


def ack_body(broker_name: str, group: str, acks: Iterable[tuple[str, ExtraInfo]]) -> bytes:
    """The body of a BATCH_ACK_MESSAGE, from topics that were asked for and handles: an entry for
    each check point. ValueError for a handle whose offsets are none of its check point."""
    points: dict[tuple[str, ExtraInfo], list[int]] = {}
    for topic, handle in acks:
        point = replace(handle, offset=handle.start)
        points.setdefault((topic, point), []).append(handle.offset)
    entries = [
        BatchAck(
            group,
            topic,
            point.retry,
            point.start,
            point.queue_id,
            point.revive_queue,
            point.pop_time,
            point.invisible_time,
            tuple(sorted(set(offsets))),
        ).to_json()
        for (topic, point), offsets in points.items()
    ]
    return fastjson.dumps({"acks": entries, "brokerName": broker_name})


def notification_fields(
    queue: MessageQueue, group: str, sub: Subscription, *, poll_ms: int, order: bool = False
) -> Fields:
    """NOTIFICATION: the broker answers when a pop would find something, after `poll_ms` at most."""
    return {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": queue.queue_id,
        "pollTime": poll_ms,
        "bornTime": machine_ms(),
        "order": order,
        "expType": sub.expression_type,
        "exp": sub.sub_string,
        "bname": queue.broker_name,
    }


def has_message(answer: Command) -> bool:
    """What a NOTIFICATION came to."""
    return answer.ext.get("hasMsg") == "true"


def assignment_body(topic: str, group: str, client_id: str, strategy: str) -> bytes:
    """QUERY_ASSIGNMENT of a member of a group in clustering."""
    return fastjson.dumps(
        {
            "clientId": client_id,
            "consumerGroup": group,
            "messageModel": "CLUSTERING",
            "strategyName": strategy,
            "topic": topic,
        }
    )


@dataclass(frozen=True, slots=True)
class Assignment:
    """The queues of a topic that a broker gives to a member; those that are popped may have the id
    ANY_QUEUE."""

    pulled: list[MessageQueue]
    popped: list[MessageQueue]


def read_assignment(body: bytes, topic: str) -> Assignment | None:
    """None if the broker does not know yet. ProtocolError."""
    entries = fastjson.loads_object(body).get("messageQueueAssignments")
    if entries is None:
        return None
    if not isinstance(entries, list):
        raise ProtocolError("an assignment without a list of queues")
    found = Assignment([], [])
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("messageQueue"), dict):
            raise ProtocolError("an assignment has an entry without a queue")
        queue = MessageQueue.from_json(entry["messageQueue"])
        if queue.topic != topic:
            raise ProtocolError("an assignment has a queue of another topic")
        (found.popped if entry.get("mode") == "POP" else found.pulled).append(queue)
    return found
