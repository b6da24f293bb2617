"""`pyrmq server --brokers N` and `pyrmq broker --processes N`: several processes of one cluster."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from pyrmq.net.address import parse_address
from pyrmq.sync import ConsumeFrom, Message, Producer, PushConsumer
from tests.support import forked
from tests.support.client import Client
from tests.support.command import PYRMQ, assert_refused, environment, run
from tests.support.ledger import Ledger
from tests.support.ports import free_port_triple
from tests.support.waiting import eventually

FREE = ("--namesrv-port", "0", "--broker-port", "0")
SMALL = {"PYRMQ_BROKER_CONF_MAPPED_FILE_SIZE_COMMIT_LOG": "1048576"}
_LINE = re.compile(
    r"(?P<name>[\w-]+): ready broker=(?P<at>\S+) store=(?P<store>.+) pid=(?P<pid>\d+)"
)


class Cluster:
    """A supervisor that serves; what it printed is in a file."""

    def __init__(self, folder: Path, *args: str, **env: str) -> None:
        self.folder = folder
        self.out, self.err = folder / "out", folder / "err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = forked.popen(
                [*PYRMQ, *args], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env=environment(**SMALL, **env),
            )  # fmt: skip
        try:
            eventually(lambda: self.ready or self.process.poll() is not None, "it serves", 120)
            assert self.ready, self.err.read_text()
        except BaseException:
            self.process.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait(60)
        self.until_gone()

    @property
    def ready(self) -> dict[str, str]:
        """The words of the last line."""
        line = next((x for x in self.out.read_text().splitlines() if x.startswith("ready ")), "")
        return dict(word.partition("=")[::2] for word in line.split()[1:])

    @property
    def lines(self) -> list[re.Match[str]]:
        """Of each start of a broker."""
        found = map(_LINE.match, self.out.read_text().splitlines())
        return [match for match in found if match is not None]

    def broker(self, name: str) -> re.Match[str]:
        """Its last start."""
        return next(match for match in reversed(self.lines) if match["name"] == name)

    def client(self, name: str) -> Client:
        return Client(parse_address(self.broker(name)["at"]))

    def until_gone(self) -> None:
        """No process of a broker is left."""
        pids = [int(match["pid"]) for match in self.lines]
        eventually(lambda: not any(map(_runs, pids)), f"none of {pids} runs", 60)


def two_free_triples() -> int:
    """The listenPort of the first of two brokers that find the same ports when they start again."""
    while True:
        port = free_port_triple()
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for near in (port + 8, port + 10, port + 11):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", near))
            return port


def _conf(folder: Path) -> Path:
    conf = folder / "broker.conf"
    conf.write_text(
        f"brokerName=mine\nlistenPort=0\nbindAddress=127.0.0.1\nbrokerIP1=127.0.0.1\n"
        f"storePathRootDir={folder / 'store'}\n"
    )
    return conf


def _runs(pid: int) -> bool:
    try:
        return "pyrmq" in Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_two_brokers_one_killed_nothing_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sends go to both, a consumer gets all, also behind a SIGKILL of one."""
    monkeypatch.setattr("pyrmq.client.instance.ROUTE_INTERVAL", 0.5)
    store = tmp_path / "store"
    ports = ("--namesrv-port", "0", "--broker-port", str(two_free_triples()))
    args = ("server", "--brokers", "2", "--store", str(store), "--flush", "SYNC_FLUSH", *ports)
    with Cluster(tmp_path, *args) as cluster:
        assert cluster.ready["brokers"] == "2"
        assert cluster.broker("broker-a")["store"] == str(store)
        assert cluster.broker("broker-b")["store"] == str(store / "brokers" / "broker-b")
        namesrv = cluster.ready["namesrv"]
        ledger = Ledger("both brokers", once=False)
        consumer = PushConsumer(
            "c",
            {"T": "*"},
            namesrv=namesrv,
            consume_from=ConsumeFrom.FIRST_OFFSET,
            listener=lambda message: ledger.received("T", int(message.body)),
        )

        def send(many: int) -> set[str]:
            """By a producer with routes of now; to which brokers they went."""
            went = set()
            with Producer("p", namesrv=namesrv) as producer:
                for _ in range(many):
                    number = ledger.row().sent
                    ledger.sent("T", number)
                    result = producer.send(Message("T", b"%d" % number))
                    ledger.acknowledged("T", number)
                    went.add(result.queue.broker_name)
            return went

        both = {"broker-a", "broker-b"}
        assert send(40) == both
        with consumer:
            eventually(lambda: not ledger.owed(), "all are consumed")
            before = cluster.broker("broker-b")["pid"]
            send(20)
            os.kill(int(before), signal.SIGKILL)
            send(20)
            eventually(lambda: cluster.broker("broker-b")["pid"] != before, "it is started again")
            assert cluster.err.read_text().count("broker broker-b was ended by SIGKILL; it is") == 1
            assert send(40) == both
            eventually(lambda: not ledger.owed(), "nothing is lost", 90)
        ledger.check()
        listed = run("admin", "cluster", "list", "-n", namesrv)
        assert listed.stdout.count(b"DefaultCluster") == 2, listed.stderr.decode()
        cluster.process.send_signal(signal.SIGTERM)
        assert cluster.process.wait(60) == 0, cluster.err.read_text()
        cluster.until_gone()
        log = cluster.err.read_text()
        assert not (store / "abort").exists()
        assert not (store / "brokers" / "broker-b" / "abort").exists()
        assert log.rindex("its store is closed") < log.rindex("the name server at")
    # With fewer brokers nobody would serve what the other has.
    for one in ((), ("--brokers", "1")):
        assert_refused(
            run("server", "--store", str(store), *FREE, *one), "brokers/broker-b", "auto"
        )


