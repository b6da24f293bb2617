"""Look-ups by key on a disk that does not answer hold up nobody but themselves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import trio

import pyrmq.testing
from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.requests import processors as processors_module
from pyrmq.broker.requests.query import QUERIES, QUERIES_WAITING, QueryProcessor
from pyrmq.engine import Store
from tests.support.client import GET_MAX_OFFSET, VIEW_MESSAGE_BY_ID, Client
from tests.support.operators import DELETE_EXPIRED_COMMITLOG, QUERY_MESSAGE, create_topic, query
from tests.support.wire import Command

BUSY, NOT_FOUND = 2, 22
ASKED = 256
CONNECTIONS = 8


class Disk:
    """A store whose look-ups by key last until `go` is set."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.go = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def query_message(self, *args: Any) -> Any:
        assert self.go.wait(30)
        return self._store.query_message(*args)


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Disk]]:
    made: list[Disk] = []

    def processor(config: LiveConfig, store: Any) -> QueryProcessor:
        made.append(Disk(store))
        return QueryProcessor(config, made[-1])  # type: ignore[arg-type]

    monkeypatch.setattr(processors_module, "QueryProcessor", processor)
    yield made
    for disk in made:
        disk.go.set()


async def test_others_go_on(deadline: None, disks: list[Disk]) -> None:
    async with pyrmq.testing.broker() as running:
        await trio.to_thread.run_sync(ask, running.broker_address, disks[0])


def ask(address: tuple[str, int], disk: Disk) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(address)) for _ in range(CONNECTIONS)]
        refused = [post_queries(client) for client in clients]
        assert sum(refused) == ASKED - QUERIES - QUERIES_WAITING
        with Client(address) as other:
            assert create_topic(other, "Made").code == 0
            sent = other.send("Made")
            assert sent.code == 0
            offset = int(sent.ext["msgId"][16:], 16)
            assert other.call(VIEW_MESSAGE_BY_ID, offset=offset).code == 0
            assert other.call(DELETE_EXPIRED_COMMITLOG).code == 0
        disk.go.set()
        for client, count in zip(clients, refused, strict=True):
            codes = [client.receive().code for _ in range(ASKED // CONNECTIONS - count)]
            assert set(codes) <= {NOT_FOUND}
        assert query(clients[0], "T", "k").code == NOT_FOUND, "there is room again"


def post_queries(client: Client) -> int:
    """Asks without waiting; how many of the queries are refused at once."""
    fields = {"topic": "T", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "9"}
    for _ in range(ASKED // CONNECTIONS):
        client.post(Command(QUERY_MESSAGE, fields))
    last = client.post(Command(GET_MAX_OFFSET, {"topic": "SELF_TEST_TOPIC", "queueId": "0"}))
    refused = 0
    while (answer := client.receive()).opaque != last:
        assert answer.code == BUSY
        assert answer.remark is not None
        assert "queries by key are under way" in answer.remark
        refused += 1
    return refused
