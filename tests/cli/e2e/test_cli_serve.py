"""`pyrmq server`, `pyrmq namesrv` and `pyrmq broker` as processes."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyrmq
from pyrmq.config.files import format_properties
from tests.support.client import GET_ROUTEINFO_BY_TOPIC, Client, send_command
from tests.support.command import PYRMQ, Serving, assert_refused, environment, has_ipv6, run
from tests.support.server import ServerProcess

FREE = ("--namesrv-port", "0", "--broker-port", "0")


def test_version_and_help() -> None:
    result = run("--version")
    assert result.returncode == 0
    assert pyrmq.__version__.encode() in result.stdout
    for command in ("", "server", "namesrv", "broker", "send", "consume"):
        result = run(*command.split(), "--help")
        assert (result.returncode, result.stderr) == (0, b"")
        assert b"Usage: " in result.stdout


@pytest.fixture
def _hangups() -> Iterator[None]:
    """Under nohup SIGHUP is ignored here, and so would it be in what is started."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("_hangups")
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_server_stops_in_order(tmp_path: Path, signum: int) -> None:
    args = ("server", "--store", str(tmp_path / "store"), *FREE)
    with Serving(tmp_path / "log", *args) as server:
        with Client(server.address("broker")) as client:
            assert client.send("Topic").code == 0
            assert (tmp_path / "store" / "abort").exists()
            assert server.stop(signum) == 0
        assert not (tmp_path / "store" / "abort").exists()
        errors = [w for w in ("Traceback", "ERROR", "WARNING") if w in server.stderr()]
        assert errors == [], server.stderr()


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_stop_answers_what_was_stored(tmp_path: Path, flush: str) -> None:
    """No message is stored by a graceful stop without an answer to its sender."""
    with ServerProcess(tmp_path / "store", flush=flush) as server:
        stored = 0
        for _ in range(5):  # where the stop meets the answers is chance
            clients = [Client(server.broker) for _ in range(40)]
            for client in clients:
                for _ in range(5):
                    client.post(send_command("Stop", b"x" * 4000))
            assert clients[0].receive().code == 0
            server.terminate()
            answered = 1
            for client in clients:
                answered += len(client.until_closed(30))
                client.close()
            server.start()
            with Client(server.broker) as client:
                before, stored = stored, client.max_offset("Stop", 0)
            assert stored - before == answered


