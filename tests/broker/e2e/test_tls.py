"""A broker whose clients speak TLS, in both flush modes: messages, pulls, what waits, the end."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.support.certificates import Authority
from tests.support.client import (
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    Client,
    pull_command,
    send_command,
)
from tests.support.operators import create_topic
from tests.support.records import decode_records
from tests.support.server import ServerFailed, ServerProcess
from tests.support.waiting import eventually

HOLD = PULL_SUSPEND | PULL_SUBSCRIPTION
GET_BROKER_CONFIG = 26
_numbers = count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder)


@pytest.fixture(scope="module")
def conf(authority: Authority) -> str:
    own = authority.issue("127.0.0.1")
    return f"tls.server.certPath={own.cert}\ntls.server.keyPath={own.key}\n"


@pytest.fixture(scope="module")
def trusting(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.file)
    return context


@pytest.fixture(scope="module", params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def process(request: pytest.FixtureRequest, folder: Path, conf: str) -> Iterator[ServerProcess]:
    with ServerProcess(folder / request.param, flush=request.param, conf=conf) as server:
        yield server


@pytest.fixture
def client(process: ServerProcess, trusting: ssl.SSLContext) -> Iterator[Client]:
    with Client(process.broker, tls=trusting) as connection:
        yield connection


@pytest.fixture
def topic(client: Client) -> str:
    name = f"Sealed{next(_numbers)}"
    assert create_topic(client, name, 4).code == 0
    return name


def test_the_largest_message_goes_both_ways(client: Client, topic: str) -> None:
    body = bytes(range(256)) * (16 << 10)
    body = body[: (4 << 20) - 1000]
    assert client.send(topic, body).code == 0
    assert client.pull_all(topic, 0, 0, 1)[0].body == body


def test_many_are_sent_before_an_answer_is_read(client: Client, topic: str) -> None:
    bodies = [b"%d" % n * (1 + n % 300) for n in range(500)]
    opaques = [client.post(send_command(topic, body)) for body in bodies]
    answers = [client.receive() for _ in bodies]
    assert [answer.opaque for answer in answers] == opaques
    assert {answer.code for answer in answers} == {0}
    assert [record.body for record in client.pull_all(topic, 0, 0, 500)] == bodies


def test_plain_and_sealed_connections_share_the_port(
    client: Client, process: ServerProcess, topic: str
) -> None:
    with Client(process.broker) as plain:
        for n in range(50):
            assert (plain if n % 2 else client).send(topic, b"%d" % n).code == 0
        bodies = [b"%d" % n for n in range(50)]
        for one in (plain, client):
            assert [record.body for record in one.pull_all(topic, 0, 0, 50)] == bodies


def test_a_parked_pull_is_woken(
    client: Client, process: ServerProcess, trusting: ssl.SSLContext, topic: str
) -> None:
    with Client(process.broker, tls=trusting) as waiting:
        for n in range(20):
            waiting.post(pull_command(topic, 0, n, sys_flag=HOLD, suspend_ms=25_000))
            waiting.max_offset(topic, 0)  # what is asked behind it is answered first
            client.send(topic, b"%d" % n)
            answer = waiting.receive()
            assert [r.body for r in decode_records(answer.body)] == [b"%d" % n]


def test_who_does_not_read_gets_all_of_it_later(
    client: Client, process: ServerProcess, trusting: ssl.SSLContext, topic: str
) -> None:
    """Parts of the log wait for a socket that is full; others are served meanwhile."""
    bodies = [bytes([n]) * (200 << 10) for n in range(40)]
    for body in bodies:
        assert client.send(topic, body).code == 0
    with Client(process.broker, tls=trusting) as slow:
        asked = 3 * len(bodies)
        for n in range(asked):
            slow.post(pull_command(topic, 0, n % len(bodies), maximum=1))
        for _ in range(20):
            assert client.send(topic, b"meanwhile").code == 0
        for n in range(asked):
            (record,) = decode_records(slow.receive().body)
            assert record.body == bodies[n % len(bodies)], n


def test_a_refusal_and_other_requests(client: Client, topic: str) -> None:
    assert client.send(topic, queue_id=77).code != 0
    assert client.call(9999).code == 3
    assert client.max_offset(topic, 0) == 0


def test_the_password_is_shown_nowhere(folder: Path, authority: Authority) -> None:
    own = authority.issue("127.0.0.1")
    conf = (
        f"tls.server.certPath={own.cert}\ntls.server.keyPath={own.key}\n"
        "tls.server.keyPassword=not-to-be-seen\n"
    )
    with ServerProcess(folder / "secret", conf=conf) as server:
        with Client(server.broker) as client:
            shown = client.call(GET_BROKER_CONFIG).body
        assert b"tls.server.keyPassword" in shown
        assert b"not-to-be-seen" not in shown
        log = server.log
    assert "not-to-be-seen" not in log.read_text()


def test_a_stop_is_told_to_clients(folder: Path, conf: str, trusting: ssl.SSLContext) -> None:
    with ServerProcess(folder / "stopped", conf=conf) as server:
        with Client(server.broker, tls=trusting) as client:
            assert client.send("Stopped").code == 0
            server.terminate()
            # An end that TLS does not tell is an SSLEOFError, which is no `Closed`.
            assert client.until_closed() == []
        server.start()


def test_files_that_are_changed_count_without_a_restart(
    folder: Path, trusting: ssl.SSLContext, authority: Authority
) -> None:
    own, other = authority.issue("127.0.0.1"), Authority(folder, "other")
    new = other.issue("127.0.0.1")
    conf = f"tls.server.certPath={own.cert}\ntls.server.keyPath={own.key}\n"
    with (
        ServerProcess(folder / "changed", conf=conf) as server,
        Client(server.broker, tls=trusting) as client,
    ):
        assert client.send("Changed").code == 0
        own.key.write_bytes(new.key.read_bytes())
        own.cert.write_bytes(new.cert.read_bytes())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(other.file)

        def speaks() -> bool:
            try:
                Client(server.broker, tls=context).close()
            except ssl.SSLError:
                return False
            return True

        eventually(speaks, "new connections get the new certificate")
        assert client.send("Changed").code == 0, "the old connection goes on"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("tls.server.mode=enforcing", "tls.server.mode=enforcing needs tls.server.keyPath"),
        ("tls.server.mode=both", "tls.server.mode=both: disabled or permissive or enforcing"),
        ("tls.config.file=/nowhere/tls.properties", "tls.config.file: cannot read /nowhere"),
    ],
)
def test_a_configuration_that_cannot_be_stops_the_start(
    folder: Path, lines: str, words: str
) -> None:
    server = ServerProcess(folder / f"refused{next(_numbers)}", conf=f"{lines}\n")
    with pytest.raises(ServerFailed) as caught:
        server.start()
    assert words in str(caught.value)
