"""The loads of `pyrmq bench peers`: which are measured, in which flush mode, and how."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from click.testing import CliRunner

from pyrmq.bench.peers import remoting, turns
from pyrmq.bench.peers.loads import FEW, LOADS
from pyrmq.bench.peers.markdown import markdown
from pyrmq.bench.peers.page import page
from pyrmq.bench.peers.peer import Load, Plan, Serving
from pyrmq.bench.peers.report import Report
from pyrmq.bench.result import BenchError
from pyrmq.cli import main
from tests.bench.unit.canned import parsed, texts
from tests.bench.unit.made import TWO, Made, measured


def test_loads_of_both_flush_modes_and_those_that_are_a_part_of_another() -> None:
    loads = (
        Load("1x64", "send", 1, 64, 1024, flush="ASYNC_FLUSH"),
        Load("many", "send", 1, 64, 1024, flush="ASYNC_FLUSH", topics=500, part_of="1x64"),
        Load("sync", "send", 1, 64, 1024, flush="SYNC_FLUSH"),
    )
    flushes = []

    class Both(Made):
        @contextmanager
        def serve(self, plan: Plan) -> Iterator[Serving]:
            flushes.append(plan.flush)
            with super().serve(plan) as serving:
                yield replace(serving, settings=f"flush={plan.flush}")

    made = Both("pyrmq", [100, 200, 50, 80, 1, 2]), Both("floor", [1, 1, -1, 9, 9])
    report = measured(*made, loads=loads)
    assert flushes == ["ASYNC_FLUSH"] * 2 + ["SYNC_FLUSH"] * 2
    assert report.flush == "ASYNC_FLUSH and SYNC_FLUSH"
    assert [w.load for w in report.windows if w.peer == "pyrmq"] == [
        *("1x64", "1x64", "many", "many", "sync", "sync"),
    ]
    assert report.peers[0].settings == "flush=ASYNC_FLUSH; with SYNC_FLUSH: flush=SYNC_FLUSH"
    text = markdown(report)
    assert "| 1 x 64, 1024 B, 500 topics in turns |" in text
    assert "Rate, times its own with 1x64 |" in text
    assert "| 0.45 (0.4 to 0.5) |" in text
    assert "| 1 x 64, 1024 B, SYNC_FLUSH |" in text
    assert "0.45 (0.4 to 0.5)" in texts(parsed(page(report)))


def test_at_a_given_rate_latencies_are_compared() -> None:
    load = Load("l", "latency", 4, 64, 1024, rate=100.0)
    report = measured(Made("apache", [100, 100]), Made("pyrmq", [100, 100]), loads=(load,))
    text = markdown(report)
    assert "| send to receive at 100/s, 1024 B | Rate |" in text
    assert "p99, times Apache |" in text
    assert "Rate, times" not in text


def test_a_peer_that_does_not_start_again_loses_nothing() -> None:
    class Once(Made):
        starts = 0

        @contextmanager
        def serve(self, plan: Plan) -> Iterator[Serving]:
            self.starts += 1
            if self.starts > 1:
                raise BenchError("the port is taken")
            with super().serve(plan) as serving:
                yield serving

    loads = tuple(replace(TWO[0], name=name, flush=name) for name in ("ASYNC_FLUSH", "SYNC_FLUSH"))
    report = measured(Once("pyrmq", [1, 2]), loads=loads)
    assert [w.rate for w in report.windows] == [1, 2]
    assert report.peers[0].missing == ""
    assert [(f.load, f.why) for f in report.failures] == [("SYNC_FLUSH", "the port is taken")]


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (
            Load("p", "pull", 4, 1, 1024, 32),
            "--in-flight 1 --duration 2s --warmup 1s --max-msgs 32",
        ),
        (Load("l", "latency", 4, 64, 100, rate=1e4), "--size 100 --rate 10000"),
        (Load("t", "send", 8, 128, 100, topics=99), "--size 100 --topics 99"),
        (Load("b", "batch", 1, 4, 100, 32), "--size 100 --batch 32"),
    ],
)
def test_each_load_is_one_of_pyrmq_bench(load: Load, words: str) -> None:
    found = " ".join(remoting.arguments(Serving("127.0.0.1:1", 5, "", []), load, 2, 1))
    assert found.startswith("--address 127.0.0.1:1 --pid 5 --topic BenchPeers")
    assert found.endswith(words)


def test_the_loads_of_a_run() -> None:
    names = [load.name for load in LOADS]
    assert len(set(names)) == len(names)
    assert set(names) >= FEW
    assert all(load.part_of in {"", *names} for load in LOADS)
    # One start of the peers for each flush mode.
    flushes = [load.flush for load in LOADS]
    assert flushes == sorted(flushes)


@pytest.mark.parametrize(
    ("words", "names", "seconds", "prepare"),
    [
        ([], FEW, 3.0, 8.0),
        (["--full"], {load.name for load in LOADS}, 5.0, 15.0),
        (["--full", "--duration", "2", "--prepare", "0"], {load.name for load in LOADS}, 2.0, 0.0),
        (["--flush", "SYNC_FLUSH"], {"sync-1x64", "sync-64x1"}, 3.0, 8.0),
        (["--load", "256x1", "--load", "sync-1x1"], {"256x1", "sync-1x1"}, 3.0, 8.0),
    ],
)
def test_which_loads_a_command_line_chooses(
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    names: set[str],
    seconds: float,
    prepare: float,
) -> None:
    report = measured(Made("pyrmq", [1, 2, 3, 4]))
    asked: list[tuple[set[str], Plan]] = []

    def run(peers: object, loads: list[Load], plan: Plan, *rest: object) -> Report:
        asked.append(({load.name for load in loads}, plan))
        return report

    monkeypatch.setattr(turns, "run", run)
    done = CliRunner().invoke(main, ["bench", "peers", *words])
    assert done.exit_code == 0, done.output
    ((chosen, plan),) = asked
    assert chosen == names
    assert (plan.seconds, plan.prepare) == (seconds, prepare)
