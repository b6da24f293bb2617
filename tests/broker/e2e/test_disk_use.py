"""GET_DISK_USE of a broker in this process: pages, bad requests, many at a time."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

import pyrmq.testing
from pyrmq.broker.requests import disk_use as requests
from pyrmq.broker.stats import disk_use
from pyrmq.server import Running
from tests.support.client import Client
from tests.support.operators import create_topic
from tests.support.wire import Command

DISK, RUNTIME_INFO = 27003, 28
INVALID_PARAMETER, SYSTEM_BUSY = 29, 2


def filled(address: tuple[str, int]) -> Client:
    client = Client(address)
    for n in range(4):
        create_topic(client, f"T{n}", 2)
        for queue_id in range(2):
            for _ in range(n + 1):
                assert client.send(f"T{n}", b"x" * 100, queue_id=queue_id).code == 0
    return client


def found(answer: Command) -> dict[str, Any]:
    assert answer.code == 0, answer.remark
    body: dict[str, Any] = json.loads(answer.body)
    return body


async def test_pages_a_topic_and_bad_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    async with pyrmq.testing.broker() as server:
        await trio.to_thread.run_sync(_pages, server)
        monkeypatch.setattr(requests, "MAX_QUEUES", 1)
        await trio.to_thread.run_sync(_one_queue, server)


async def test_a_store_whose_folder_is_not_utf8(tmp_path: Path) -> None:
    async with pyrmq.testing.broker(tmp_path / os.fsdecode(b"st\xff")) as server:
        await trio.to_thread.run_sync(_named_folder, server)


def _named_folder(server: Running) -> None:
    with Client(server.broker_address) as client:
        (disk, *_) = found(client.call(DISK))["disks"]
        assert "/st?" in disk["path"]
        assert any("/st?" in key for key in found(client.call(RUNTIME_INFO))["table"])


def _one_queue(server: Running) -> None:
    with Client(server.broker_address) as client:
        (topic,) = found(client.call(DISK, topic="T2"))["topics"]
        assert (len(topic["byQueue"]), topic["queues"]) == (1, 2)


def _pages(server: Running) -> None:
    with filled(server.broker_address) as client:
        pages = [
            [t["topic"] for t in found(client.call(DISK, limit=3, offset=at))["topics"]]
            for at in (0, 3, 6)
        ]
        assert pages == [["T3", "T2", "T1"], ["T0"], []]
        one = found(client.call(DISK, topic="T2"))
        (topic,) = one["topics"]
        assert [q["messages"] for q in topic["byQueue"]] == [3, 3]
        assert sum(q["bytes"] for q in topic["byQueue"]) == topic["bytes"]
        assert found(client.call(DISK, topic="nowhere"))["topics"] == []
        assert (one["next"]["files"], one["next"]["topics"]) == (0, [])
        for bad in ({"limit": 0}, {"limit": 1025}, {"offset": -1}, {"files": 65}, {"files": -1}):
            assert client.call(DISK, **bad).code == INVALID_PARAMETER, bad


async def test_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One measurement runs, and answers all who waited for it; more than that are refused."""
    go_on, measured = threading.Event(), []
    measure = disk_use.report

    def held(*args: Any) -> disk_use.Report:
        assert go_on.wait(30)
        measured.append(args)
        return measure(*args)

    monkeypatch.setattr(disk_use, "report", held)
    async with pyrmq.testing.broker() as server:
        await trio.to_thread.run_sync(_many, server, go_on)
    assert len(measured) == 1


def _many(server: Running, go_on: threading.Event) -> None:
    taken = requests.WAITING + 1
    with filled(server.broker_address) as client:
        for _ in range(3 * taken):
            client.post(Command(DISK, {"limit": "1"}))
        refused = [client.receive() for _ in range(2 * taken)]
        assert {answer.code for answer in refused} == {SYSTEM_BUSY}
        assert "measurements of the disk are under way" in (refused[0].remark or "")
        go_on.set()
        assert {client.receive().code for _ in range(taken)} == {0}
