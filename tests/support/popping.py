"""Pops at the wire: requests, and what their answers say of each message."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass

from pyrmq.model.pop import ExtraInfo, parse_offsets_info, parse_start_info, retry_of
from tests.support.client import Client
from tests.support.records import Record, decode_records
from tests.support.wire import Command

POP, ACK, PEEK, CHANGE, NOTIFICATION, POLLING_INFO = range(200050, 200056)
BATCH_ACK = 200151
NOT_FOUND, FULL, TIMEOUT, NO_MESSAGE = 19, 209, 210, 208


@dataclass(frozen=True, slots=True)
class PoppedMessage:
    record: Record
    handle: ExtraInfo

    @property
    def body(self) -> bytes:
        return self.record.body


def pop_command(topic: str, group: str = "CG_pop", **change: object) -> Command:
    """One that does not wait, of all queues."""
    ext = {
        "consumerGroup": group, "topic": topic, "queueId": -1, "maxMsgNums": 32,
        "invisibleTime": 60_000, "pollTime": 0, "bornTime": int(time.time() * 1000),
        "initMode": 0, "expType": "TAG", "exp": "*", "order": "false",
    }  # fmt: skip
    wanted = {k: str(v) for k, v in (ext | change).items() if v is not None}
    return Command(POP, wanted)


def popped(answer: Command) -> list[PoppedMessage]:
    """The messages of an answer, each with its handle, as clients find them out."""
    assert answer.code == 0, f"{answer.code} {answer.remark}"
    starts = parse_start_info(answer.ext["startOffsetInfo"])
    offsets = parse_offsets_info(answer.ext["msgOffsetInfo"])
    assert starts.keys() == offsets.keys()
    at: dict[tuple[str, int], int] = defaultdict(int)
    found = []
    for record in decode_records(answer.body):
        if (text := record.properties.get("POP_CK")) is not None:
            found.append(PoppedMessage(record, ExtraInfo.parse(text)))
            continue
        key = retry_of(record.topic), record.queue_id
        offset = offsets[key][at[key]]
        at[key] += 1
        handle = ExtraInfo(
            starts[key],
            int(answer.ext["popTime"]),
            int(answer.ext["invisibleTime"]),
            int(answer.ext["reviveQid"]),
            key[0],
            "broker-a",
            record.queue_id,
            offset,
        )
        found.append(PoppedMessage(record, handle))
    return found


def pop(client: Client, topic: str, group: str = "CG_pop", **change: object) -> list[PoppedMessage]:
    """The messages of a pop, none if it finds none."""
    answer = client.request(pop_command(topic, group, **change))
    return [] if answer.code == TIMEOUT else popped(answer)


def ack_command(
    message: PoppedMessage,
    group: str = "CG_pop",
    code: int = ACK,
    topic: str | None = None,
    **change: object,
) -> Command:
    handle = message.handle
    ext = {
        "consumerGroup": group, "topic": topic or handle.topic(message.record.topic, group),
        "queueId": handle.queue_id, "offset": handle.offset, "extraInfo": handle.encode(),
    }  # fmt: skip
    return Command(code, {k: str(v) for k, v in (ext | change).items() if v is not None})


def ack(client: Client, message: PoppedMessage, group: str = "CG_pop") -> None:
    answer = client.request(ack_command(message, group))
    assert answer.code == 0, f"{answer.code} {answer.remark}"
