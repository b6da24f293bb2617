"""Pull requests with senseless numbers, unknown subscriptions, and readers that never read.

Codes: broker sheet 3.1 and 3.3.
"""

from __future__ import annotations

import pytest

from tests.support.client import PULL_SUSPEND, Client, batch_command, pull_command
from tests.support.records import decode_records
from tests.support.server import ServerProcess
from tests.support.waiting import eventually
from tests.support.wire import BINARY, JSON, encode
from tests.system.hostile.probe import PATIENCE, Probe

BOTH = pytest.mark.parametrize("serialize", [JSON, BINARY], ids=["json", "binary"])
TOPIC = "PullTopic"
COUNT = 200


@pytest.fixture(scope="module", autouse=True)
def filled(server: ServerProcess) -> None:
    """200 messages of 1 KiB in queue 0."""
    with Client(server.broker) as client:
        for start in range(0, COUNT, 50):
            batch = [(b"%04d" % i * 256, {"TAGS": "A"}) for i in range(start, start + 50)]
            assert client.request(batch_command(TOPIC, batch)).code == 0
        assert len(client.pull_all(TOPIC, 0, 0, COUNT)) == COUNT


@BOTH
@pytest.mark.parametrize(
    ("offset", "code", "next_offset"),
    [
        (-1, 21, 0),
        (-(2**63), 21, 0),
        (COUNT, 19, COUNT),
        (COUNT + 1, 21, COUNT),
        (2**31, 21, COUNT),
        (2**62, 21, COUNT),
        (2**63 - 1, 21, COUNT),
    ],
)
def test_offset_outside_the_queue(
    client: Client, offset: int, code: int, next_offset: int, serialize: int
) -> None:
    pulled = client.pull(TOPIC, 0, offset, serialize=serialize)
    assert (pulled.code, pulled.next_offset) == (code, next_offset)
    assert (pulled.min_offset, pulled.max_offset) == (0, COUNT)
    assert pulled.records == []


@BOTH
@pytest.mark.parametrize("maximum", [33, 1000, 2**31 - 1])
def test_too_much_asked_for(client: Client, maximum: int, serialize: int) -> None:
    """At most 32 messages and 256 KiB an answer, whatever was asked for."""
    pulled = client.pull(TOPIC, 0, 0, maximum=maximum, serialize=serialize)
    assert pulled.code == 0
    assert 1 <= len(pulled.records) <= 32
    assert pulled.next_offset == len(pulled.records)


@BOTH
@pytest.mark.parametrize("maximum", [0, -1, -(2**31)])
def test_nothing_asked_for(client: Client, maximum: int, serialize: int) -> None:
    """Refused, empty, or the one message that is always given; never more."""
    pulled = client.pull(TOPIC, 0, 0, maximum=maximum, serialize=serialize)
    assert len(pulled.records) <= 1
    assert (pulled.code == 0) == bool(pulled.records)


@BOTH
def test_subscription_unknown(client: Client, serialize: int) -> None:
    """No subscription in the request and no heartbeat: 24; nor for another topic after one."""
    options = {"sys_flag": 0, "serialize": serialize}
    assert client.pull(TOPIC, 0, 0, group="CG_unknown", **options).code == 24
    group = f"CG_other_{serialize}"
    assert client.heartbeat(f"c@{serialize}", group, "GoodTopic").code == 0
    assert client.pull(TOPIC, 0, 0, group=group, **options).code == 24
    assert client.pull("GoodTopic", 0, 0, group=group, **options).code in (0, 19)


@pytest.mark.parametrize(
    ("expression", "kind", "codes"),
    [("||", "TAG", {23}), ("a > 1", "SQL92", {1, 23}), ("x", "KLINGON", {1, 23})],
)
def test_filters_that_cannot_be(
    client: Client, expression: str, kind: str, codes: set[int]
) -> None:
    pulled = client.pull(TOPIC, 0, 0, subscription=expression, change={"expressionType": kind})
    assert pulled.code in codes


@pytest.mark.parametrize("tags", ["x" * 1_000_000, "||".join(f"t{i}" for i in range(50_000))])
def test_huge_subscription(client: Client, tags: str) -> None:
    """An expression that no client sends costs no time of the others: it is refused."""
    pulled = client.pull(TOPIC, 0, 0, subscription=tags)
    assert pulled.code == 23, pulled.code


def test_many_tags(client: Client) -> None:
    """A large filter that matches nothing: 20, and the queue moves on."""
    pulled = client.pull(TOPIC, 0, 0, subscription="||".join(f"t{i}" for i in range(2000)))
    assert pulled.code == 20, pulled.code
    assert 0 < pulled.next_offset <= COUNT


@pytest.mark.parametrize("suspend_ms", [-1, 2**63 - 1])
def test_parked_pull_with_senseless_time(
    server: ServerProcess, client: Client, suspend_ms: int
) -> None:
    """Parked for ever or answered at once; a message wakes it in any case."""
    topic = f"Held{abs(suspend_ms) % 7}"
    client.send(topic)
    client.post(pull_command(topic, 0, 1, sys_flag=PULL_SUSPEND | 4, suspend_ms=suspend_ms))
    with Client(server.broker) as sender:
        assert sender.send(topic, b"wake").code == 0
    answer = client.receive(PATIENCE)
    assert answer.code in (0, 19)
    if answer.code == 0:
        assert decode_records(answer.body)[0].body == b"wake"


def test_parked_pulls_of_lost_connections(server: ServerProcess, probe: Probe) -> None:
    """2,000 pulls parked for connections that go away: forgotten, and waking them is harmless."""
    files = server.open_files()
    before = probe.grown_kib()
    for i in range(20):
        lost = Client(server.broker)
        for _ in range(100):
            lost.post(pull_command(TOPIC, 1, 0, sys_flag=PULL_SUSPEND | 4, suspend_ms=600_000))
        lost.reset() if i % 2 else lost.close()
    with Client(server.broker) as client:
        assert client.send(TOPIC, queue_id=1).code == 0
    what = f"of the connections at most two more than {files} are open"
    eventually(server.open_files, what, until=lambda found: found <= files + 2)
    probe.assert_memory_bounded(before + 16 * 1024)


def test_reader_that_never_reads(server: ServerProcess, probe: Probe) -> None:
    """Some 100 MiB of answers asked for and not read: the server stops reading, not breathing.

    Afterwards the reader reads, and every answer to what the server took is there.
    """
    wanted = 3000
    before = probe.grown_kib()
    with Client(server.broker, timeout=30) as slow:
        requests = b""
        for opaque in range(wanted):
            command = pull_command(TOPIC, 0, 0)
            command.opaque = opaque
            requests += encode(command)
        sent = 0
        while sent < len(requests) and (took := slow.send_some(requests[sent:])):
            sent += took
        probe.assert_serving()
        assert probe.grown_kib() < before + 32 * 1024
        missing = set(range(wanted))  # the protocol allows any order
        while missing:
            answer = slow.receive()
            assert answer.code == 0
            assert len(answer.body) > 32_000
            missing.remove(answer.opaque)
            if sent < len(requests):
                sent += slow.send_some(requests[sent:], wait=0)
