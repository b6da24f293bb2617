"""KV configuration on the wire and on the disk, and what order configurations do to routes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.command import Serving, assert_refused, run
from tests.support.namesrv import name_server, place, register, routed
from tests.support.server import ServerProcess
from tests.support.wire import Command

PUT, GET, DELETE, LIST, UPDATE = 100, 101, 102, 219, 318
ORDER = "ORDER_TOPIC_CONFIG"
NOT_FOUND, NOT_AVAILABLE = 22, 14


def put(client: Client, namespace: str, key: str, value: str) -> Command:
    return client.call(PUT, namespace=namespace, key=key, value=value)


def saved(folder: Path) -> dict[str, dict[str, str]]:
    file = folder / "kv" / "kvConfig.json"
    table: dict[str, dict[str, str]] = json.loads(file.read_bytes())["configTable"]
    return table


def test_a_value_is_in_the_file_when_it_is_answered(tmp_path: Path) -> None:
    odd = 'ä "quoted" \\ \n{}:,'
    with (
        name_server(tmp_path) as server,
        Client(server.address("namesrv")) as client,
    ):
        assert not (tmp_path / "kv").exists(), "nothing is written before there is something"
        for namespace, key, value in (("N", "a", "1"), ("N", "b b", odd), ("O", "a", "")):
            assert put(client, namespace, key, value).code == 0
            assert saved(tmp_path)[namespace][key] == value
        assert put(client, "N", "a", "2").code == 0
        assert client.call(DELETE, namespace="O", key="a").code == 0
        assert saved(tmp_path) == {"N": {"a": "2", "b b": odd}}
        assert client.call(LIST, namespace="O").code == NOT_FOUND
    assert (tmp_path / "kv" / "kvConfig.json").read_bytes().startswith(b'{"configTable":{"N":{"a"')
    with name_server(tmp_path) as server, Client(server.address("namesrv")) as client:
        assert client.call(GET, namespace="N", key="b b").ext == {"value": odd}
        assert json.loads(client.call(LIST, namespace="N").body) == {
            "table": {"a": "2", "b b": odd}
        }


def test_a_killed_name_server_has_what_it_answered(tmp_path: Path) -> None:
    conf = tmp_path / "namesrv.conf"
    conf.write_text(f"listenPort=0\nkvConfigPath={tmp_path / 'kv' / 'kvConfig.json'}\n")
    with (
        Serving(tmp_path / "log", "namesrv", "-c", str(conf)) as server,
        Client(("127.0.0.1", server.address("namesrv")[1])) as client,
    ):
        for n in range(60):
            client.post(Command(PUT, {"namespace": "N", "key": f"k{n}", "value": str(n)}))
        answered = [client.receive() for _ in range(20)]
        server.process.kill()
        answered += client.until_closed()
    done = [answer.opaque - 1 for answer in answered if answer.code == 0]
    assert {f"k{n}": str(n) for n in done}.items() <= saved(tmp_path)["N"].items()


def test_changes_of_one_key_come_in_order(tmp_path: Path) -> None:
    with name_server(tmp_path) as server, Client(server.address("namesrv")) as client:
        for n in range(30):
            client.post(Command(PUT, {"namespace": "N", "key": "k", "value": str(n)}))
            client.post(Command(DELETE, {"namespace": "N", "key": "k"}))
            client.post(Command(PUT, {"namespace": "N", "key": "k", "value": f"{n} again"}))
        assert [client.receive().code for _ in range(90)] == [0] * 90
        assert client.call(GET, namespace="N", key="k").ext == {"value": "29 again"}
    assert saved(tmp_path) == {"N": {"k": "29 again"}}


def test_many_at_once(tmp_path: Path) -> None:
    """Changes wait for each other: none is lost."""
    with name_server(tmp_path) as server, Client(server.address("namesrv")) as client:
        for n in range(50):
            client.post(Command(PUT, {"namespace": f"N{n % 3}", "key": f"k{n}", "value": "v"}))
        assert [client.receive().code for _ in range(50)] == [0] * 50
    assert {key for table in saved(tmp_path).values() for key in table} == {
        f"k{n}" for n in range(50)
    }


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"configTable":[]}', b'{"configTable":{"N":{"a":1}}}', b"\xff"]
)
def test_a_file_that_cannot_be_used(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "kvConfig.json"
    file.write_bytes(content)
    conf = tmp_path / "namesrv.conf"
    conf.write_text(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={file}\n")
    assert_refused(run("namesrv", "-c", str(conf)), str(file), "cannot be used", "Repair it")
    assert file.read_bytes() == content


def test_rocketmqs_own_file(tmp_path: Path) -> None:
    (tmp_path / "kv").mkdir()
    text = '{"configTable":{"ORDER_TOPIC_CONFIG":{"A":"b1:4"},"N":{}}}'  # as 5.5.0 wrote it
    (tmp_path / "kv" / "kvConfig.json").write_text(text)
    with name_server(tmp_path) as server, Client(server.address("namesrv")) as client:
        assert client.call(GET, namespace=ORDER, key="A").ext == {"value": "b1:4"}


def test_a_disk_that_does_not_take_it(tmp_path: Path) -> None:
    """The change is refused, and everything else goes on; the next one is taken."""
    with name_server(tmp_path) as server, Client(server.address("namesrv")) as client:
        (tmp_path / "kv").write_text("a file where the folder should be")
        refused = put(client, "N", "k", "v")
        assert refused.code == NOT_AVAILABLE
        assert "(kvConfig.json)" in (refused.remark or ""), "the name, and no path"
        assert client.call(GET, namespace="N", key="k").code == NOT_FOUND
        (tmp_path / "kv").unlink()
        assert put(client, "N", "k", "v").code == 0
        assert saved(tmp_path) == {"N": {"k": "v"}}


def test_order_configuration(tmp_path: Path) -> None:
    conf = "orderMessageEnable=true\n"
    with name_server(tmp_path, conf) as server, Client(server.address("namesrv")) as client:
        assert register(client, place("b1", 5001)).body == b""
        assert "orderTopicConf" not in routed(client, "Alpha")
        put(client, ORDER, "Alpha", "b1:2;b2:1")
        assert routed(client, "Alpha")["orderTopicConf"] == "b1:2;b2:1"
        assert "orderTopicConf" not in routed(client, "Beta")
        answer = register(client, place("b1", 5001))
        assert json.loads(answer.body) == {"table": {"Alpha": "b1:2;b2:1"}}
        assert client.call(UPDATE, b"returnOrderTopicConfigToBroker=false").code == 0
        assert register(client, place("b1", 5001)).body == b""
        assert client.call(UPDATE, b"orderMessageEnable=false").code == 0
        assert "orderTopicConf" not in routed(client, "Alpha")


def test_the_server_with_a_broker_keeps_it_in_the_store(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store") as server, Client(server.namesrv) as client:
        assert put(client, "N", "k", "v").code == 0
    assert "kvConfig.json" in {path.name for path in (tmp_path / "store" / "config").iterdir()}


def test_two_name_servers_do_not_share_a_file(tmp_path: Path) -> None:
    """The second does not start, and says what to do; after the end of the first it does."""
    (tmp_path / "kv").mkdir()
    conf = tmp_path / "namesrv.conf"
    with name_server(tmp_path) as server, Client(server.address("namesrv")) as client:
        assert put(client, "N", "k", "v").code == 0
        refused = run("namesrv", "-c", str(conf))
        assert_refused(refused, "kvConfig.json", "another process", "kvConfigPath")
        assert put(client, "N", "k", "w").code == 0
    with name_server(tmp_path) as server, Client(server.address("namesrv")) as client:
        assert client.call(GET, namespace="N", key="k").ext == {"value": "w"}


def test_two_name_servers_that_start_before_there_is_a_file(tmp_path: Path) -> None:
    """The one that writes first has it."""
    with name_server(tmp_path) as first, Client(first.address("namesrv")) as client:
        conf = tmp_path / "namesrv.conf"
        with (
            Serving(tmp_path / "log2", "namesrv", "-c", str(conf)) as second,
            Client(second.address("namesrv")) as other,
        ):
            assert put(client, "N", "k", "v").code == 0
            refused = put(other, "N", "k", "w")
            assert refused.code == NOT_AVAILABLE
            assert "another name server" in (refused.remark or "")
            assert put(client, "N", "l", "v").code == 0
            assert saved(tmp_path) == {"N": {"k": "v", "l": "v"}}


def test_order_configurations_are_taken_as_clients_read_them(tmp_path: Path) -> None:
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "Ordered"}
    with name_server(tmp_path) as server, Client(server.address("namesrv")) as client:
        for value in ("broker-a:8", "broker-a:8;broker-b:16", "a.b:1"):
            assert client.call(PUT, value=value, **order).code == 0
            assert client.call(GET, **order).ext == {"value": value}
