"""adminAddressAllowList: who may administrate a broker and a name server.

All of 127.0.0.0/8 is this machine, so one test has clients with several addresses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from pyrmq.model.request_kinds import ADMIN_REQUESTS
from pyrmq.namesrv import NameServer
from pyrmq.namesrv.config import NamesrvConfig
from tests.support.client import GET_ROUTEINFO_BY_TOPIC, UPDATE_CONSUMER_OFFSET, Client
from tests.support.command import Serving, has_ipv6, run
from tests.support.operators import create_topic
from tests.support.server import ServerProcess
from tests.support.wire import Command

OPERATOR, OTHER = "127.0.0.2", "127.0.0.3"
NO_PERMISSION = 16
CONF = "adminAddressAllowList=127.0.0.2, 10.0.0.0/8, fd00::/8\n"
ADMIN: dict[str, tuple[int, dict[str, object], object]] = {
    "a topic": (17, {"topic": "New", "defaultTopic": "TBW102", "readQueueNums": 1,
                     "writeQueueNums": 1, "perm": 6, "topicFilterType": "SINGLE_TAG"}, None),
    "a group": (200, {}, {"groupName": "New"}),
    "offsets": (222, {"topic": "T", "group": "G", "timestamp": -1, "isForce": "true"}, None),
    "cloned offsets": (314, {"srcGroup": "G", "destGroup": "G2", "topic": "T"}, None),
    "configuration": (25, {}, None),
    "old files": (329, {}, None),
    "old queues": (306, {}, None),
    "a transaction": (323, {"msgId": "0" * 32}, None),
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("access") / "store", conf=CONF) as running:
        with Client(running.broker, source=OTHER) as client:
            assert client.send("T").code == 0
            assert client.heartbeat("c", "G", "T").code == 0
            assert client.heartbeat("c", "G2", "T").code == 0
        yield running


@pytest.fixture
def operator(server: ServerProcess) -> Iterator[Client]:
    with Client(server.broker, source=OPERATOR) as client:
        yield client


@pytest.fixture
def other(server: ServerProcess) -> Iterator[Client]:
    with Client(server.broker, source=OTHER) as client:
        yield client


def ask(client: Client, what: str) -> Command:
    code, ext, body = ADMIN[what]
    return client.call(code, b"" if body is None else json.dumps(body).encode(), **ext)


@pytest.mark.parametrize("what", list(ADMIN))
def test_others_do_not_administrate(
    server: ServerProcess, other: Client, operator: Client, what: str
) -> None:
    refused = ask(other, what)
    assert refused.code == NO_PERMISSION
    assert refused.remark is not None
    assert "adminAddressAllowList" in refused.remark
    assert OTHER in refused.remark
    assert ask(operator, what).code != NO_PERMISSION


def test_what_was_refused_did_not_happen(server: ServerProcess, other: Client) -> None:
    assert create_topic(other, "Never").code == NO_PERMISSION
    assert b"Never" not in (server.store / "config" / "topics.json").read_bytes()
    assert "UPDATE_AND_CREATE_TOPIC refused" in server.stderr_text()


def test_clients_do_their_work(server: ServerProcess, other: Client) -> None:
    assert other.send("T").code == 0
    assert other.send("MadeBySending").code == 0
    assert other.pull("T", 0, 0, group="Own").code == 0
    assert other.heartbeat("c", "G", "T").code == 0
    commit = {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 1}
    assert other.call(UPDATE_CONSUMER_OFFSET, **commit).code == 0
    assert other.call(26).code == 0, "looking is free"
    with Client(server.namesrv, source=OTHER) as names:
        assert names.call(GET_ROUTEINFO_BY_TOPIC, topic="T").code == 0


def test_the_broker_is_registered_at_its_name_server(server: ServerProcess) -> None:
    """It comes from 127.0.0.1, which is not in the list: registering does not administrate."""
    sent = run("send", "-n", "{}:{}".format(*server.namesrv), "-t", "T", "-b", "x")
    assert sent.returncode == 0, sent.stderr.decode()


@pytest.mark.parametrize(("allowed", "code"), [("10.0.0.0/8", NO_PERMISSION), ("::1", 0)])
def test_ipv6(tmp_path: Path, allowed: str, code: int) -> None:
    variables = {
        "LISTEN_PORT": "0", "BIND_ADDRESS": "::1", "BROKER_IP1": "::1",
        "STORE_PATH_ROOT_DIR": str(tmp_path / "store"), "ADMIN_ADDRESS_ALLOW_LIST": allowed,
    }  # fmt: skip
    env = {f"PYRMQ_BROKER_CONF_{word}": value for word, value in variables.items()}
    if not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    with Serving(tmp_path / "log", "broker", **env) as broker:
        port = broker.address("broker")[1]
        with Client(("::1", port)) as client:
            assert create_topic(client, "T").code == code


async def test_name_servers(deadline: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a request of theirs that counts as administrating for this test."""
    monkeypatch.setitem(ADMIN_REQUESTS, 206, "SHOWN_TOPICS")
    config = NamesrvConfig(
        listen_port=0, bind_address="127.0.0.1", admin_address_allow_list=OPERATOR
    )
    names = NameServer(config)
    async with trio.open_nursery() as nursery:
        await nursery.start(names.run)
        for source, code in ((OPERATOR, 0), (OTHER, NO_PERMISSION)):
            with Client(names.address, source=source) as client:
                answer = await trio.to_thread.run_sync(client.call, 206)
                assert answer.code == code
        nursery.cancel_scope.cancel()
