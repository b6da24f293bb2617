"""Charts: what they draw of which points, and that texts of others stay texts."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from pyrmq.console.charts import COLUMNS, HEIGHT, WIDTH, Line, chart, round_up
from pyrmq.console.samples import STEP_MS

NOW = 1_700_000_000_000
HOUR = 3_600_000
SCRIPT = '"><script>alert(1)</script>'


def points(*values: float, end: int = NOW) -> list[tuple[int, float]]:
    """One each ten seconds, the last one at `end`."""
    first = end - STEP_MS * (len(values) - 1)
    return [(first + STEP_MS * i, value) for i, value in enumerate(values)]


def path_of(markup: str, kind: str = "chart-line line-1") -> str:
    found = re.search(rf'class="{kind}" d="([^"]*)"', markup)
    assert found is not None, markup
    return found[1]


def test_points_are_where_their_time_and_number_say() -> None:
    line = Line("in", [(NOW - HOUR, 0.0), (NOW - HOUR // 2, 50.0), (NOW, 100.0)])
    made = chart("Messages", [line], unit="rate", now=NOW, most=100.0)
    # They are farther apart than samples are, so that none is joined with another.
    assert path_of(made) == (
        f"M0 {HEIGHT}L0 {HEIGHT}"
        f"M{WIDTH // 2} {HEIGHT // 2}L{WIDTH // 2} {HEIGHT // 2}"
        f"M{WIDTH} 0L{WIDTH} 0"
    )


def test_a_gap_ends_a_line_and_another_begins() -> None:
    one = points(1, 2, math.nan, 3, 4)
    assert path_of(chart("x", [Line("", one)], unit="count", now=NOW)).count("M") == 2
    long_ago = [*points(1, 2, end=NOW - 300_000), *points(3, 4)]
    assert path_of(chart("x", [Line("", long_ago)], unit="count", now=NOW)).count("M") == 2
    whole = points(1, 2, 3, 4)
    assert path_of(chart("x", [Line("", whole)], unit="count", now=NOW)).count("M") == 1


def test_a_young_cluster_fills_its_chart() -> None:
    young = chart("x", [Line("", points(*[1.0] * 30))], unit="count", now=NOW)
    first = path_of(young).removeprefix("M").split()[0]
    assert float(first) == pytest.approx(WIDTH * (600 - 290) / 600)
    old = chart("x", [Line("", [(NOW - HOUR, 1.0), *points(1, 1)])], unit="count", now=NOW)
    assert path_of(old).startswith("M0 ")


def test_points_that_are_older_than_an_hour_are_left_out() -> None:
    line = Line("", [(NOW - HOUR - 1, 1e9), *points(1, 2)])
    made = chart("x", [line], unit="count", now=NOW)
    assert "1e+09" not in made
    assert path_of(made).count("M") == 1
    assert "no samples yet" in chart("x", [Line("", line.points[:1])], unit="count", now=NOW)


def test_without_a_known_number_it_says_so() -> None:
    for line in (Line("", []), Line("", points(math.nan, math.nan))):
        made = chart("Disk", [line], unit="percent", now=NOW)
        assert "no samples yet" in made
        assert "<svg" not in made


def test_names_of_others_stay_texts() -> None:
    made = chart(
        SCRIPT, [Line(SCRIPT, points(1, 2)), Line("b", points(1, 1))], unit="rate", now=NOW
    )
    assert "<script" not in made
    assert made.count("&lt;script&gt;") >= 4  # caption, label, legend, table
    ElementTree.fromstring(made)  # it is well-formed


def test_no_style_and_no_script_for_the_policy() -> None:
    made = chart("x", [Line("", points(1, 2))], unit="rate", now=NOW, limit=1.5)
    assert "style=" not in made
    assert "<script" not in made
    assert not re.search(r"\son\w+=", made)
    assert 'class="chart-limit"' in made


def test_a_screen_reader_gets_a_sentence_and_a_table() -> None:
    values = [float(n) for n in range(360)]
    made = chart("Messages", [Line("in", points(*values))], unit="rate", now=NOW)
    assert 'aria-label="Messages: in now 359/s, at most 359/s"' in made
    rows = re.findall(r'<tr><th scope="row">[^<]*</th><td>([^<]*)</td></tr>', made)
    assert rows == [f"{n}/s" for n in (59, 119, 179, 239, 299, 359)]


def test_the_pointer_finds_the_newest_number_of_each_place() -> None:
    values = [float(n) for n in range(360)]
    made = chart("x", [Line("in", points(*values))], unit="count", now=NOW)
    titles = re.findall(r"<rect [^>]*><title>[^<]*  ([^<]*)</title></rect>", made)
    assert len(titles) == COLUMNS
    assert titles[-1] == "in 359"
    assert titles[0] == "in 5"


def test_the_scale_ends_at_a_round_number() -> None:
    assert [round_up(v) for v in (0, 0.3, 1, 1.1, 4, 7, 11, 49, 51)] == [
        1, 0.5, 1, 2, 5, 10, 20, 50, 100,
    ]  # fmt: skip
    assert round_up(1500, binary=True) == 2048
    assert round_up(math.inf) == 1.0
    assert round_up(math.nan) == 1.0
    made = chart("x", [Line("", points(7, 3))], unit="count", now=NOW)
    assert "<span>10</span><span>5</span><span>0</span>" in made


@pytest.mark.parametrize("value", [1e18, 1e-9, 12_345_678.0])
def test_any_number_is_drawn(value: float) -> None:
    for unit in ("rate", "bytes", "bytes_rate", "count", "percent", "ms"):
        made = chart("x", [Line("", points(value, value))], unit=unit, now=NOW)
        numbers = [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", path_of(made))]
        assert all(0 <= n <= WIDTH for n in numbers), made


def test_a_line_that_ended_says_nothing_of_now() -> None:
    made = chart("Disk", [Line("", points(1, 2, end=NOW - 60_000))], unit="percent", now=NOW)
    assert 'aria-label="Disk: now unknown, at most 2.0 %"' in made
    assert '<span class="chart-now">–</span>' in made


def test_a_line_without_any_point_is_left_out() -> None:
    lines = [Line("in", points(1, 2)), Line("out", [])]
    made = chart("Bytes", lines, unit="bytes_rate", now=NOW)
    assert "out" not in made
    assert "in" in made
