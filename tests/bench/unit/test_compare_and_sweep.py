"""`pyrmq bench compare` and `sweep` on results that are known."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from click.testing import Result as Outcome

import pyrmq.bench.child
from pyrmq.bench.compare import compare, table
from pyrmq.bench.knee import MOST_STEPS, Limits, Step, broken, climb, walk
from pyrmq.bench.result import BenchError, Result, ResultFormatError, Verify, write_result
from pyrmq.bench.runs import read_runs, write_runs
from pyrmq.bench.spread import ratio
from pyrmq.bench.sweep import step_of
from pyrmq.cli import main
from tests.bench.unit.canned import parsed, result, texts

NAMES = ("a.json", "b.json")


def invoke(*words: str | Path) -> Outcome:
    return CliRunner().invoke(main, ["bench", *map(str, words)])


# Ratios and their spread


def test_a_ratio_is_that_of_medians_with_the_range_of_all_pairs() -> None:
    found = ratio([100, 110, 90], [200, 220, 210])
    assert found is not None
    assert (found.value, found.low, found.high) == (2.1, 200 / 110, 220 / 90)
    assert found.spread == pytest.approx(0.2)
    assert not found.hidden
    assert (found.judged(True), found.judged(False)) == ("better", "worse")


def test_a_spread_larger_than_the_difference_hides_it() -> None:
    found = ratio([100, 130, 100], [110, 112, 111])
    assert found is not None
    assert found.hidden
    assert "spread (30%) is larger than the difference (11%)" in found.judged(True)


def test_half_is_as_far_from_one_as_double() -> None:
    half, double = ratio([200, 200], [100, 100]), ratio([100, 100], [200, 200])
    assert half is not None
    assert double is not None
    assert half.difference == double.difference == 1


def test_one_run_has_no_spread() -> None:
    found = ratio([100], [200])
    assert found is not None
    assert found.spread is None
    assert "one run" in found.judged(True)


@pytest.mark.parametrize(("a", "b"), [([], [1.0]), ([1.0], []), ([0.0], [1.0]), ([1.0], [0.0])])
def test_without_values_above_0_there_is_no_ratio(a: list[float], b: list[float]) -> None:
    assert ratio(a, b) is None


# Comparing results


def test_figures_of_both_sides_are_compared() -> None:
    a = [result(1000, 500, cpu=4), result(1010, 510, cpu=4.1)]
    b = [result(2000, 250, cpu=8), result(2020, 255, cpu=8.2)]
    found = compare(a, b, NAMES)
    by = {line.name: line.ratio for line in found.lines}
    assert by["rate"] is not None
    assert by["p99 request"] is not None
    assert by["server CPU"] is not None
    assert by["rate"].value == 2
    assert by["p99 request"].value == 0.5
    assert by["server CPU"].value == 2
    lines = [line.split() for line in table(found).splitlines()]
    assert next(line for line in lines if line[:1] == ["rate,"])[-1] == "better"
    assert next(line for line in lines if line[:2] == ["server", "CPU,"])[-1] == "worse"


def test_different_loads_are_refused_with_what_differs() -> None:
    with pytest.raises(BenchError, match=r'size "1024" and "512"'):
        compare([result()], [result(settings={"size": "512"})], NAMES)
    with pytest.raises(BenchError, match='load "send" and "pull"'):
        compare([result()], [result(load="pull")], NAMES)
    with pytest.raises(BenchError, match=r"a\.json has runs of different loads"):
        compare([result(), result(settings={"size": "512"})], [result()], NAMES)


def test_where_a_load_went_and_how_long_may_differ() -> None:
    other = result(settings={"address": "10.0.0.1:10911", "topic": "Other", "duration": 60.0})
    notes = compare([result()], [other], NAMES).notes
    assert notes == ["duration differs: 10.0 and 60.0"]


def test_what_makes_a_comparison_weak_is_noted() -> None:
    bad = result(errors=3, limit=True, ended="error", why="the broker went away")
    notes = compare([result()], [bad], NAMES).notes
    assert "b.json: a run ended early (error: the broker went away)" in notes
    assert "b.json: the load generator was probably the limit" in notes
    assert "b.json: 3 errors in a run of 10,000 messages" in notes


def test_compare_reads_files_and_folders(tmp_path: Path) -> None:
    write_result(tmp_path / "a.json", result(1000))
    folder = tmp_path / "b"
    folder.mkdir()
    write_result(folder / "1.json", result(1500))
    write_runs(folder / "2.json", [result(1600), result(1700)])
    assert [run.rate for run in read_runs(folder)] == [1500, 1600, 1700]
    done = invoke("compare", tmp_path / "a.json", folder)
    assert done.exit_code == 0
    assert "3 runs" in done.output
    assert "1.6" in done.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"schema": "pyrmq-bench/9"}', "its schema is pyrmq-bench/9"),
        ('{"schema": "pyrmq-bench-sweep/1"}', "its schema is pyrmq-bench-sweep/1"),
        ("[1, 2]", "its schema is none"),
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ('{"schema": "pyrmq-bench-runs/1", "runs": []}', "one or more runs"),
        ('{"schema": "pyrmq-bench-runs/1", "runs": [{"schema": "x"}]}', "runs[0]"),
        ('{"schema": "pyrmq-bench/1"}', "is missing"),
    ],
)
def test_a_file_that_is_no_result_is_refused(tmp_path: Path, text: str, said: str) -> None:
    write_result(tmp_path / "a.json", result())
    (tmp_path / "b.json").write_text(text)
    done = invoke("compare", tmp_path / "a.json", tmp_path / "b.json")
    assert done.exit_code == 1
    assert said in done.output
    with pytest.raises(ResultFormatError):
        read_runs(tmp_path / "b.json")


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultFormatError, match=r"no \*\.json"):
        read_runs(tmp_path)


# The knee


def broker(capacity: float) -> Callable[[float], Step]:
    """One that keeps up to a rate, and falls behind above."""

    def measure(rate: float) -> Step:
        p99 = 1000.0 if rate <= capacity else 10_000_000.0
        return Step(rate, min(rate, capacity), p99 / 10, p99, p99 * 2, p99 * 3)

    return measure


@pytest.mark.parametrize("capacity", [1.5, 900, 1000, 4321, 99_000, 1_000_000])
def test_the_knee_is_found_as_well_as_asked_for(capacity: float) -> None:
    found = climb(broker(capacity), Limits(), start=1000, precision=0.05)
    assert found.held is not None
    assert found.broke is not None
    assert found.held <= capacity < found.broke
    assert found.broke / found.held <= 1.05 or found.broke - found.held < 1
    assert "The knee is at" in found.verdict


def test_a_broker_that_holds_all_rates_has_no_knee() -> None:
    found = climb(broker(math.inf), Limits(), start=1000, most=5000)
    assert [step.rate for step in found.steps] == [1000, 2000, 4000, 5000]
    assert found.verdict == "No rate broke up to 5,000/s."


def test_a_broker_that_holds_none_says_so() -> None:
    found = climb(broker(0.5), Limits(), start=1000)
    assert found.held is None
    assert found.verdict.startswith("No rate held: 1/s broke already")


def test_one_bad_moment_is_no_knee() -> None:
    bad = iter([True])

    def measure(rate: float) -> Step:
        return broker(0.1 if next(bad, False) else 5000)(rate)

    found = climb(measure, Limits(), start=1000, again=1)
    assert found.held is not None
    assert found.held > 4000
    assert climb(broker(5000), Limits(), start=1000, again=0).held is not None


def test_a_search_ends_when_rates_waver() -> None:
    found = climb(broker(1e6), Limits(), start=1, most=1e7, factor=1.0001)
    assert len(found.steps) == MOST_STEPS
    assert "ended after" in found.verdict


def test_an_interrupted_search_keeps_what_it_found() -> None:
    steps = iter([broker(1e9)(1000), broker(1e9)(2000)])

    def measure(rate: float) -> Step:
        try:
            return next(steps)
        except StopIteration:
            raise KeyboardInterrupt from None

    found = climb(measure, Limits(), start=1000)
    assert found.held == 2000
    assert found.ended == "The search was interrupted."


def test_given_rates_are_walked_until_one_breaks() -> None:
    found = walk(broker(3000), Limits(), [4000, 1000, 2000, 9000], again=0)
    assert [step.rate for step in found.steps] == [1000, 2000, 4000]
    assert (found.held, found.broke) == (2000, 4000)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (Step(1000, 1000, 1, 60_000, 1, 1), "p99 is 60,000 us (limit 50,000 us)"),
        (Step(1000, 900, 1, 1, 1, 1), "only 90.0% of the rate was reached (limit 98.0%)"),
        (Step(1000, 1000, 1, 1, 1, 1, errors=0.01), "1.00% of the messages failed"),
        (Step(1000, 1000, 1, 1, 1, 1, backlog=800), "800 messages waited at the end, 0.8 s"),
        (Step(1000, 1000, 1, math.nan, 1, 1), "p99 is nan us"),
    ],
)
def test_a_rate_breaks_by_each_limit(step: Step, said: str) -> None:
    assert said in broken(step, Limits())


@pytest.mark.parametrize(
    "how",
    [{"start": 0.0}, {"start": 10.0, "most": 5.0}, {"factor": 1.0}, {"precision": 0.0}],
)
def test_a_search_that_cannot_be_is_refused(how: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        climb(broker(1), Limits(), **how)  # type: ignore[arg-type]


def test_a_step_takes_its_figures_from_the_result() -> None:
    step = step_of(1000, result(990, 700, asked=1000, errors=100, backlog=5, limit=True))
    assert (step.reached, step.p99_us, step.backlog, step.generator_limit) == (990, 700, 5, True)
    assert step.errors == pytest.approx(100 / 10_000, rel=0.02)
    with pytest.raises(BenchError, match="knows no rate"):
        step_of(1000, result())
    with pytest.raises(BenchError, match="went away"):
        step_of(1000, result(0, asked=1000, ended="error", why="the broker went away"))


def test_the_generator_is_named_where_it_was_the_limit() -> None:
    def measure(rate: float) -> Step:
        return Step(rate, min(rate, 3000), 1, 1, 1, 1, generator_limit=rate > 3000)

    found = walk(measure, Limits(), [1000, 4000])
    assert "The load generator was probably the limit there" in found.verdict


# The command


def fake_runs(monkeypatch: pytest.MonkeyPatch, capacity: float) -> list[tuple[str, list[str]]]:
    """Runs of `pyrmq bench` that have a capacity; what they were called with."""
    called: list[tuple[str, list[str]]] = []

    def run(load: str, arguments: list[str], quiet: bool = False) -> Result:
        called.append((load, arguments))
        rate = float(arguments[arguments.index("--rate") + 1])
        return result(min(rate, capacity), 400 if rate <= capacity else 9e6, asked=rate)

    monkeypatch.setattr(pyrmq.bench.child, "run", run)
    return called


def test_the_command_sweeps_writes_and_draws(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    called = fake_runs(monkeypatch, 3000)
    out, svg = tmp_path / "sweep.json", tmp_path / "knee.svg"
    done = invoke(
        *("sweep", "--json", out, "--plot", svg, "--from", 1000, "--precision", 0.5),
        *("send", "-n", "127.0.0.1:1", "--size", "100"),
    )
    assert done.exit_code == 0, done.output
    assert called[0] == ("send", ["-n", "127.0.0.1:1", "--size", "100", "--rate", "1000"])
    assert "The knee is at" in done.output
    document = json.loads(out.read_text())
    assert document["schema"] == "pyrmq-bench-sweep/1"
    assert 2000 <= document["knee"] <= 3000 < document["broke"]
    assert document["steps"][0]["result"]["schema"] == "pyrmq-bench/1"
    shown = texts(parsed(svg.read_text()))
    assert "p99" in shown
    assert any(text.startswith("knee: ") for text in shown)


def test_the_command_measures_given_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    called = fake_runs(monkeypatch, 100)
    done = invoke("sweep", "--rates", "200,300", "--again", "0", "send")
    assert done.exit_code == 1
    assert len(called) == 1
    assert "No rate held" in done.output


def test_a_broker_that_refuses_all_has_no_knee_and_nothing_to_draw(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(load: str, arguments: list[str], quiet: bool = False) -> Result:
        return replace(result(0, asked=1000, errors=5), latency={})

    monkeypatch.setattr(pyrmq.bench.child, "run", run)
    out = tmp_path / "sweep.json"
    done = invoke("sweep", "--rates", "1000", "--json", out, "--plot", tmp_path / "x.svg", "send")
    assert done.exit_code == 1
    assert "No rate held: 1,000/s broke already: 100.00% of the messages failed" in done.output
    assert "there is no latency to draw" in done.output
    assert json.loads(out.read_text())["knee"] is None


def test_an_interrupted_sweep_says_so_by_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = iter([1000.0])

    def run(load: str, arguments: list[str], quiet: bool = False) -> Result:
        if next(rates, None) is None:
            raise KeyboardInterrupt
        return result(1000, asked=1000)

    monkeypatch.setattr(pyrmq.bench.child, "run", run)
    done = invoke("sweep", "send")
    assert done.exit_code == 130
    assert "The search was interrupted" in done.output


def test_messages_that_were_lost_are_noted() -> None:
    counts = Verify(10, 10, 0, 0, 8, 1, 2, 0, 0, 0, 0, True)
    found = compare([replace(result(), verify=counts)], [result()], NAMES)
    assert "a.json: a run has 2 messages lost, 1 twice, 0 refused and yet stored" in found.notes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["send", "--rate", "5"], "--rate cannot be given to the load"),
        (["send", "--rate=5"], "--rate cannot be given to the load"),
        (["send", "-r", "5"], "-r cannot be given to the load"),
        (["send", "-r5"], "-r cannot be given to the load"),
        (["send", "--hdr", "x"], "each rate would write it again"),
        (["send", "--help"], "see `pyrmq bench LOAD --help`"),
        (["--p99", "9" * 400 + "s", "send"], "write it as 50ms"),
        (["--rates", "9" * 400, "send"], "write it as 1000,2000"),
        (["oneway"], "oneway measures no latency, so it has no knee"),
        (["send", "--json", "x"], "put it before the load"),
        (["pull"], "pull knows no rate, so it has no knee"),
        (["nonsense"], "no load 'nonsense': one of"),
        (["--size", "5", "send"], "no such option of sweep: --size"),
        (["--from", "10", "--to", "5", "send"], "is below --from"),
        (["--p99", "50", "send"], "write it as 50ms"),
        (["--p99", "0ms", "send"], "write it as 50ms"),
        (["--rates", "1,x", "send"], "write it as 1000,2000"),
        (["--rates", "0", "send"], "write it as 1000,2000"),
        ([], "Missing argument"),
    ],
)
def test_a_command_line_that_cannot_be_is_refused(words: list[str], said: str) -> None:
    done = invoke("sweep", *words)
    assert done.exit_code == 2
    assert said in done.output


def test_a_run_without_a_result_is_an_error_with_what_it_said() -> None:
    with pytest.raises(BenchError, match=r"gave no result: .*[Nn]o such"):
        pyrmq.bench.child.run("nonsense", [], quiet=True)