def test_server_listens_on_loopback_only(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store") as server:
        ports = {f"{server.namesrv[1]:04X}", f"{server.broker[1]:04X}"}
        listening = {}
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                address, _, port = fields[1].rpartition(":")
                if fields[3] == "0A" and port in ports:
                    listening[port] = address
        assert listening == dict.fromkeys(ports, "0100007F")


@pytest.mark.parametrize("host", ["localhost", "::1"])
def test_server_on_other_loopback_names(tmp_path: Path, host: str) -> None:
    if host == "::1" and not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    args = ("server", "--store", str(tmp_path / "store"), "--host", host, *FREE)
    with Serving(tmp_path / "log", *args) as server:
        sent = run("send", "-n", server.facts["namesrv"], "-t", "T", "-b", "x")
        assert sent.returncode == 0, sent.stderr.decode()
        assert server.stop() == 0


def test_second_server_on_a_store(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store") as server:
        result = run("server", "--store", str(server.store), *FREE)
        assert_refused(result, str(server.store))
        assert "another process" in result.stderr.decode().lower()
        with Client(server.broker) as client:
            assert client.send("Mine").code == 0


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        store = ("server", "--store", str(tmp_path / "store"))
        ports = ("--namesrv-port", port, "--broker-port", "0")
        assert_refused(run(*store, *ports), "in use", port)
        assert_refused(run(*store, *ports[:1], "0", "--broker-port", port), "in use", port)


def test_a_store_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert_refused(run("server", "--store", str(tmp_path / "file" / "store"), *FREE), "file/store")


@pytest.mark.parametrize("name", ["a\nready broker=1", "a\rb", "a\x1bb", "a\u0085b"])
def test_a_store_whose_path_breaks_the_ready_line(tmp_path: Path, name: str) -> None:
    refused = run("server", "--store", str(tmp_path / name), *FREE)
    assert_refused(refused, "storePathRootDir=", "a path without line ends")
    assert not refused.stdout
    assert not list(tmp_path.iterdir()), "nothing was made"
    conf = tmp_path / "broker.conf"
    conf.write_text(format_properties({"storePathRootDir": str(tmp_path / name)}))
    assert_refused(run("broker", "-c", str(conf)), "storePathRootDir=", "a path without line ends")


def test_namesrv_and_broker_with_rocketmqs_own_files(tmp_path: Path) -> None:
    namesrv_conf = tmp_path / "namesrv.properties"
    namesrv_conf.write_text("# own file\nlistenPort = 0\nbindAddress=127.0.0.1\n")
    broker_conf = tmp_path / "broker.conf"
    broker_conf.write_text(
        "brokerClusterName=DefaultCluster\n"
        "brokerName=broker-x\n"
        "brokerId=0\n"
        "deleteWhen=04\n"
        "haListenPort=0\n"
        "destroyMapedFileIntervalForcibly=120000\n"
        "fileReservedTime=48\n"
        "brokerRole=ASYNC_MASTER\n"
        "flushDiskType=SYNC_FLUSH\n"
        "listenPort=0\n"
        "brokerIP1=127.0.0.1\n"
        "bindAddress=127.0.0.1\n"
        f"storePathRootDir={tmp_path}/root\n"
        f"storePathCommitLog={tmp_path}/elsewhere/log\n"
        "mappedFileSizeCommitLog=1048576\n"
    )
    with Serving(tmp_path / "n.log", "namesrv", "-c", str(namesrv_conf)) as namesrv:
        address = namesrv.facts["namesrv"]
        args = ("broker", "-c", str(broker_conf), "-n", address)
        with Serving(tmp_path / "b.log", *args) as broker:
            assert broker.facts["store"] == f"{tmp_path}/root"
            assert "destroyMapedFileIntervalForcibly" in broker.stderr(), (
                "a key without effect is reported"
            )
            sent = run("send", "-n", address, "-t", "Topic", "-b", "hello")
            assert sent.returncode == 0, sent.stderr.decode()
            assert b"broker=broker-x" in sent.stdout
            with Client(namesrv.address("namesrv")) as client:
                answer = client.call(GET_ROUTEINFO_BY_TOPIC, topic="Topic")
                assert broker.facts["broker"].encode() in answer.body
            got = run("consume", "-n", address, "-t", "Topic", "--from-first", "--count", "1")
            assert b"hello" in got.stdout
            assert broker.stop() == 0
            with Client(namesrv.address("namesrv")) as client:
                assert client.call(GET_ROUTEINFO_BY_TOPIC, topic="Topic").code == 17
        assert namesrv.stop(signal.SIGINT) == 0
    assert list((tmp_path / "elsewhere" / "log").glob("0" * 20))
    assert not (tmp_path / "root" / "commitlog").exists()
    assert (tmp_path / "root" / "config" / "topics.json").exists()
    assert not (tmp_path / "root" / "abort").exists()


@pytest.mark.usefixtures("_hangups")
@pytest.mark.parametrize("nohup", [True, False])
def test_nohup_has_sighup_ignored(tmp_path: Path, nohup: bool) -> None:
    conf = tmp_path / "namesrv.conf"
    conf.write_text(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={tmp_path / 'kv.json'}\n")
    with subprocess.Popen(
        [*(["nohup"] if nohup else []), *PYRMQ, "namesrv", "-c", str(conf)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"ready ")
            status = Path(f"/proc/{process.pid}/status").read_text()
            found = re.search(r"^SigIgn:\s*([0-9a-f]+)$", status, re.MULTILINE)
            assert found is not None
            assert int(found[1], 16) >> (signal.SIGHUP - 1) & 1 == nohup
        finally:
            process.terminate()


def test_broker_takes_the_name_server_from_the_environment(tmp_path: Path) -> None:
    conf = tmp_path / "b.conf"
    conf.write_text(f"listenPort=0\nbrokerIP1=127.0.0.1\nstorePathRootDir={tmp_path}/root\n")
    printed = run("broker", "-c", str(conf), "-p", NAMESRV_ADDR="127.0.0.1:1234")
    assert b"namesrvAddr=127.0.0.1:1234" in printed.stdout


def test_broker_starts_while_no_name_server_answers(tmp_path: Path) -> None:
    conf = tmp_path / "b.conf"
    conf.write_text(
        "listenPort=0\nbrokerIP1=127.0.0.1\nbindAddress=127.0.0.1\nnamesrvAddr=127.0.0.1:1\n"
        f"storePathRootDir={tmp_path}/root\n"
    )
    with Serving(tmp_path / "log", "broker", "-c", str(conf)) as broker:
        with Client(broker.address("broker")) as client:
            assert client.send("Topic").code == 0
        assert broker.facts["unregistered"] == "127.0.0.1:1"
        said = "not registered with name server 127.0.0.1:1: cannot connect to 127.0.0.1:1"
        assert broker.stderr().count(said) == 1, "said once, however often it is tried"
        assert "clients do not find this broker" in broker.stderr()
        assert broker.stop() == 0


def test_what_the_logs_of_a_clean_run_say(tmp_path: Path) -> None:
    """Who serves what where, and that it stopped in order; nothing alarming."""
    ports = ("--namesrv-port", "0", "--broker-port", "0")
    with Serving(tmp_path / "log", "server", "--store", str(tmp_path / "s"), *ports) as server:
        assert "unregistered" not in server.facts
        assert server.stop() == 0
        text = server.stderr()
    version = pyrmq.__version__
    for line in (
        f"the name server serves at {server.facts['namesrv']}; pyrmq {version}",
        "broker broker-a of cluster DefaultCluster (ASYNC_MASTER, brokerId 0, ASYNC_FLUSH) serves "
        f"at {server.facts['broker']}; store {tmp_path}/s; pyrmq {version}",
        f"registered with name server {server.facts['namesrv']}",
        "broker broker-a stops",
        "broker broker-a has stopped; its store is closed",
        f"the name server at {server.facts['namesrv']} has stopped",
    ):
        assert f"{line}\n" in text
    assert not re.search("WARN|ERROR|Traceback", text), text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("flushDiskTyp=SYNC_FLUSH", ("flushDiskTyp", "did you mean flushDiskType")),
        ("listenPort=http", ("listenPort", "number")),
        ("listenPort=70000", ("listenPort", "65535")),
        ("flushDiskType=SOMETIMES", ("flushDiskType", "SYNC_FLUSH")),
        ("brokerRole=SLAVE", ("brokerRole", "brokerId above 0")),
        ("brokerId=3", ("brokerId",)),
        ("brokerName=a b", ("brokerName",)),
        ("namesrvAddr=nowhere", ("namesrvAddr", "nowhere")),
        ("brokerIP1=not-an-address", ("brokerIP1", "not-an-address")),
        ("longPollingEnable=yes", ("longPollingEnable", "true or false")),
    ],
)
def test_bad_configuration_is_named(tmp_path: Path, line: str, words: tuple[str, ...]) -> None:
    conf = tmp_path / "b.conf"
    conf.write_text(f"storePathRootDir={tmp_path}/root\n{line}\n")
    result = run("broker", "-c", str(conf))
    assert_refused(result, *words)
    assert result.stdout == b""


def test_bad_name_server_configuration_and_files(tmp_path: Path) -> None:
    conf = tmp_path / "n.conf"
    conf.write_text("listenPorts=1\n")
    assert_refused(run("namesrv", "-c", str(conf)), "listenPorts", "did you mean listenPort")
    assert_refused(run("namesrv", "-c", str(tmp_path / "missing.conf")), "missing.conf")
    conf.write_bytes(b"listenPort=\xff\n")
    assert_refused(run("broker", "-c", str(conf)), "UTF-8")
    assert_refused(run("broker", "-n", "nowhere"), "nowhere")
    assert_refused(run("serve"), "serve")
