"""`pyrmq server` as a process: its one line on stdout, its ports, its exit code, its store."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.client import GET_ROUTEINFO_BY_TOPIC, Client
from tests.support.server import ServerFailed, ServerProcess
from tests.support.waiting import eventually


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_ready_line_and_graceful_stop(tmp_path: Path, signum: signal.Signals) -> None:
    with ServerProcess(tmp_path / "store") as server:
        assert 0 not in (server.namesrv[1], server.broker[1])
        with Client(server.broker) as client:
            assert client.send("First").code == 0
        assert_routed(server, "First")
        server.terminate(signum=signum)
        assert server.stdout_rest == b"", "one line on stdout, logs go to stderr"
        assert not (server.store / "abort").exists(), "a clean stop leaves no crash marker"


def assert_routed(server: ServerProcess, topic: str) -> None:
    """The name server hears of a new topic at once, which is not before the sender's answer."""
    with Client(server.namesrv) as namesrv:

        def look() -> int:
            code = namesrv.call(GET_ROUTEINFO_BY_TOPIC, topic=topic).code
            assert code in (0, 17)
            return code

        eventually(look, f"{topic} has a route", until=lambda code: code == 0)


def test_graceful_stop_with_open_connections(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store") as server:
        clients = [Client(server.broker) for _ in range(20)]
        assert clients[0].send("Open").code == 0
        server.terminate()
        for client in clients:
            assert client.until_closed() == []
            client.close()


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("end", ["terminate", "kill"])
@pytest.mark.parametrize("same_ports", [True, False], ids=["same-ports", "new-ports"])
def test_restart_keeps_messages(tmp_path: Path, flush: str, end: str, same_ports: bool) -> None:
    with ServerProcess(tmp_path / "store", flush=flush) as server:
        ports = (server.namesrv, server.broker)
        with Client(server.broker) as client:
            for i in range(10):
                assert client.send("Kept", b"%d" % i).code == 0
            getattr(server, end)()
        server.restart(same_ports=same_ports)
        assert not same_ports or (server.namesrv, server.broker) == ports
        with Client(server.broker) as client:
            bodies = [record.body for record in client.pull_all("Kept", 0, 0, 10)]
            assert bodies == [b"%d" % i for i in range(10)]
            assert client.send("Kept").ext["queueOffset"] == "10"


def test_second_server_on_a_store_is_refused(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store") as server:
        second = ServerProcess(tmp_path / "store", log=tmp_path / "second.log")
        with pytest.raises(ServerFailed, match=r"exit code [1-9]"), second:
            pass
        with Client(server.broker) as client:
            assert client.send("Mine").code == 0


def test_unknown_configuration_key_is_refused(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "store", conf="mappedFileSizeComitLog=1048576\n")
    with pytest.raises(ServerFailed, match="mappedFileSizeComitLog"), server:
        pass
