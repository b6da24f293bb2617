"""A short run of `make soak` passes, and fails when a message is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.soak import __main__ as program
from tests.system.soak.ledgers import Ledgers
from tests.system.soak.report import Report
from tests.system.soak.run import Soak
from tests.system.soak.settings import Settings

SECONDS = 6.0
LEDGERS = 12


class Run:
    """One short run, and what it printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        settings = Settings(folder, seconds=SECONDS, seed=1, rate=0.5, line_every=2.0)
        self.report: Report = Soak(settings, self.lines.append).run()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("soak"))


@pytest.mark.slow
def test_a_short_run(run: Run) -> None:
    report = run.report
    assert report.failures() == []
    assert report.exit_code() == 0
    rows = [ledger.row() for ledger in report.ledgers]
    assert len(rows) == LEDGERS
    assert all(row.received >= row.wanted > 0 for row in rows)
    assert report.counts["SIGTERM"] == 1
    assert report.counts["SIGKILL"] == 2
    for what in (
        "admin requests", "check-backs", "dead letters", "hostile connections", "members cut off",
        "members joined", "read back at the end", "sent back",
    ):  # fmt: skip
        assert report.counts[what] > 0, what
    assert sum("private " in line for line in run.lines) >= 2
    text = "\n".join(report.lines())
    assert text.endswith("PASSED")
    assert "longest life" in text
    assert "after restarts" in text


@pytest.mark.slow
def test_a_message_that_did_not_come_fails_the_run(run: Run) -> None:
    """After all else: the ledgers are changed."""
    report = run.report
    lost = [ledger.forget() for ledger in report.ledgers]
    failures = report.failures()
    assert len(failures) == LEDGERS
    for ledger, key, failure in zip(report.ledgers, lost, failures, strict=True):
        assert failure.startswith(f"{ledger.name}: 1 lost, such as {key} (at ")
    assert report.exit_code() == 1
    assert report.lines()[-LEDGERS:] == [f"FAILED: {failure}" for failure in failures]


def test_arguments_that_cannot_be_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "store").mkdir()
    for wrong, said in (
        (["--minutes", "0"], "--minutes must be positive"),
        (["--rate", "-1"], "--rate must be positive"),
        (["--folder", str(tmp_path)], "name another --folder"),
    ):
        with pytest.raises(SystemExit) as ended:
            program.main(wrong)
        assert ended.value.code == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("faults", "code", "last"),
    [([], 0, "PASSED"), (["the server died"], 1, "FAILED: the server died"), (None, 130, "")],
)
def test_exit_codes(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    faults: list[str] | None,
    code: int,
    last: str,
) -> None:
    """None: Ctrl-C, twice."""
    ledgers = Ledgers()
    for ledger in ledgers:
        ledger.sent("s", 0)
        ledger.received("s", 0)

    class Instant:
        def __init__(self, settings: Settings, say: object) -> None:
            assert (settings.seconds, settings.seed) == (90, 7)

        def run(self) -> Report:
            if faults is None:
                raise KeyboardInterrupt
            return Report(ledgers, {}, faults)

    monkeypatch.setattr(program, "Soak", Instant)
    monkeypatch.setattr("signal.signal", lambda *arguments: None)
    assert program.main(["--minutes", "1.5", "--seed", "7", "--folder", str(tmp_path)]) == code
    said = capsys.readouterr().out
    assert "repeat with --seed 7" in said
    assert last in said.splitlines() or code == 130
