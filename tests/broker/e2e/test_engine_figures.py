"""How long requests take: every request over a socket is counted once, whoever answers it. Plain
and with TLS, with ASYNC_FLUSH and with SYNC_FLUSH."""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest

import pyrmq.testing
from pyrmq.engine import RPC_BOUNDS_US, SIZE_BOUNDS, TIME_BOUNDS_US
from pyrmq.testing import TestServer
from tests.support.client import (
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    SEND_MESSAGE,
    Client,
    batch_command,
    pull_command,
    send_command,
)
from tests.support.in_thread import InThread
from tests.support.operators import create_topic
from tests.support.transactions import COMMIT, end, send_half
from tests.support.waiting import eventually
from tests.support.wire import Command

UPDATE_BROKER_CONFIG, GET_MAX_OFFSET, UNKNOWN = 25, 30, 9999
SEND, BATCH, PULL, END = 310, 320, 11, 37
INVALID_PARAMETER, NOT_FOUND, NO_SUCH_REQUEST = 29, 19, 3
HEAD = 3
_numbers = count()
Served = InThread[TestServer]
Key = tuple[int, int, bool, str]


@pytest.fixture(scope="module", params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    serving = partial(pyrmq.testing.broker, flush_disk_type=request.param)
    with InThread(serving) as server:
        yield server


@pytest.fixture(params=["plain", "tls"])
def client(served: Served, request: pytest.FixtureRequest) -> Iterator[Client]:
    context = None
    if request.param == "tls":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    address = served.look(lambda server: server.broker_address)
    with Client(address, tls=context) as connection:
        yield connection


@pytest.fixture
def topic(client: Client) -> str:
    name = f"Counted{next(_numbers)}"
    assert create_topic(client, name, 4).code == 0
    return name


def rows(served: Served) -> Counter[Key]:
    """How many requests there were of each kind."""
    found = served.look(lambda server: server.broker.parts.server.figures.rows())
    for *_, row in found:
        assert len(row) == HEAD + len(RPC_BOUNDS_US) + 1
        assert row[0] == sum(row[HEAD:])
        assert row[2] <= row[1], "the longest is not longer than all together"
    return Counter(
        {(code, answer, parked, how): row[0] for code, answer, parked, how, row in found}
    )


def figures(served: Served) -> dict[str, int | list[int]]:
    return served.look(lambda server: server.broker.store.figures())


def times(served: Served, name: str) -> int:
    row = figures(served)[name]
    assert isinstance(row, list)
    assert len(row) == HEAD + len(TIME_BOUNDS_US) + 1
    assert row[0] == sum(row[HEAD:])
    return row[0]


def test_every_send_is_counted_once(served: Served, client: Client, topic: str) -> None:
    before, sends = rows(served), times(served, "sendLatency")
    for n in range(20):
        assert client.send(topic, b"%d" % n).code == 0
    assert client.send(topic, code=SEND_MESSAGE).code == 0
    assert client.request(batch_command(topic, [(b"1", {}), (b"2", {})])).code == 0
    assert client.send(topic, queue_id=99).code == INVALID_PARAMETER
    pipelined = [send_command(topic, b"together") for _ in range(50)]
    for command in pipelined:
        client.post(command)
    assert all(client.receive().code == 0 for _ in pipelined)
    for _ in range(3):
        client.oneway(send_command(topic, b"one-way"))
    assert client.call(GET_MAX_OFFSET, topic=topic, queueId=0).code == 0
    assert rows(served) - before == {
        (SEND, 0, False, "success"): 70,
        (SEND_MESSAGE, 0, False, "success"): 1,
        (BATCH, 0, False, "success"): 1,
        (SEND, INVALID_PARAMETER, False, "success"): 1,
        (SEND, 0, False, "oneway"): 3,
        (GET_MAX_OFFSET, 0, False, "success"): 1,
    }
    assert times(served, "sendLatency") - sends == 72


def test_a_send_that_makes_its_topic_is_counted_once(served: Served, client: Client) -> None:
    before = rows(served)
    assert client.send(f"Made{next(_numbers)}").code == 0
    assert rows(served) - before == {(SEND, 0, False, "success"): 1}


def test_pulls_are_counted_whoever_answers_them(served: Served, client: Client, topic: str) -> None:
    client.send(topic)
    before = rows(served)
    for _ in range(10):  # the first one is checked in Python, the others are granted
        assert client.pull(topic, 0, 0).code == 0
    assert client.pull(topic, 0, 1).code == NOT_FOUND
    grown = rows(served) - before
    assert grown[PULL, 0, False, "success"] == 10
    assert grown[PULL, NOT_FOUND, False, "success"] == 1
    assert sum(grown.values()) == 11


def test_what_was_parked_is_long_polling(served: Served, client: Client, topic: str) -> None:
    before = rows(served)
    hold = PULL_SUSPEND | PULL_SUBSCRIPTION
    number = client.post(pull_command(topic, 0, 0, sys_flag=hold, suspend_ms=30_000))
    address = served.look(lambda server: server.broker_address)
    with Client(address) as other:
        assert other.send(topic).code == 0
    answer = client.receive()
    assert (answer.code, answer.opaque) == (0, number)
    assert rows(served) - before == {
        (PULL, 0, True, "success"): 1,
        (SEND, 0, False, "success"): 1,
    }


def test_transactions_and_unknown_requests(served: Served, client: Client, topic: str) -> None:
    before = rows(served)
    half = send_half(client, topic)
    assert end(client, half, COMMIT).code == 0
    for _ in range(2):
        assert client.call(UNKNOWN).code == NO_SUCH_REQUEST
    assert rows(served) - before == {
        (SEND, 0, False, "success"): 1,
        (END, 0, False, "success"): 1,
        (UNKNOWN, NO_SUCH_REQUEST, False, "success"): 2,
    }


def test_sizes_are_by_topic_and_type(served: Served, client: Client, topic: str) -> None:
    def sizes() -> Counter[tuple[str, int]]:
        found = served.look(lambda server: server.broker.store.message_sizes(topic))
        for _, (number, *buckets, total) in found:
            assert number == sum(buckets)
            assert number * 100 < total < number * 4096
        rows = ((kind, enumerate(row[1 : len(SIZE_BOUNDS) + 2])) for kind, row in found)
        return Counter({(kind, at): n for kind, row in rows for at, n in row if n})

    before = sizes()
    assert not before
    client.send(topic, b"x" * 10)
    client.send(topic, b"x" * 2000)
    client.send(topic, b"x" * 10, properties={"__SHARDINGKEY": "k"})
    client.send(topic, b"x" * 10, properties={"DELAY": "1"})
    client.request(batch_command(topic, [(b"x" * 10, {}), (b"x" * 10, {})]))
    assert sizes() - before == {
        ("NORMAL", 0): 2,
        ("NORMAL", 1): 1,
        ("FIFO", 0): 1,
        ("DELAY", 0): 1,
    }


def test_the_store_tells_what_its_disk_takes(served: Served, client: Client, topic: str) -> None:
    is_sync = served.look(lambda server: server.broker.store.is_sync)
    before, waits = figures(served), times(served, "barrierWait")
    writes, flushes = times(served, "putLatency"), times(served, "flushLatency")
    for _ in range(10):
        client.send(topic)
    assert times(served, "putLatency") - writes >= 10, "one after the other: each was a round"
    after = figures(served)
    for name in ("dispatchLagBytes", "confirmLagBytes", "flushLagBytes"):
        assert isinstance(after[name], int)
    if is_sync:
        assert times(served, "barrierWait") - waits == 10
        assert times(served, "flushLatency") > flushes
        assert times(served, "commitLatency") > 0
        assert int(str(after["flushedBytes"])) > int(str(before["flushedBytes"]))
        assert after["confirmLagBytes"] == after["flushLagBytes"] == 0
    else:
        assert times(served, "barrierWait") == 0
        assert after["confirmLagBytes"] == 0, "what is written is confirmed"
    eventually(lambda: figures(served)["dispatchLagBytes"] == 0, "the index follows")
    assert (after["writeUnderWayMs"], after["writeStalls"], after["busyRefusals"]) == (0, 0, 0)


def test_the_limit_changes_while_the_broker_runs(served: Served, client: Client) -> None:
    def limit() -> int:
        return served.look(lambda server: server.broker.parts.server.slow_requests.limit_us)

    for ms in (60_000, 1000):
        body = f"slowLogMs={ms}".encode()
        assert client.request(Command(UPDATE_BROKER_CONFIG, {}, body)).code == 0
        assert limit() == ms * 1000
