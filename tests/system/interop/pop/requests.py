"""The requests of pop, timers and recall, as fields and bodies."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.support.client import Client, send_command
from tests.support.records import Record, decode_records
from tests.support.wire import Command

from .asking import now_ms

POP, ACK, PEEK, CHANGE_INVISIBLE = 200050, 200051, 200052, 200053
NOTIFICATION, POLLING_INFO, BATCH_ACK = 200054, 200055, 200151
QUERY_ASSIGNMENT, SET_MESSAGE_REQUEST_MODE, RECALL = 400, 401, 370
UPDATE_TOPIC, UPDATE_GROUP, QUERY_OFFSET = 17, 200, 14
Fields = dict[str, object]


def pop(topic: str, group: str, /, **change: object) -> Fields:
    """Of one queue, at once, from the start; a field of None is left out."""
    fields: Fields = {
        "consumerGroup": group, "topic": topic, "queueId": 0, "maxMsgNums": 8,
        "invisibleTime": 60000, "pollTime": 0, "bornTime": now_ms(), "initMode": 0,
        "expType": "TAG", "exp": "*", "order": "false",
    }  # fmt: skip
    return fields | change


def make_topic(
    client: Client, topic: str, queues: int = 1, perm: int = 6, **attributes: str
) -> None:
    """attributes: `message_type="PRIORITY"`."""
    text = ",".join(f"+{name.replace('_', '.')}={value}" for name, value in attributes.items())
    answer = client.call(
        UPDATE_TOPIC, topic=topic, defaultTopic="TBW102", readQueueNums=queues,
        writeQueueNums=queues, perm=perm, topicFilterType="SINGLE_TAG", topicSysFlag=0,
        order="false", attributes=text,
    )  # fmt: skip
    assert answer.code == 0, answer.remark


def make_group(client: Client, group: str, **change: object) -> None:
    body = {"groupName": group, "consumeEnable": True, "retryMaxTimes": 16, "retryQueueNums": 1}
    answer = client.call(UPDATE_GROUP, json.dumps(body | change).encode())
    assert answer.code == 0, answer.remark


@dataclass(frozen=True)
class Popped:
    """What a pop gave, as a client keeps it for its acknowledgements."""

    answer: Command
    records: list[Record]
    group: str
    start: int

    def handle(self, index: int = 0, /, **change: object) -> str:
        """The eight fields of a message, any of them changed."""
        record, ext = self.records[index], self.answer.ext
        fields: Fields = {
            "start": self.start, "popTime": ext["popTime"], "invisibleTime": ext["invisibleTime"],
            "reviveQid": ext["reviveQid"], "retry": 0, "broker": "broker-a",
            "queue": record.queue_id, "offset": record.queue_offset,
        }  # fmt: skip
        return " ".join(str(value) for value in (fields | change).values())

    def ack(self, index: int = 0, /, **change: object) -> Fields:
        """Fields of ACK_MESSAGE; with invisibleTime, of CHANGE_MESSAGE_INVISIBLETIME."""
        record = self.records[index]
        fields: Fields = {
            "consumerGroup": self.group, "topic": record.topic, "queueId": record.queue_id,
            "extraInfo": self.handle(index), "offset": record.queue_offset,
        }  # fmt: skip
        return fields | change

    def batch(self, bits: str, /, **change: object) -> dict[str, object]:
        """One entry of BATCH_ACK_MESSAGE; bits in base64."""
        record, ext = self.records[0], self.answer.ext
        fields: Fields = {
            "c": self.group, "t": record.topic, "r": "0", "so": self.start, "q": record.queue_id,
            "rq": int(ext["reviveQid"]), "pt": int(ext["popTime"]),
            "it": int(ext["invisibleTime"]), "b": bits,
        }  # fmt: skip
        return {name: value for name, value in (fields | change).items() if value is not None}


def popped(answer: Command, group: str) -> Popped:
    start = int(answer.ext["startOffsetInfo"].split(";")[0].split(" ")[2])
    return Popped(answer, decode_records(answer.body), group, start)


def batch_ack(*acks: dict[str, object], broker: str = "broker-a") -> bytes:
    return json.dumps({"brokerName": broker, "acks": acks}).encode()


def timer(topic: str, body: bytes = b"t", **properties: object) -> Command:
    """A send with properties of a timer message."""
    named = {"UNIQ_KEY": "7F0000010001" + f"{now_ms():020X}"}
    named |= {name: str(value) for name, value in properties.items()}
    return send_command(topic, body, properties=named)
