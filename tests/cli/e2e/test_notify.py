"""What `pyrmq server`, `broker` and `namesrv` tell a service manager; one broker of several that
hangs."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.lowlevel

from pyrmq.broker import BrokerConfig
from pyrmq.processes.plan import Member, plan
from pyrmq.processes.supervisor import Supervisor
from pyrmq.processes.watch import fields_of
from tests.broker.e2e.test_many_brokers import Cluster
from tests.support.command import PYRMQ, Serving, environment
from tests.support.waiting import eventually, eventually_trio

FREE = ("--namesrv-port", "0", "--broker-port", "0")


class Manager:
    """A service manager's socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)
        self.heard: list[dict[str, str]] = []
        self.variables = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "300000"}
        """As a service has them."""

    def listen(self) -> list[dict[str, str]]:
        """All that has come so far."""
        while True:
            try:
                self.heard.append(fields_of(self._socket.recv(8192)))
            except BlockingIOError:
                return self.heard

    def has(self, name: str, times: int = 1) -> bool:
        return sum(name in said for said in self.listen()) >= times

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    found = Manager(tmp_path / "notify")
    yield found
    found.close()


@pytest.mark.parametrize("what", ["server", "broker", "namesrv"])
def test_a_server_says_what_it_does(tmp_path: Path, manager: Manager, what: str) -> None:
    conf = tmp_path / "conf"
    listening = "listenPort=0\nbindAddress=127.0.0.1\n"
    conf.write_text(
        f"{listening}kvConfigPath={tmp_path}/kv.json\n"
        if what == "namesrv"
        else f"{listening}storePathRootDir={tmp_path}/store\n"
    )
    args: tuple[str, ...] = (what, "-c", str(conf))
    if what == "server":
        args = ("server", "--store", str(tmp_path / "store"), *FREE)
    with Serving(tmp_path / "log", *args, **manager.variables) as server:
        eventually(lambda: manager.has("READY"), "it is ready")
        (ready,) = [said for said in manager.heard if "READY" in said]
        assert ready["STATUS"].startswith("ready "), ready
        before = manager.heard[: manager.heard.index(ready)]
        assert any("EXTEND_TIMEOUT_USEC" in said for said in before), "time to recover"
        assert not manager.has("STOPPING")
        count = sum("WATCHDOG" in said for said in manager.heard)
        eventually(lambda: manager.has("WATCHDOG", count + 3), "the watchdog hears on and on")
        assert server.stop() == 0
    assert manager.has("STOPPING")
    assert manager.heard[-1].keys() == {"EXTEND_TIMEOUT_USEC"}, "and asks for time to stop"


def test_several_brokers_are_one_service(tmp_path: Path, manager: Manager) -> None:
    """The supervisor speaks for them. Their own words come to it."""
    args = ("server", "--store", str(tmp_path / "store"), *FREE, "--brokers", "2")
    with Cluster(tmp_path, *args, **manager.variables) as cluster:
        eventually(lambda: manager.has("READY"), "it is ready")
        (ready,) = [said for said in manager.heard if "READY" in said]
        assert "brokers=2" in ready["STATUS"]
        eventually(lambda: manager.has("WATCHDOG", 3), "the watchdog hears on and on")
        cluster.process.send_signal(signal.SIGTERM)
        assert cluster.process.wait(60) == 0
    assert sum("READY" in said for said in manager.listen()) == 1
    assert manager.has("STOPPING")


def test_a_stopped_process_says_nothing(tmp_path: Path, manager: Manager) -> None:
    """What the watchdog is for: a loop that stands still."""
    args = ("server", "--store", str(tmp_path / "store"), *FREE)
    with Serving(tmp_path / "log", *args, **manager.variables) as server:
        eventually(lambda: manager.has("WATCHDOG", 2), "it is watched")
        server.process.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{server.process.pid}/stat")
        eventually(lambda: stat.read_text().split(")")[1].split()[0], "it stands still",
                   until=lambda state: state == "T")  # fmt: skip
        manager.listen()
        count = len(manager.heard)
        server.process.send_signal(signal.SIGABRT)
        server.process.send_signal(signal.SIGCONT)
        assert server.process.wait(60) == -signal.SIGABRT
        assert len(manager.listen()) == count
        assert "(most recent call first)" in server.stderr(), (
            "SIGABRT says where each thread stands"
        )


async def test_a_broker_that_hangs_is_started_again(tmp_path: Path) -> None:
    """Two brokers of a supervisor. One is suspended; the other is left alone."""
    config = BrokerConfig(
        broker_name="broker-a", store_path_root_dir=tmp_path / "store", listen_port=0
    )
    members = plan(config, 2)
    pids: list[tuple[str, int]] = []

    def command(member: Member) -> list[str]:
        words = [*PYRMQ, "broker"]
        keys = {**member.keys, "bindAddress": "127.0.0.1", "mappedFileSizeCommitLog": "1048576"}
        for key, value in keys.items():
            words += ["--member", f"{key}={value}"]
        return words

    def announce(member: Member, line: str) -> None:
        pids.append((member.name, int(line.rpartition("pid=")[2].split()[0])))

    supervisor = Supervisor(
        members, command, announce, first=0.01, silence=4, variables=environment()
    )
    async with supervisor.running():
        assert sorted(name for name, _ in pids) == ["broker-a", "broker-b"]
        hung = dict(pids)["broker-b"]
        await eventually_trio(
            lambda: supervisor._kept[1].silent is not None, "it has said that it is ready"
        )
        os.kill(hung, signal.SIGSTOP)
        await eventually_trio(lambda: len(pids), "it serves again", 60, until=lambda n: n == 3)
        assert pids[-1][0] == "broker-b"
        assert pids[-1][1] != hung
        await trio.lowlevel.checkpoint()
    assert supervisor.killed == []
