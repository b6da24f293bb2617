"""Brokers that leave their clients: before a stop, and because an operator has them drained."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyrmq.sync import Message, Producer
from tests.support.client import GET_ROUTEINFO_BY_TOPIC, HEART_BEAT, Client, Closed
from tests.support.command import Serving, run
from tests.support.operators import create_topic
from tests.support.waiting import eventually
from tests.system.ha.processes import Node

TOPIC = "Drained"
UPDATE_BROKER_CONFIG = 25
LONG = 60_000
"""ms that no test waits."""


class Cluster:
    """A name server and brokers, each with the topic."""

    def __init__(self, folder: Path, nodes: dict[str, Node], server: Serving) -> None:
        self.folder = folder
        self.nodes = nodes
        self.namesrv = server.facts["namesrv"]
        self.namesrv_address = server.address("namesrv")

    def perms(self, topic: str = TOPIC) -> dict[str, int]:
        """What routes say, by broker name."""
        with Client(self.namesrv_address) as client:
            answer = client.call(GET_ROUTEINFO_BY_TOPIC, topic=topic)
        assert answer.code == 0, answer.remark
        return {q["brokerName"]: q["perm"] for q in json.loads(answer.body)["queueDatas"]}

    def admin(self, *args: str) -> tuple[int, str]:
        done = run("admin", *args, "-n", self.namesrv, timeout=60)
        return done.returncode, (done.stdout + done.stderr).decode()


@contextmanager
def cluster(folder: Path, *names: str, **keys: object) -> Iterator[Cluster]:
    conf = folder / "namesrv.conf"
    conf.write_text(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={folder}/kv.json\n")
    nodes: dict[str, Node] = {}
    with Serving(folder / "namesrv.log", "namesrv", "-c", str(conf)) as server:
        try:
            for name in names:
                namesrv = server.facts["namesrv"]
                node = Node(folder / name, namesrv, brokerName=name, **keys)
                nodes[name] = node.start()
                with Client(node.address) as client:
                    create_topic(client, TOPIC, 2)
            yield Cluster(folder, nodes, server)
        finally:
            for node in nodes.values():
                node.end()


def beat(client: Client) -> None:
    """Registers a producer that does not heed what it is told."""
    data = {
        "clientID": "c@1",
        "consumerDataSet": [],
        "producerDataSet": [{"groupName": "producers"}],
    }
    assert client.call(HEART_BEAT, json.dumps(data).encode()).code == 0


def set_drain(node: Node, value: str) -> None:
    answer = node.ask(UPDATE_BROKER_CONFIG, body=f"brokerDrain={value}\n".encode())
    assert answer.code == 0, answer.remark


def pending_half(found: Cluster) -> None:
    """A transaction on broker a that nobody decides."""
    with Client(found.nodes["a"].address) as client:
        properties = {"TRAN_MSG": "true", "PGROUP": "producers", "UNIQ_KEY": "K"}
        answer = client.send(TOPIC, properties=properties, change={"f": "4"})
    assert answer.code == 0, answer.remark


def test_a_stop_leaves_the_routes_first_and_takes_what_still_comes(tmp_path: Path) -> None:
    with cluster(tmp_path, "a", "b", drainTimeoutMillis=LONG, drainQuietMillis=300) as found:
        node = found.nodes["a"]
        assert found.perms() == {"a": 6, "b": 6}
        with Client(node.address) as client:
            beat(client)
            assert client.send(TOPIC).code == 0
            assert node.process is not None
            node.process.process.send_signal(signal.SIGTERM)
            eventually(found.perms, "the routes lose it", until=lambda p: p == {"a": 4, "b": 6})
            assert client.send(TOPIC).code == 0, "a client that was not told is served"
            assert node.process.process.wait(60) == 0, "it ends when nothing is sent for a while"
        assert "clients have moved in" in node.stderr()
        eventually(found.perms, "it is in no route", until=lambda p: p == {"b": 6})
        node.end()
        node.start()
        eventually(found.perms, "it is back", until=lambda p: p == {"a": 6, "b": 6})


def test_clients_that_stay_are_waited_for_no_longer_than_allowed(tmp_path: Path) -> None:
    with cluster(tmp_path, "a", "b", drainTimeoutMillis=600, drainQuietMillis=500) as found:
        node = found.nodes["a"]
        with Client(node.address) as client:
            beat(client)
            assert node.process is not None
            process = node.process.process
            process.send_signal(signal.SIGTERM)
            sent = 0
            while process.poll() is None:
                try:
                    sent += client.send(TOPIC).code == 0
                except (ConnectionError, Closed):
                    break
                time.sleep(0.02)
            assert process.wait(60) == 0
        assert sent > 0
        assert "clients still sent after drainTimeoutMillis=600" in node.stderr()
        assert "1 producers are connected: c@1" in node.stderr()


def test_a_broker_without_another_one_stops_at_once(tmp_path: Path) -> None:
    """With any wait this test would take a minute, and fail."""
    keys = {"drainTimeoutMillis": 3_600_000, "drainQuietMillis": 600_000}
    with cluster(tmp_path, "a", **keys) as found:
        node = found.nodes["a"]
        with Client(node.address) as client:
            beat(client)
            assert client.send(TOPIC).code == 0
            node.stop()
        assert "no other broker is known" in node.stderr()


def test_a_broker_without_producers_stops_at_once(tmp_path: Path) -> None:
    keys = {"drainTimeoutMillis": 3_600_000, "drainQuietMillis": 600_000}
    with cluster(tmp_path, "a", "b", **keys) as found:
        found.nodes["a"].stop()


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_wait(tmp_path: Path, second: int) -> None:
    keys = {"drainTimeoutMillis": 3_600_000, "drainQuietMillis": 600_000}
    with cluster(tmp_path, "a", "b", **keys) as found:
        node = found.nodes["a"]
        with Client(node.address) as client:
            beat(client)
            assert client.send(TOPIC).code == 0
            assert node.process is not None
            node.process.process.send_signal(signal.SIGTERM)
            eventually(found.perms, "it drains", until=lambda p: p["a"] == 4)
            node.process.process.send_signal(second)
            assert node.process.process.wait(60) == 0, "it stops in order"
        assert not (node.store / "abort").exists()


def test_sigint_does_not_wait(tmp_path: Path) -> None:
    keys = {"drainTimeoutMillis": 3_600_000, "drainQuietMillis": 600_000}
    with cluster(tmp_path, "a", "b", **keys) as found:
        node = found.nodes["a"]
        with Client(node.address) as client:
            beat(client)
            assert client.send(TOPIC).code == 0
            assert node.process is not None
            assert node.process.stop(signal.SIGINT) == 0


def test_clients_of_pyrmq_leave_at_once(tmp_path: Path) -> None:
    """Routes are otherwise fetched every half minute."""
    with cluster(tmp_path, "a", "b") as found, Producer("p", namesrv=found.namesrv) as producer:
        seen = {producer.send(Message(TOPIC, b"x")).queue.broker_name for _ in range(8)}
        assert seen == {"a", "b"}
        set_drain(found.nodes["a"], "WRITE")
        eventually(
            lambda: {q.broker_name for q in producer.queues(TOPIC)},
            "it leaves",
            20,
            until=lambda names: names == {"b"},
        )
        set_drain(found.nodes["a"], "NONE")
        eventually(
            lambda: {q.broker_name for q in producer.queues(TOPIC)},
            "it comes back",
            20,
            until=lambda names: names == {"a", "b"},
        )


def test_a_drain_by_an_operator_holds_over_a_restart(tmp_path: Path) -> None:
    with cluster(tmp_path, "a", "b") as found:
        node = found.nodes["a"]
        set_drain(node, "WRITE")
        assert found.perms() == {"a": 4, "b": 6}
        node.stop()
        node.start()
        eventually(found.perms, "it registers", until=lambda p: p == {"a": 4, "b": 6})
        with Client(node.address) as client:
            assert client.send(TOPIC).code == 0, "it serves who comes"
        set_drain(node, "ALL")
        assert found.perms() == {"a": 0, "b": 6}
        set_drain(node, "NONE")
        assert found.perms() == {"a": 6, "b": 6}


def test_the_commands(tmp_path: Path) -> None:
    with cluster(tmp_path, "a", "b") as found:
        with Client(found.nodes["a"].address) as client:
            client.heartbeat("c@1", "readers", TOPIC)
            assert client.send(TOPIC).code == 0
            client.call(15, topic=TOPIC, consumerGroup="readers", queueId=0, commitOffset=0)
        code, text = found.admin("broker", "drain", "a", "-o", "json")
        assert code == 0, text
        state = json.loads(text)
        assert state["state"]["drain"] == "WRITE"
        assert state["state"]["routed_for_writes"] is False
        assert state["state"]["routed_for_reads"] is True
        assert state["state"]["groups"] == [{"group": "readers", "topic": TOPIC, "messages": 1}]
        assert "1 messages are not consumed" in state["waits_for"]
        code, text = found.admin("cluster", "health")
        (row,) = [line for line in text.splitlines() if found.nodes["a"].text_address in line]
        assert row.split()[-2:] == ["drained", "(WRITE)"], text
        code, text = found.admin("broker", "drain", "a", "--reads")
        assert code == 2
        assert "1 messages of broker a are not consumed" in text
        assert found.perms() == {"a": 4, "b": 6}, "nobody would read them any more"
        with Client(found.nodes["a"].address) as client:
            client.call(15, topic=TOPIC, consumerGroup="readers", queueId=0, commitOffset=1)
        pending_half(found)
        code, text = found.admin("broker", "drain", found.nodes["a"].text_address, "--reads")
        assert code == 0, text
        assert found.perms() == {"a": 0, "b": 6}
        assert "not consumed            0\n" in text, "half messages are for no group"
        assert "1 transactions are pending" in text
        code, text = found.admin("broker", "drain-status", "a")
        assert code == 0, text
        assert "ALL" in text
        code, text = found.admin("broker", "bring-back", "a")
        assert code == 0, text
        assert "waits for" not in text, "it is not going to be stopped"
        assert found.perms() == {"a": 6, "b": 6}
        code, text = found.admin("broker", "drain", "c")
        assert code == 2
        assert "there is no broker c" in text
        code, text = found.admin("broker", "drain", "127.0.0.1:1")
        assert code == 2
        assert "no broker is registered at 127.0.0.1:1" in text


def test_a_broker_that_cannot_save_anything_is_drained_all_the_same(tmp_path: Path) -> None:
    """As one whose disk is full: then it has to be."""
    with cluster(tmp_path, "a", "b") as found:
        node = found.nodes["a"]
        (node.store / "config" / "brokerConfigUpdates.json.tmp").mkdir()
        code, text = found.admin("broker", "drain", "a")
        assert code == 0, text
        assert "the broker could not save this (Is a directory)" in text
        assert "a restart forgets it" in text
        assert found.perms() == {"a": 4, "b": 6}
        code, text = found.admin("broker", "drain-status", "a", "-o", "json")
        assert code == 0, text
        assert json.loads(text)["state"]["unsaved"] == "Is a directory"
        assert "brokerDrain: it counts, but cannot be saved" in node.stderr()
        answer = node.ask(UPDATE_BROKER_CONFIG, body=b"transactionCheckMax=3\n")
        assert answer.code == 14, "nothing else counts that cannot be saved"
        code, text = found.admin("broker", "bring-back", "a")
        assert code == 0, text
        assert found.perms() == {"a": 6, "b": 6}
