"""Logs of servers as operators see them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.broker.e2e.test_many_brokers import FREE, Cluster
from tests.support import forked
from tests.support.client import Client
from tests.support.command import PYRMQ, Serving, assert_refused, environment, run
from tests.support.waiting import eventually

PORTS = ("--namesrv-port", "0", "--broker-port", "0")


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def says(path: Path, text: str) -> Callable[[], bool]:
    return lambda: text in path.read_text()


def test_json_in_a_file_whose_level_changes_while_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "b.log"
    words = ("--store", str(tmp_path / "s"), "--log-file", str(path), "--log-format", "json")
    with Serving(tmp_path / "err", "server", *PORTS, *words) as server:
        with Client(server.address("broker")) as client:
            assert client.send("Made").code == 0
        eventually(says(path, "create topic Made"), "the topic is logged")
        (made,) = [row for row in rows(path) if row.get("topic") == "Made"]
        assert (made["level"], made["logger"]) == ("INFO", "pyrmq.broker.tables.topic_creation")

        broker = server.facts["broker"]
        done = run("admin", "broker", "config", "set", "-b", broker, "logLevel", "error")
        assert done.returncode == 0, done.stderr
        with Client(server.address("broker")) as client:
            assert client.send("Quiet").code == 0
        os.kill(server.process.pid, signal.SIGUSR1)
        eventually(says(path, "the log level is debug, by a signal"), "debug")
        os.kill(server.process.pid, signal.SIGUSR2)
        done = run("admin", "broker", "config", "set", "-b", broker, "logLevel", "info")
        assert done.returncode == 0, done.stderr
        with Client(server.address("broker")) as client:
            assert client.send("Loud").code == 0
        eventually(says(path, "create topic Loud"), "loud again")
        assert "Quiet" not in path.read_text()
        path.rename(tmp_path / "moved")
        eventually(path.exists, "the file that was moved is made again")
        assert server.stop() == 0
    assert rows(path)[-1]["message"].endswith("has stopped")  # type: ignore[attr-defined]
    assert (tmp_path / "err").read_text() == ""


def test_the_level_of_a_name_server_changes_and_its_folder_has_rocketmqs_files(
    tmp_path: Path,
) -> None:
    conf = tmp_path / "n.conf"
    conf.write_text(
        f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={tmp_path}/kv.json\n"
        f"logFolder={tmp_path}/rocketmqlogs\n"
    )
    path = tmp_path / "rocketmqlogs" / "namesrv.log"
    with Serving(tmp_path / "err", "namesrv", "-c", str(conf)) as server:
        assert "the name server serves at" in path.read_text(), "before it says that it is ready"
        where = ("-n", server.facts["namesrv"])
        done = run("admin", "namesrv", "config", "set", *where, "logLevels", "pyrmq.namesrv=error")
        assert done.returncode == 0, done.stderr
        assert server.stop() == 0
    assert "has stopped" not in path.read_text()


def test_a_place_that_cannot_be_written_refuses_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    words = ("--store", str(tmp_path / "s"), "--log-file", str(tmp_path / "file" / "b.log"))
    assert_refused(run("server", *PORTS, *words), "logFile: ", "cannot be written: Not a directory")


def test_a_variable_of_the_name_server_beside_a_broker_is_refused(tmp_path: Path) -> None:
    done = run(
        "server", *PORTS, "--store", str(tmp_path / "s"), PYRMQ_NAMESRV_CONF_LOG_LEVEL="debug"
    )
    assert_refused(done, "PYRMQ_NAMESRV_CONF_LOG_LEVEL: name server and broker have one log here")


def test_a_full_disk_stops_no_server(tmp_path: Path) -> None:
    words = ("--store", str(tmp_path / "s"), "--log-file", "/dev/full")
    with Serving(tmp_path / "err", "server", *PORTS, *words) as server:
        with Client(server.address("broker")) as client:
            assert client.send("T").code == 0
        assert server.stop() == 0
    said = (tmp_path / "err").read_text()
    assert "the log /dev/full cannot be written: No space left on device" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_reader_of_stderr_that_is_gone_or_sleeps_stops_no_server(
    tmp_path: Path, is_gone: bool
) -> None:
    """Its pipe takes some lines, or none."""
    reader, writer = os.pipe()
    if is_gone:
        os.close(reader)
    else:
        os.set_blocking(writer, False)
        with suppress(BlockingIOError):
            while os.write(writer, b"x" * 4096):
                pass
        os.set_blocking(writer, True)
    process = forked.popen(
        [*PYRMQ, "server", *PORTS, "--store", str(tmp_path / "s"), "--log-level", "debug"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=writer,
        env=environment(),
    )
    assert process.stdout is not None
    try:
        ready = process.stdout.readline().decode()
        facts = dict(word.partition("=")[::2] for word in ready.split()[1:])
        host, _, port = facts["broker"].rpartition(":")
        with Client((host, int(port))) as client:
            for n in range(50):
                assert client.send(f"T{n}").code == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()
        os.close(writer)
        if not is_gone:
            os.close(reader)


def test_brokers_of_one_server_have_files_of_their_own(tmp_path: Path) -> None:
    conf = tmp_path / "b.conf"
    conf.write_text(
        f"storePathRootDir={tmp_path}/s\nlogFile={tmp_path}/logs/b.log\nlogFormat=json\n"
    )
    with Cluster(tmp_path, "server", "--brokers", "2", "-c", str(conf), *FREE) as cluster:
        cluster.process.terminate()
        assert cluster.process.wait(60) == 0
    for name in ("broker-a", "broker-b"):
        found = rows(tmp_path / "logs" / f"b-{name}.log")
        assert {row["server"] for row in found} == {name}
        assert any("serves at" in str(row["message"]) for row in found)
    assert any(
        "the name server" in str(row["message"]) for row in rows(tmp_path / "logs" / "b.log")
    )
