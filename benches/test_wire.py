"""Reading frames, beside the json module on the same headers."""

from __future__ import annotations

import json

import pytest

from pyrmq.engine import Listener, RecvBuffer, Session
from pyrmq.model.properties import encode_properties
from pyrmq.net.command import JSON, ROCKETMQ, encode_request

COUNT = 64
EXT = {
    "a": "PG", "b": "TopicTest", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1700000000000,
    "h": 0, "j": 0, "k": False, "m": False, "n": "broker-a",
    "i": encode_properties({"UNIQ_KEY": "AC110001000118B4AAC200000000", "TAGS": "TagA"}),
}  # fmt: skip
UNKNOWN = 9999
"""A code that is no send: the frame is read and handed to Python as a Command."""


@pytest.mark.parametrize("codec", [JSON, ROCKETMQ], ids=["json", "rocketmq"])
@pytest.mark.benchmark(group="frame to Command, 64 in one feed")
def test_frame_decode(codec, paired, report) -> None:
    frame = encode_request(UNKNOWN, 1, EXT, b"x" * 100, codec=codec)
    header = frame[8 : 8 + int.from_bytes(frame[5:8], "big")]
    text = header if codec == JSON else json.dumps({"extFields": EXT, "code": 1}).encode()
    session = Session(Listener(), b"\x7f\0\0\1", 1)
    buffer = RecvBuffer(64 * 1024)
    memoryview(buffer)[: len(frame) * COUNT] = frame * COUNT

    def read() -> None:
        session.feed(buffer, len(frame) * COUNT, 0)
        for _ in range(COUNT):
            session.next_command()

    def yardstick() -> None:
        for _ in range(COUNT):
            json.loads(text)

    result = paired(read, yardstick, rounds=300)
    report(f"{result.speed:.2f} times json.loads of the header")
    report(f"{result.cpu_ns(COUNT):.0f} ns a frame")
