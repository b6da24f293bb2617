"""SET_MESSAGE_REQUEST_MODE and GET_ALL_MESSAGE_REQUEST_MODE: modes are kept, bad ones refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.broker.e2e.test_requests import create_topic
from tests.support.client import Client
from tests.support.server import ServerProcess

SET, GET_ALL = 401, 402


def body(**change: object) -> bytes:
    values = {"topic": "T", "consumerGroup": "G", "mode": "PULL", "popShareQueueNum": 0}
    return json.dumps({**values, **change}).encode()


@pytest.mark.parametrize(("mode", "share"), [("PULL", 0), ("POP", 2), ("POP", -1)])
def test_modes_are_kept_over_a_restart(tmp_path: Path, mode: str, share: int) -> None:
    row = {"consumerGroup": "G", "mode": mode, "popShareQueueNum": share, "topic": "T"}
    with ServerProcess(tmp_path / "store") as server:
        with Client(server.broker) as client:
            create_topic(client, "T", 1)
            assert client.call(SET, body(mode=mode, popShareQueueNum=share)).code == 0
            assert json.loads(client.call(GET_ALL).body) == {
                "messageRequestModeMap": {"T": {"G": row}}
            }
        server.terminate()
        server.restart()
        with Client(server.broker) as client:
            found = json.loads(client.call(GET_ALL).body)
            assert found == {"messageRequestModeMap": {"T": {"G": row}}}
    path = tmp_path / "store" / "config" / "messageRequestMode.json"
    assert json.loads(path.read_text()) == {"messageRequestModeMap": {"T": {"G": row}}}


@pytest.mark.parametrize(
    ("content", "code", "why"),
    [
        (body(mode="PUSH"), 29, "PUSH"),
        (body(popShareQueueNum="2"), 29, "popShareQueueNum"),
        (body(topic="NotThere"), 17, "NotThere"),
        (body(topic="a b"), 29, "topic"),
        (body(consumerGroup=""), 29, "group"),
        (body(topic="%RETRY%G"), 16, "retry topic"),
        (b"x" * 5000, 29, "at most"),
        (b"[", 1, ""),
    ],
    ids=["mode", "share", "unknown", "topic", "group", "retry", "long", "json"],
)
def test_what_is_refused(tmp_path: Path, content: bytes, code: int, why: str) -> None:
    with ServerProcess(tmp_path / "store") as server, Client(server.broker) as client:
        create_topic(client, "T", 1)
        answer = client.call(SET, content)
        assert answer.code == code, answer.remark
        assert why in (answer.remark or "")
        assert json.loads(client.call(GET_ALL).body) == {"messageRequestModeMap": {}}
