"""Every load against pyrmq's own broker, and the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyrmq.testing
from pyrmq.bench.options import Options
from pyrmq.bench.result import BenchError, Result, read_result
from pyrmq.bench.run import run
from pyrmq.server import Running


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with pyrmq.testing.broker(enable_property_filter=True) as running:
        yield running


def measured(running: Running, load: str, **options: Any) -> Result:
    return run(Options(load, namesrv=running.namesrv, topic=f"Bench{load}", **options))


@pytest.mark.parametrize("load", ["send", "batch", "oneway", "latency", "transaction", "delay"])
def test_every_message_comes_back(running: Running, load: str) -> None:
    found = measured(running, load, count=320, verify=True, topics=2, queues=3, rate=None)
    v = found.verify
    assert v is not None
    assert (v.sent, v.received, v.lost, v.twice, v.foreign) == (320, 320, 0, 0, 0)
    assert (found.ended, found.messages, found.errors) == ("count", 320, [])
    assert found.bytes == 320 * 1024
    kinds = {"latency": {"request", "end_to_end"}, "transaction": {"request", "commit"}}
    kinds |= {"delay": {"request", "late"}, "oneway": set()}
    assert set(found.latency) == kinds.get(load, {"request"})
    assert found.environment.flush == "ASYNC_FLUSH"
    assert found.environment.broker_version


def test_transactions_whose_ends_have_no_answer_come_back(running: Running) -> None:
    found = measured(
        running, "transaction", count=320, verify=True, oneway_end=True, connections=2, in_flight=8
    )
    v = found.verify
    assert v is not None
    assert (v.sent, v.acknowledged, v.received, v.lost, v.twice) == (320, 320, 320, 0, 0)
    assert (found.ended, found.messages, found.errors) == ("count", 320, [])


def test_pull_reads_what_is_there_again_and_again(running: Running) -> None:
    with pytest.raises(BenchError, match="does not exist: send to it first"):
        measured(running, "pull", count=1)
    run(Options("batch", namesrv=running.namesrv, topic="Benchpull", count=64))
    found = measured(running, "pull", count=1000, in_flight=1)
    assert found.messages >= 1000
    assert found.latency["request"].count


def test_push_receives_what_another_sends(running: Running) -> None:
    run(Options("send", namesrv=running.namesrv, topic="Benchpush", count=50))
    found = measured(running, "push", count=50, from_start=True)
    assert found.messages == 50
    # They were due before this run began: that says nothing about the broker.
    assert found.latency == {}


def test_a_mixed_load_with_tags_and_sql(running: Running, tmp_path: Path) -> None:
    path = tmp_path / "load.toml"
    path.write_text("""
        [[producer]]
        topic = "MixedA"
        rate = 2000
        size = "10-100"
        tags = { A = 1, B = 1 }
        [[producer]]
        topic = "MixedB"
        kind = "batch"
        rate = 2000
        properties = { region = "eu" }
        [[consumer]]
        topic = "MixedA"
        tags = "A"
        [[consumer]]
        topic = "MixedB"
        sql = "region = 'eu'"
        group = "mixed"
    """)
    found = run(Options("mixed", namesrv=running.namesrv, file=path, duration=1.0))
    assert (found.loop, found.target_rate, found.errors) == ("open", 4000.0, [])
    assert found.messages > 0
    assert found.latency["end_to_end"].count


def test_a_process_that_ends_is_told(running: Running) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:

        def end(snapshot: dict[str, Any]) -> None:
            child.kill()
            child.wait()

        options = Options("send", namesrv=running.namesrv, duration=2.2, rate=100.0)
        options.pids = [child.pid]
        found = run(options, end)
    (server,) = found.servers
    assert server.ended
    assert server.name == "cat"
    assert any(f"Process {child.pid} (cat) ended" in warning for warning in found.warnings)
    with pytest.raises(BenchError, match="there is no such process"):
        measured(running, "send", pids=[child.pid])


def test_what_our_own_broker_gives_to_pops(running: Running) -> None:
    found = measured(running, "pop", count=200, verify=True)
    v = found.verify
    assert v is not None
    assert (v.sent, v.received, v.lost, v.foreign) == (200, 200, 0, 0)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "pyrmq", "bench", *words]


def test_ctrl_c_gives_the_result_so_far(running: Running, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    words = command("send", "-n", running.namesrv, "-d", "10m", "--rate", "100", "--progress")
    with subprocess.Popen(
        [*words, "--json", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert "/s sent" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        text = process.stdout.read()
        process.stderr.read()
    assert process.returncode == 130
    assert "The run was interrupted" in text
    found = read_result(path)
    assert found.ended == "interrupted"
    assert found.messages > 0
    assert found.command[:3] == ["pyrmq", "bench", "send"]


def test_against_nothing_with_a_broker_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    words = command("send", "--embedded", "--count", "100", "--verify", "--json", str(path))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "100 received, 0 lost" in done.stdout
    value = json.loads(path.read_text())
    assert value["messages"] == 100
    assert value["settings"]["embedded"] is True
    # The server and its folder are gone.
    assert not Path(value["environment"]["disk_path"]).exists()


def test_a_broker_of_its_own_ends_with_a_run_that_is_terminated(tmp_path: Path) -> None:
    words = command("send", "--embedded", "--rate", "100", "-d", "10m", "--progress")
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stderr is not None
        assert "/s sent" in process.stderr.readline()
        assert os.listdir(tmp_path)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate()
    assert process.returncode == 130
    assert "The run was interrupted" in said
    # Its folder goes last, when the server has ended.
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["send", "--speed", "5"], 2, "No such option"),
        (["send", "--size", "big"], 2, "write 1024"),
        (["send", "-n", "127.0.0.1:1", "--count", "1"], 1, "cannot connect"),
        (["pull", "--verify"], 2, "No such option"),
    ],
)
def test_commands_that_cannot_run(words: list[str], code: int, said: str) -> None:
    done = subprocess.run(command(*words), capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
