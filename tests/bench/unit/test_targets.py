"""`benches.targets`: the targets beside a report of `pyrmq bench peers`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benches import targets
from pyrmq.bench.peers.loads import LOADS
from pyrmq.bench.peers.report import write_report
from tests.bench.unit.made import Made, measured


def test_every_load_has_a_target() -> None:
    assert set(targets.TARGETS) == {load.name for load in LOADS}


def test_what_is_met_and_what_is_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loads = [load for load in LOADS if load.name in ("1x64", "8x128", "topics-10000")]
    ours = Made("pyrmq", [95, 85, 100, 100, 95, 85])
    apache = Made("apache", [10, 10, 20, 20, 1, 1])
    path = tmp_path / "peers.json"
    write_report(path, measured(Made("floor", [100] * 6), ours, apache, loads=tuple(loads)))
    assert targets.main([str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "| 1 x 64, 1024 B | rate, of the floor's | 0.9 (0.85 to 0.95) | >= 0.9: met |" in lines
    assert "| 1 x 64, 1024 B | rate, of Apache's | 9 (8.5 to 9.5) | >= 7: met |" in lines
    assert "| 8 x 128, 1024 B | rate, of Apache's | 5 (5 to 5) | >= 6: **missed** |" in lines
    assert "| 0.9 (0.85 to 0.95) | >= 0.9: met |" in lines[-1]


def test_what_is_at_most_so_much() -> None:
    most = targets.Target("CPU", "server_cpu_us", "floor", "<= 1.4")
    assert (most.verdict(1.4), most.verdict(1.41)) == ("met", "missed")


def test_a_file_that_is_no_report_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text("{}")
    assert targets.main([str(tmp_path / "a.json")]) == 1
    assert "benches.targets: " in capsys.readouterr().err