def test_no_broker_survives_its_supervisor(tmp_path: Path) -> None:
    """From one broker to two, whose supervisor is killed; then none runs, and all stopped in order.
    The first broker is the one that there was."""
    conf = _conf(tmp_path)
    with Cluster(tmp_path, "broker", "-c", str(conf), "--processes", "2") as cluster:
        for name in ("mine", "mine-1"):
            with cluster.client(name) as client:
                assert client.send("T", name.encode()).code == 0
        again = run("broker", "-c", str(conf), "--processes", "2", **SMALL)
        assert_refused(again, "another process", "cannot start")
        cluster.process.kill()
        cluster.process.wait(60)
        cluster.until_gone()
        assert cluster.err.read_text().count("its store is closed") == 2
    with Cluster(tmp_path, "broker", "-c", str(conf), "--processes", "2") as cluster:
        for name in ("mine", "mine-1"):
            with cluster.client(name) as client:
                assert sum(client.max_offset("T", n) for n in range(4)) == 1
        # Twice is at once, as with one broker.
        os.kill(int(cluster.broker("mine")["pid"]), signal.SIGSTOP)
        cluster.process.send_signal(signal.SIGINT)
        eventually(lambda: "broker mine-1 has stopped" in cluster.err.read_text(), "it stops")
        cluster.process.send_signal(signal.SIGINT)
        assert cluster.process.wait(60) == -signal.SIGINT
        cluster.until_gone()


def test_who_read_enough_of_stdout_ends_nothing(tmp_path: Path) -> None:
    """`pyrmq server --brokers 2 | grep -m 1 ready`, and later a broker is started again."""
    log = tmp_path / "log"
    with log.open("wb") as err:
        process = forked.popen(
            [*PYRMQ, "broker", "-c", str(_conf(tmp_path)), "--processes", "2"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, env=environment(**SMALL),
        )  # fmt: skip
    try:
        assert process.stdout is not None
        with process.stdout as out:
            lines = [out.readline().decode() for _ in range(3)]
        assert lines[2].startswith("ready brokers=2 ")
        found = re.search(r"mine-1: ready .* pid=(\d+)", "".join(lines))
        assert found is not None
        os.kill(int(found[1]), signal.SIGKILL)
        eventually(lambda: "cannot write to stdout any more" in log.read_text(), "it is told", 60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
        assert log.read_text().count("its store is closed") == 2
    finally:
        process.kill()
        process.wait(60)


def test_the_configuration_of_each_is_printed(tmp_path: Path) -> None:
    printed = run("broker", "-c", str(_conf(tmp_path)), "--processes", "2", "-p").stdout.decode()
    store = tmp_path / "store"
    for key, first, second in (
        ("brokerName", "mine", "mine-1"),
        ("storePathRootDir", store, store / "brokers" / "mine-1"),
    ):
        assert [line for line in printed.splitlines() if line.startswith(f"{key}=")] == [
            f"{key}={first}",
            f"{key}={second}",
        ]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--brokers", "65"), ("1 to 64", "auto")),
        (("--brokers", "two"), ("1 to 64", "auto")),
        (("--brokers", "2", "--broker-port", "65530"), ("broker-b", "65538")),
        (("--brokers", "2", "--broker-port", "9868"), ("name server", "9876")),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, args: tuple[str, ...], words: list[str]) -> None:
    assert_refused(run("server", "--store", str(tmp_path / "s"), *args), *words)
    assert not (tmp_path / "s").exists()
