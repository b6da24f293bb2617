"""Requests of every kind, and ways to damage them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from tests.support.client import (
    HEART_BEAT,
    LOCK_BATCH_MQ,
    QUERY_CONSUMER_OFFSET,
    REGISTER_BROKER,
    UPDATE_CONSUMER_OFFSET,
    VIEW_MESSAGE_BY_ID,
    batch_command,
    pull_command,
    send_command,
)
from tests.support.wire import Command

TOPIC = "FuzzTopic"


def samples() -> list[Command]:
    """One valid request of every kind the server reads."""
    heartbeat = {"clientID": "c", "consumerDataSet": [{"groupName": "CG", "consumeType": 1}]}
    queue = {"brokerName": "broker-a", "queueId": 0, "topic": TOPIC}
    lock = {"clientId": "c", "consumerGroup": "CG", "mqSet": [queue]}
    offsets = {"consumerGroup": "CG", "topic": TOPIC, "queueId": "0", "commitOffset": "0"}
    broker = {"brokerName": "b", "brokerAddr": "127.0.0.1:1", "clusterName": "c", "brokerId": "0"}
    return [
        send_command(TOPIC, b"plain", properties={"TAGS": "A", "KEYS": "k"}),
        send_command(TOPIC, b"old", code=10),
        batch_command(TOPIC, [(b"one", {"TAGS": "A"}), (b"two", {})]),
        pull_command(TOPIC, 0, 0),
        Command(HEART_BEAT, {}, json.dumps(heartbeat).encode()),
        Command(LOCK_BATCH_MQ, {}, json.dumps(lock).encode()),
        Command(QUERY_CONSUMER_OFFSET, offsets),
        Command(UPDATE_CONSUMER_OFFSET, offsets),
        Command(VIEW_MESSAGE_BY_ID, {"offset": "0"}),
        Command(REGISTER_BROKER, broker, b"{}"),
    ]


def flip(chance: random.Random, data: bytearray) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def overwrite(chance: random.Random, data: bytearray) -> None:
    at = chance.randrange(len(data))
    data[at : at + 4] = chance.choice(
        (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", chance.randbytes(4))
    )


def cut(chance: random.Random, data: bytearray) -> None:
    at = chance.randrange(len(data))
    del data[at : at + chance.randint(1, 40)]


def repeat(chance: random.Random, data: bytearray) -> None:
    at = chance.randrange(len(data))
    data[at:at] = data[at : at + chance.randint(1, 40)] * chance.randint(1, 50)


DAMAGE: list[Callable[[random.Random, bytearray], None]] = [flip, overwrite, cut, repeat]
