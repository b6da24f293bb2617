"""Who uses a broker: known amounts are sent and got, and the answers have exactly these.

Samples are taken by the tests, on a clock of their own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import trio

import pyrmq.testing
from pyrmq.server import Running
from tests.support.client import (
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    Client,
    batch_command,
    pull_command,
    pulled,
    send_command,
)
from tests.support.operators import create_topic
from tests.support.transactions import send_half
from tests.support.wire import BINARY, Command

USE, HISTORY = 27001, 27002
WAITS = PULL_SUBSCRIPTION | PULL_SUSPEND
PERIOD = 10.0
INVALID_PARAMETER = 29
HEART_BEAT = 34
THREE = [(b"1", {}), (b"22", {}), (b"333", {})]
FIGURES = ("messagesIn", "bytesIn", "messagesOut", "bytesOut", "requests")


class Sampled:
    """A broker in a thread of its own. `step` takes a sample, ten seconds after the last one."""

    def __init__(self) -> None:
        self._ready, self._stop = threading.Event(), trio.Event()
        self._token: trio.lowlevel.TrioToken
        self.running: Running
        self.now = 1e9
        self._thread = threading.Thread(target=trio.run, args=(self._serve,))
        self._thread.start()
        assert self._ready.wait(30)
        self.admin = Client(self.running.broker_address)

    async def _serve(self) -> None:
        async with pyrmq.testing.broker() as running:
            self.running = running
            self._token = trio.lowlevel.current_trio_token()
            running.broker.parts.stats.clock = lambda: self.now
            self._ready.set()
            await self._stop.wait()

    def close(self) -> None:
        self.admin.close()
        trio.from_thread.run_sync(self._stop.set, trio_token=self._token)
        self._thread.join()

    def client(self) -> Client:
        return Client(self.running.broker_address)

    def step(self, seconds: float = PERIOD) -> None:
        self.now += seconds
        trio.from_thread.run(self.running.broker.parts.stats.sample, trio_token=self._token)

    def use(self, kind: str, **asked: object) -> dict[str, Any]:
        answer = self.admin.call(USE, kind=kind, **asked)
        assert answer.code == 0, answer.remark
        found: dict[str, Any] = json.loads(answer.body)
        return found

    def rows(self, kind: str, **asked: object) -> dict[str, tuple[int, ...]]:
        rows = self.use(kind, limit=1024, **asked)["rows"]
        found: dict[str, tuple[int, ...]] = {}
        for row in rows:  # connections without a heartbeat together, by their host
            name = row["name"] or row["host"].rpartition(":")[0]
            known = found.get(name, (0,) * len(FIGURES))
            found[name] = tuple(k + row[f] for k, f in zip(known, FIGURES, strict=True))
        return found


@pytest.fixture
def sampled() -> Iterator[Sampled]:
    found = Sampled()
    try:
        yield found
    finally:
        found.close()


def heartbeat(client: Client, client_id: str, *producers: str) -> None:
    data = {
        "clientID": client_id,
        "consumerDataSet": [],
        "producerDataSet": [{"groupName": g} for g in producers],
    }
    assert client.call(HEART_BEAT, json.dumps(data).encode()).code == 0


def size_of(sampled: Sampled, topic: str) -> int:
    """Bytes of the records of a topic since the start."""
    puts = sampled.running.broker.store.puts()
    return sum(nbytes for name, _, nbytes in puts if name == topic)


def send(client: Client, topic: str, group: str, count: int = 1, **options: Any) -> None:
    for _ in range(count):
        answer = client.request(send_command(topic, b"x" * 100, change={"a": group}, **options))
        assert answer.code == 0, answer.remark


def test_what_is_sent_and_pulled_by_client_group_and_topic(sampled: Sampled) -> None:
    create_topic(sampled.admin, "A", 1)
    create_topic(sampled.admin, "B", 1)
    one, two, silent = sampled.client(), sampled.client(), sampled.client()
    heartbeat(one, "one@1", "p1", "p2")
    heartbeat(two, "two@2", "p1")
    sampled.step()
    send(one, "A", "p1", 5)
    send(one, "B", "p2", 2)
    send(two, "A", "p1", 3)
    assert two.request(batch_command("B", THREE, change={"a": "p1"})).code == 0
    bytes_a, bytes_b = size_of(sampled, "A"), size_of(sampled, "B")
    # The first pull is checked by Python, the others are answered by the session.
    for _ in range(4):
        assert len(pulled(two.request(pull_command("A", 0, 0, group="c"))).records) == 8
    assert len(pulled(silent.request(pull_command("B", 0, 0, group="d"))).records) == 5
    sampled.step()

    clients = sampled.rows("client", seconds=10)
    each = bytes_a // 8
    batch = bytes_b - 2 * each
    assert clients["one@1"] == (7, 7 * each, 0, 0, 7)
    assert clients["two@2"] == (6, 3 * each + batch, 32, 4 * bytes_a, 8)
    assert clients["127.0.0.1"][2:4] == (5, bytes_b)
    assert sampled.rows("producer", seconds=10) == {
        "p1": (11, 8 * each + batch, 0, 0, 9),
        "p2": (2, 2 * each, 0, 0, 2),
    }
    assert sampled.rows("consumer", seconds=10) == {
        "c": (0, 0, 32, 4 * bytes_a, 4),
        "d": (0, 0, 5, bytes_b, 1),
    }
    topics = sampled.rows("topic", seconds=10)
    assert topics["A"] == (8, bytes_a, 32, 4 * bytes_a, 4)
    assert topics["B"] == (5, bytes_b, 5, bytes_b, 1)
    point = json.loads(sampled.admin.call(HISTORY, seconds=10).body)["points"][-1]
    assert [point[kind] for kind in ("sends", "pulls", "acks", "ends")] == [11, 5, 0, 0]
    assert (point["messagesIn"], point["messagesOut"]) == (13, 37)
    assert point["bytesOut"] == 4 * bytes_a + bytes_b
    whole = sampled.use("client", seconds=10)
    assert whole["total"]["messagesIn"] == 13
    assert (whole["seconds"], whole["others"]["folded"]) == (10.0, 0)
    assert whole["now"] >= whole["end"] == whole["begin"] + 10_000
    for client in (one, two, silent):
        client.close()


def test_the_last_sample_the_minute_and_the_hour(sampled: Sampled) -> None:
    create_topic(sampled.admin, "A", 1)
    client = sampled.client()
    heartbeat(client, "c@1", "p")
    sampled.step()
    for n in range(1, 9):
        send(client, "A", "p", n)
        sampled.step()
    assert sampled.rows("producer", seconds=10)["p"][0] == 8
    assert sampled.rows("producer", seconds=60)["p"][0] == 3 + 4 + 5 + 6 + 7 + 8
    assert sampled.rows("producer", seconds=3600)["p"][0] == sum(range(1, 9))
    for _ in range(6):
        sampled.step()
    assert "p" not in sampled.rows("producer", seconds=60)
    assert sampled.rows("producer", seconds=3600)["p"][0] == sum(range(1, 9))
    for _ in range(6 * 61):
        sampled.step()
    assert sampled.rows("producer", seconds=3600) == {}
    client.close()


def test_who_is_gone_before_the_sample_is_counted(sampled: Sampled) -> None:
    create_topic(sampled.admin, "A", 1)
    sampled.step()
    with sampled.client() as client:
        heartbeat(client, "short@1", "p")
        send(client, "A", "p", 3)
    with sampled.client() as client:  # it is served after the other one was closed, or at once
        heartbeat(client, "later@1", "p")
        send(client, "A", "p", 2)
    trio.from_thread.run(_until_closed, sampled, trio_token=sampled._token)
    sampled.step()
    clients = sampled.rows("client", seconds=10)
    assert (clients["short@1"][0], clients["later@1"][0]) == (3, 2)
    assert sampled.rows("producer", seconds=10)["p"][0] == 5


async def _until_closed(sampled: Sampled) -> None:
    server = sampled.running.broker.parts.server
    with trio.fail_after(30):
        while len(server.connections) > 1:  # noqa: ASYNC110 - a bounded wait of a test
            await trio.sleep(0.01)


def test_halves_and_one_way_sends_count_and_refused_ones_are_requests(sampled: Sampled) -> None:
    create_topic(sampled.admin, "A", 1)
    client = sampled.client()
    heartbeat(client, "c@1", "p")
    sampled.step()
    send_half(client, "A", b"half")
    client.oneway(send_command("A", b"x", change={"a": "q"}))
    refused = client.request(send_command("A", b"x", queue_id=99))
    assert refused.code != 0
    sampled.step()
    messages, _, _, _, requests = sampled.rows("client", seconds=10)["c@1"]
    assert (messages, requests) == (2, 3)
    assert sampled.rows("producer", seconds=10)["q"][0] == 1
    client.close()


def test_hostile_names_and_many_groups(sampled: Sampled) -> None:
    create_topic(sampled.admin, "A", 1)
    client = sampled.client()
    heartbeat(client, 'evil"\n\0id', "p")
    sampled.step()
    bad = '\n"\x1b[31m\0&'
    send(client, "A", bad, serialize=BINARY)
    send(client, "A", "escaped\n")  # in JSON: no group has such a name, and it has no row
    send(client, "A", "x" * 5000)
    for n in range(40):
        send(client, "A", f"g{n}")
    sampled.step()
    producers = sampled.rows("producer", seconds=10)
    assert bad in producers
    assert len(producers) == 8
    assert not any(name.startswith("escaped") for name in producers)
    assert sampled.rows("client", seconds=10)['evil"\n\0id'][0] == 43
    (row,) = [r for r in sampled.use("client", seconds=10)["rows"] if r["messagesIn"]]
    assert row["host"] == "127.0.0.1"
    client.close()


def test_pages_and_bad_requests(sampled: Sampled) -> None:
    for n in range(6):
        create_topic(sampled.admin, f"T{n}", 1)
        for _ in range(n + 1):
            assert sampled.admin.send(f"T{n}").code == 0
    sampled.step()
    sampled.step()
    pages = [
        [r["name"] for r in sampled.use("topic", sort="messagesIn", limit=2, offset=at)["rows"]]
        for at in (0, 2, 4, 6)
    ]
    assert pages == [["T5", "T4"], ["T3", "T2"], ["T1", "T0"], []]
    assert sampled.use("topic", limit=1)["count"] == 6
    for asked in (
        {"kind": "nobody"},
        {"kind": "topic", "sort": "size"},
        {"kind": "topic", "limit": 0},
        {"kind": "topic", "limit": 1025},
        {"kind": "topic", "seconds": 3601},
        {"kind": "topic", "offset": -1},
    ):
        assert sampled.admin.call(USE, **asked).code == INVALID_PARAMETER, asked
    assert sampled.admin.call(HISTORY, seconds=0).code == INVALID_PARAMETER


def test_the_history_of_the_broker(sampled: Sampled) -> None:
    create_topic(sampled.admin, "A", 1)
    sampled.step()
    for _ in range(3):
        assert sampled.admin.send("A").code == 0
    sampled.step()
    for _ in range(400):
        sampled.step()
    answer = sampled.admin.call(HISTORY)
    points = json.loads(answer.body)["points"]
    assert len(points) == 360
    assert all(b["end"] - a["end"] == 10_000 for a, b in pairwise(points))
    assert points[-1]["connections"] == 1
    assert points[-1]["logEnd"] == sampled.running.broker.store.stats()["maxPhyOffset"]
    assert sum(point["messagesIn"] for point in points) == 0
    last = json.loads(sampled.admin.call(HISTORY, seconds=30).body)["points"]
    assert len(last) == 3 or len(last) == 4


def test_a_sample_that_came_late_is_an_average_over_its_time(sampled: Sampled) -> None:
    create_topic(sampled.admin, "A", 1)
    sampled.step()
    assert sampled.admin.send("A").code == 0
    sampled.step(35.0)
    found = sampled.use("topic", seconds=10)
    assert (found["seconds"], found["rows"][0]["messagesIn"]) == (35.0, 1)


def test_parked_pulls_and_pops_count_for_their_clients(sampled: Sampled) -> None:
    create_topic(sampled.admin, "A", 1)
    waiting = sampled.client()
    heartbeat(waiting, "w@1", "p")
    sampled.step()
    waiting.post(pull_command("A", 0, 0, group="c", sys_flag=WAITS, suspend_ms=20_000))
    assert sampled.admin.send("A").code == 0
    answer: Command = waiting.receive()
    assert len(pulled(answer).records) == 1
    sampled.step()
    messages_out = sampled.rows("client", seconds=10)["w@1"][2]
    assert messages_out == 1
    waiting.close()
