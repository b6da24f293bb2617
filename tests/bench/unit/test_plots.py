"""Plots as SVG."""

from __future__ import annotations

import math

import pytest

from pyrmq.bench.knee import Limits
from pyrmq.bench.svg import Bar, Mark, Series, bars, lines
from pyrmq.bench.sweep import plot, sweep
from tests.bench.unit.canned import latency, parsed, result, texts


def test_a_plot_is_well_formed_whatever_its_texts_are() -> None:
    svg = lines("<a> & b", "x", "y", [Series('"s"', [(1, 2), (10, 20)])], [Mark("<m>", y=5)])
    shown = texts(parsed(svg))
    assert {"<a> & b", '"s"', "<m>"} <= set(shown)


def test_points_that_no_axis_shows_are_left_out() -> None:
    odd = [(0.0, 1.0), (1.0, math.nan), (1.0, math.inf), (2.0, 3.0)]
    root = parsed(lines("t", "x", "y", [Series("s", odd)], log_x=True, log_y=True))
    assert sum("at 2" in text for text in texts(root)) == 1
    with pytest.raises(ValueError, match="no point"):
        lines("t", "x", "y", [Series("s", odd[:3])], log_x=True)
    with pytest.raises(ValueError, match="no bar"):
        bars("t", "us", [("group", [])])


@pytest.mark.parametrize("value", [0.0, 1e-9, 1.0, 1e12])
def test_bars_of_any_size_fit(value: float) -> None:
    for log in (False, True):
        one = Bar("one", value, value / 2, value * 2)
        root = parsed(bars("t", "us", [("g", [one])], log=log))
        width = float(root.attrib["width"])
        for rect in root.iter("{http://www.w3.org/2000/svg}rect"):
            assert float(rect.attrib["x"]) + float(rect.attrib["width"]) <= width


def test_a_sweep_of_one_rate_can_be_drawn() -> None:
    found = sweep("send", [], lambda rate: result(rate, asked=rate), Limits(), rates=[1000])
    parsed(plot(found))
    assert latency(500).p99 == 500
