"""POP on the wire: popping, acknowledging, changing the invisible time.

A handle says which delivery of a message is meant, in eight fields with blanks between them: start
offset of the check point, pop time, invisible time, revive queue, kind of topic (0: the topic, 1
and 2: its retry topics), broker, queue, queue offset. A broker puts it into the property POP_CK of
messages from retry topics; of others the client makes it. Field names: PopMessageRequestHeader,
PopMessageResponseHeader, AckMessageRequestHeader, ChangeInvisibleTimeRequestHeader; ExtraInfoUtil.
The codes do not fit into the 16 bits that ROCKETMQ headers have, so all headers are JSON.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass

from tests.support.records import Record, decode_records
from tests.support.wire import Command

POP_MESSAGE = 200050
ACK_MESSAGE = 200051
CHANGE_MESSAGE_INVISIBLETIME = 200053
BATCH_ACK_MESSAGE = 200151

POLLING_FULL = 209
POLLING_TIMEOUT = 210


@dataclass(frozen=True, slots=True)
class Handle:
    """One delivery of one message; times in ms."""

    start: int
    pop_time: int
    invisible: int
    revive_queue: int
    retry: str
    broker: str
    queue_id: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Handle:
        start, time_, invisible, revive, retry, broker, queue, offset = text.split(" ")
        numbers = int(start), int(time_), int(invisible), int(revive)
        return cls(*numbers, retry, broker, int(queue), int(offset))

    def __str__(self) -> str:
        return (
            f"{self.start} {self.pop_time} {self.invisible} {self.revive_queue} {self.retry} "
            f"{self.broker} {self.queue_id} {self.offset}"
        )

    @property
    def deadline(self) -> int:
        """When the message may come again."""
        return self.pop_time + self.invisible


@dataclass(frozen=True, slots=True)
class Delivery:
    record: Record
    handle: Handle


def pop_command(
    topic: str,
    group: str,
    *,
    queue_id: int = -1,
    maximum: int = 32,
    invisible: int = 60_000,
    poll: int = 0,
    init_mode: int = 0,
    expression: str = "*",
    order: bool = False,
    attempt: str | None = None,
) -> Command:
    """A pop of the messages from the first one on (`init_mode` 1: of new ones)."""
    ext = {
        "consumerGroup": group, "topic": topic, "queueId": str(queue_id),
        "maxMsgNums": str(maximum), "invisibleTime": str(invisible), "pollTime": str(poll),
        "bornTime": str(int(time.time() * 1000)), "initMode": str(init_mode), "expType": "TAG",
        "exp": expression, "order": "true" if order else "false",
    }  # fmt: skip
    if attempt is not None:
        ext["attemptId"] = attempt
    return Command(POP_MESSAGE, ext)


def deliveries(answer: Command, broker: str) -> list[Delivery]:
    """What a pop brought; empty for an answer without messages."""
    if answer.code != 0:
        return []
    starts = dict(_table(answer.ext.get("startOffsetInfo", "")))
    offsets = {key: value.split(",") for key, value in _table(answer.ext.get("msgOffsetInfo", ""))}
    found = []
    for record in decode_records(answer.body):
        if (text := record.properties.get("POP_CK")) is not None:
            found.append(Delivery(record, Handle.parse(text)))
            continue
        key = ("0", str(record.queue_id))
        assert str(record.queue_offset) in offsets[key], f"{record.queue_offset}: {offsets}"
        handle = Handle(
            int(starts[key]),
            int(answer.ext["popTime"]),
            int(answer.ext["invisibleTime"]),
            int(answer.ext["reviveQid"]),
            "0",
            broker,
            record.queue_id,
            record.queue_offset,
        )
        found.append(Delivery(record, handle))
    return found


def _table(text: str) -> Iterable[tuple[tuple[str, str], str]]:
    """By kind of topic and queue."""
    for entry in text.split(";"):
        if entry:
            retry, queue, value = entry.split(" ")
            yield (retry, queue), value


def ack_command(topic: str, group: str, handle: Handle) -> Command:
    return Command(ACK_MESSAGE, _delivery(topic, group, handle))


def change_command(topic: str, group: str, handle: Handle, invisible: int) -> Command:
    """The message stays invisible for `invisible` ms from now on."""
    ext = _delivery(topic, group, handle) | {"invisibleTime": str(invisible)}
    return Command(CHANGE_MESSAGE_INVISIBLETIME, ext)


def changed(handle: Handle, answer: Command) -> Handle:
    """The handle that counts after a change."""
    return Handle(
        handle.offset,
        int(answer.ext["popTime"]),
        int(answer.ext["invisibleTime"]),
        int(answer.ext["reviveQid"]),
        handle.retry,
        handle.broker,
        handle.queue_id,
        handle.offset,
    )


def batch_ack_command(topic: str, group: str, handles: Iterable[Handle]) -> Command:
    """BATCH_ACK_MESSAGE of deliveries of one broker: an entry for each check point."""
    points: dict[Handle, list[int]] = {}
    brokers = set()
    for handle in handles:
        brokers.add(handle.broker)
        point = Handle(
            handle.start, handle.pop_time, handle.invisible, handle.revive_queue, handle.retry,
            handle.broker, handle.queue_id, 0,
        )  # fmt: skip
        points.setdefault(point, []).append(handle.offset - handle.start)
    (broker,) = brokers
    acks = [
        {
            "c": group, "t": topic, "r": point.retry, "so": point.start, "q": point.queue_id,
            "rq": point.revive_queue, "pt": point.pop_time, "it": point.invisible,
            "b": bit_set(bits),
        }
        for point, bits in points.items()
    ]  # fmt: skip
    return Command(BATCH_ACK_MESSAGE, {}, json.dumps({"brokerName": broker, "acks": acks}).encode())


def bit_set(bits: Iterable[int]) -> str:
    """Little-endian bits in Base64, without zeros at the end."""
    number = sum(1 << bit for bit in bits)
    return base64.b64encode(number.to_bytes((number.bit_length() + 7) // 8, "little")).decode()


def real_topic(topic: str, group: str, handle: Handle) -> str:
    """The topic that the message is in: its own, or the retry topic of the group."""
    sign = {"0": "", "1": "_", "2": "+"}[handle.retry]
    return f"%RETRY%{group}{sign}{topic}" if sign and not topic.startswith("%RETRY%") else topic


def _delivery(topic: str, group: str, handle: Handle) -> dict[str, str]:
    return {
        "consumerGroup": group, "topic": real_topic(topic, group, handle),
        "queueId": str(handle.queue_id), "extraInfo": str(handle), "offset": str(handle.offset),
    }  # fmt: skip
