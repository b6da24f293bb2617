"""Who is no broker of the name: it says it is the master, or a slave, and nothing comes of it."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.client import REGISTER_BROKER, Client
from tests.support.command import Serving, run
from tests.support.wire import FLAG_RESPONSE, Command, FrameReader, encode
from tests.system.ha.processes import FILE, HA_STATUS, Node, Pair, eventually
from tests.system.ha.test_pair import FLUSH_SLAVE_TIMEOUT, send_many

VIEW_MESSAGE_BY_ID = 33
SYSTEM_ERROR = 1
Answers = Callable[[Command], Command]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[tuple[Node, str]]:
    """A SYNC_MASTER that waits for a slave, and its name server; no slave is there."""
    conf = tmp_path / "namesrv.conf"
    conf.write_text(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={tmp_path}/kv.json\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    keys = {
        "brokerRole": "SYNC_MASTER",
        "inSyncReplicas": 2,
        "slaveTimeout": 300,
        "haListenPort": port,
    }
    with Serving(tmp_path / "namesrv.log", "namesrv", "-c", str(conf)) as namesrv:
        node = Node(tmp_path / "master", namesrv.facts["namesrv"], **keys).start()
        try:
            yield node, namesrv.facts["namesrv"]
        finally:
            node.end()


@contextmanager
def listening(answer: Answers) -> Iterator[str]:
    """A server of one's own making at the address that is given."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve(sock: socket.socket) -> None:
            reader = FrameReader()
            with sock:
                while data := sock.recv(1 << 16):
                    for command in reader.feed(data):
                        reply = answer(command)
                        reply.opaque, reply.flag = command.opaque, FLAG_RESPONSE
                        sock.sendall(encode(reply))

        def accept() -> None:
            while True:
                try:
                    sock, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(sock,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield "{}:{}".format(*server.getsockname())
        server.shutdown(socket.SHUT_RDWR)


@contextmanager
def registered(namesrv: str, address: str, broker_id: int, name: str = "pair") -> Iterator[None]:
    host, port = namesrv.split(":")
    with Client((host, int(port))) as client:
        fields = {
            "clusterName": "DefaultCluster",
            "brokerName": name,
            "brokerAddr": address,
            "brokerId": str(broker_id),
            "haServerAddr": address,
            "compressed": "false",
            "bodyCrc32": "0",
        }
        assert client.call(REGISTER_BROKER, b"{}", **fields).code == 0
        yield


def newer_master(asked: list[int]) -> Answers:
    def answer(command: Command) -> Command:
        asked.append(command.code)
        status = {"master": True, "masterSince": 1 << 52}
        return Command(0, body=json.dumps(status).encode())

    return answer


def send(node: Node) -> int:
    with Client(node.address) as client:
        return client.send("T", b"x").code


def ha_port(node: Node) -> socket.socket:
    """A connection to a master's HA port."""
    return socket.create_connection(
        (node.address[0], int(str(node.keys["haListenPort"]))), timeout=10
    )


def ended(sock: socket.socket) -> bool:
    """Reads until the peer has ended the connection."""
    try:
        while sock.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


class TestMasters:
    def test_one_that_only_says_so_stops_nobody(self, tmp_path: Path) -> None:
        with Pair(tmp_path) as pair:
            send_many(pair, 3)
            pair.wait_in_sync()
            asked: list[int] = []
            with (
                listening(newer_master(asked)) as address,
                registered(pair.namesrv, address, 0),
            ):
                eventually(lambda: VIEW_MESSAGE_BY_ID in asked, why=pair.master.stderr)
                eventually(lambda: "has not this log's history" in pair.master.stderr())
                assert send(pair.master) == 0
                assert "rejoin" not in pair.master.stderr()
                # Clients find the real one again, while the stranger stays registered.
                eventually(
                    lambda: pair.master.text_address in pair.command("mqadmin", "clusterList")
                )
                # It neither keeps the broker from starting nor a slave from being promoted.
                pair.master.stop()
                with registered(pair.namesrv, address, 0):
                    pair.master.start()
                assert "has not this log's history" in pair.master.stderr()
                pair.wait_in_sync()
                pair.master.kill()
            with (
                listening(newer_master(asked)) as address,
                registered(pair.namesrv, address, 0),
            ):
                done = pair.slave.set_role(brokerRole="ASYNC_MASTER")
                assert done.code == 0, done.remark

    def test_a_slave_that_claims_more_stops_no_promotion(self, tmp_path: Path) -> None:
        def answer(command: Command) -> Command:
            if command.code != HA_STATUS:
                return Command(SYSTEM_ERROR, remark="no")
            status = {"master": False, "haClientRuntimeInfo": {"maxOffset": 1 << 60}}
            return Command(0, body=json.dumps(status).encode())

        with Pair(tmp_path) as pair:
            send_many(pair, 3)
            pair.wait_in_sync()
            pair.master.kill()
            with listening(answer) as address, registered(pair.namesrv, address, 7):
                done = pair.slave.set_role(brokerRole="ASYNC_MASTER")
                assert done.code == 0, done.remark

    def test_an_empty_broker_does_not_start_beside_a_master(self, tmp_path: Path) -> None:
        """It has nothing that could be compared: its disk may be a new one."""
        with Pair(tmp_path) as pair:
            send_many(pair, 1)
            twin = Node(tmp_path / "twin", pair.namesrv)
            (twin.folder / "broker.conf").write_text(
                "".join(f"{key}={value}\n" for key, value in twin.keys.items())
            )
            conf = str(twin.folder / "broker.conf")
            done = run("broker", "-c", conf, "-n", pair.namesrv, timeout=40)
            assert done.returncode != 0
            assert b"is master of brokerName=pair already" in done.stderr
            assert b"rejoin" not in done.stderr


class TestReplicas:
    def test_one_that_echoes_offsets_confirms_nothing(self, alone: tuple[Node, str]) -> None:
        node, _ = alone
        assert send(node) == FLUSH_SLAVE_TIMEOUT
        with ha_port(node) as sock:
            sock.sendall(struct.pack(">q", 0))
            assert ended(sock), "it is served"
        assert send(node) == FLUSH_SLAVE_TIMEOUT
        assert node.status()["haConnectionInfo"] == []
        assert "no name server lists a slave" in node.stderr()

    def test_a_host_counts_once_for_each_slave_that_is_registered_there(
        self, alone: tuple[Node, str]
    ) -> None:
        node, namesrv = alone
        send(node)
        report = struct.pack(">q", 0)
        with registered(namesrv, "127.0.0.1:1", 1), ha_port(node) as first:
            first.sendall(report)
            assert first.recv(12)
            with ha_port(node) as second:
                second.sendall(report)
                assert second.recv(12)
                assert ended(first), "it keeps its place"
                assert len(node.status()["haConnectionInfo"]) == 1
                with registered(namesrv, "127.0.0.1:2", 2), ha_port(node) as third:
                    third.sendall(report)
                    assert third.recv(12)
                    assert len(node.status()["haConnectionInfo"]) == 2

    def test_strangers_keep_no_slave_out(self, alone: tuple[Node, str], tmp_path: Path) -> None:
        node, namesrv = alone
        send(node)
        strangers = [ha_port(node) for _ in range(70)]
        try:
            for sock in strangers:
                sock.sendall(struct.pack(">q", 0))
            keys = {"brokerRole": "SLAVE", "brokerId": 1, "mappedFileSizeCommitLog": FILE}
            slave = Node(tmp_path / "slave", namesrv, **keys).start()
            try:
                eventually(lambda: send(node) == 0, why=node.stderr)
                assert len(node.status()["haConnectionInfo"]) == 1
            finally:
                slave.end()
        finally:
            for sock in strangers:
                sock.close()
