"""What `make bench-instructions` makes of callgrind's files, and how it compares."""

from __future__ import annotations

from pathlib import Path

import pytest

from benches.instructions import __main__ as instructions

LOAD = instructions.LOADS[0]


def test_the_total_of_a_file_is_read() -> None:
    text = "version: 1\nevents: Ir\n\nfn=(1) f\n0x1 3 17\ntotals: 12345\n"
    assert instructions.total(text) == 12345


@pytest.mark.parametrize("text", ["events: Ir\n", "totals: 0\n", ""])
def test_a_run_that_counted_nothing_is_an_error(text: str) -> None:
    with pytest.raises(SystemExit, match="counted nothing"):
        instructions.total(text)


def test_counts_are_saved_compared_and_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counted = 1000.0
    monkeypatch.setattr(instructions, "_build", Path)
    monkeypatch.setattr(instructions, "count", lambda *_: counted)
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/valgrind")
    saved = tmp_path / "new" / "counts.json"
    assert instructions.main(["--load", LOAD.name, "--save", str(saved)]) == 0
    assert instructions.read(saved) == {LOAD.name: 1000.0}
    compare = ["--load", LOAD.name, "--compare", str(saved)]
    assert instructions.main(compare) == 0
    counted = 1005.0  # noise
    assert instructions.main(compare) == 0
    capsys.readouterr()
    counted = 1020.0
    assert instructions.main(compare) == 1
    assert "1.020" in capsys.readouterr().out
    saved.write_text("[]")
    assert instructions.main(compare) == 2
    assert str(saved) in capsys.readouterr().err


def test_without_valgrind_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert instructions.main([]) == 2
    assert "apt-get install valgrind" in capsys.readouterr().err
