"""Plots as matplotlib has them in memory: ticks, colours, labels and legends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_ext.jobs import lag, local, plot, trace
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.source import Source

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
Drawn = list[Any]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """Figures instead of files, laid out as they would be saved."""
    figures: Drawn = []

    def keep(figure: Any, path: str) -> None:
        figure.draw_without_rendering()
        figures.append(figure)

    monkeypatch.setattr(plot, "_save", keep)
    return figures


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def legend(figure: Any) -> list[str]:
    (found,) = figure.legends
    box, axes = found.get_window_extent(), figure.axes[0].get_window_extent()
    assert not box.overlaps(axes), "a legend stands outside"
    return [text.get_text() for text in found.get_texts()]


def test_states_have_their_colours(drawn: Drawn) -> None:
    series = {"committed": [5, 1], "rolledBack": [2, 0], "discarded": [0, 0], "pending": [0, 3]}
    plot.bars("x.png", "Transactions", ["A", "B"], series, "transactions")
    (figure,) = drawn
    assert legend(figure) == ["committed", "rolled back", "pending"], "what is nowhere is left out"
    colours = [bars[0].get_facecolor() for bars in figure.axes[0].containers]
    red, green, blue, _ = zip(*colours, strict=True)
    assert green[0] > max(red[0], blue[0]), "committed is green"
    assert red[1] > max(green[1], blue[1]), "rolled back is red"
    assert texts(figure) == ["7", "4"]


@pytest.mark.parametrize("most", [1, 2, 3, 7, 100_000])
def test_counts_have_no_half_ticks(drawn: Drawn, most: int) -> None:
    plot.bars("x.png", "One", ["A"], {"backlog": [most]}, "messages")
    plot.columns("x.png", "One", ["2026-01-31"], {"A": [most]}, "messages")
    plot.curves("x.png", "One", {"A": ([NOON], [most])}, "messages")
    lying, upright, curve = (figure.axes[0] for figure in drawn)
    for axis in (lying.xaxis, upright.yaxis, curve.yaxis):
        low, high = axis.get_view_interval()
        ticks = [tick for tick in axis.get_majorticklocs() if low <= tick <= high]
        assert len(ticks) >= 2
        assert all(tick == int(tick) for tick in ticks)
    (bar,) = lying.containers[0]
    assert bar.get_height() < (abs(lying.get_ylim()[0] - lying.get_ylim()[1])) / 2
    assert texts(drawn[0]) == [f"{most:,}"]


def test_long_names_and_many(drawn: Drawn) -> None:
    names = [f"a-topic-{n}-" + "of-a-team-that-likes-long-names" * 3 for n in range(50)]
    plot.bars("x.png", "Many", names, {"bodies": [2 << 30] * 50, "p50": [1] * 50}, "bytes")
    (figure,) = drawn
    axes = figure.axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert len(labels) == plot.MAX_BARS
    assert max(map(len, labels)) <= plot.MAX_LABEL
    assert axes.get_xlabel() == "GiB (10 more are not drawn)"
    box = axes.get_window_extent()
    assert box.width > figure.bbox.width / 3, "names leave room for bars"


def test_days_stand_upright(drawn: Drawn) -> None:
    days = [f"2026-01-{n + 1:02d}" for n in range(31)]
    series = {f"topic-{n}": [n + 1] * 31 for n in range(8)}
    plot.columns("x.png", "Days", days, series, "messages")
    assert legend(drawn[0]) == list(series)
    assert len(drawn[0].axes[0].get_xticks()) <= 14


def test_curves_end_with_their_values(drawn: Drawn) -> None:
    times = [NOON + timedelta(minutes=n) for n in range(3)]
    plot.curves("x.png", "Lag", {"g": (times, [5, 4, 1200]), "$h": (times, [0, 0, 0])}, "messages")
    assert legend(drawn[0]) == ["g: 1,200", r"\$h: 0"]


def test_nothing_to_show(drawn: Drawn) -> None:
    plot.bars("x.png", "None", [], {"backlog": []}, "messages")
    plot.columns("x.png", "None", [], {}, "messages")
    plot.curves("x.png", "None", {}, "messages")
    assert [texts(figure) for figure in drawn] == [["nothing to show"]] * 3


def test_files(tmp_path: Path) -> None:
    for name, start in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")):
        plot.bars(str(tmp_path / name), "One", ["A"], {"backlog": [1]}, "messages")
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(JobError, match="ends in one of"):
        plot.bars(str(tmp_path / "a.docx"), "One", ["A"], {"backlog": [1]}, "messages")


def test_the_note_stands_between_title_and_plot(drawn: Drawn) -> None:
    note = "/data/$store: all times\nmeasured 2026-01-31 12:00:00Z"
    plot.bars("x.png", "One", ["A"], {"backlog": [1]}, "messages", note=note)
    plot.columns("x.png", "One", ["2026-01-31"], {"A": [1]}, "messages", note=note)
    plot.curves("x.png", "One", {"A": ([NOON], [1])}, "messages", note=note)
    for figure in drawn:
        (axes,) = figure.axes
        (found,) = (t for t in axes.texts if "measured" in t.get_text())
        assert found.get_text() == note.replace("$", r"\$")
        box, title = found.get_window_extent(), axes._left_title.get_window_extent()
        assert not box.overlaps(title)
        assert not box.overlaps(axes.get_window_extent())
        assert title.y1 <= figure.bbox.y1


def test_what_is_said_behind_a_bar_is_within_the_picture(drawn: Drawn) -> None:
    said = ["oldest 3.2 h, and 12 of 4,000 failed", ""]
    plot.bars("x.png", "One", ["A", "B"], {"backlog": [9, 1]}, "messages", said=said)
    (figure,) = drawn
    assert texts(figure) == ["9, oldest 3.2 h, and 12 of 4,000 failed", "1"]
    assert all(t.get_window_extent().x1 <= figure.bbox.x1 for t in figure.axes[0].texts)
    plot.curves("x.png", "One", {"A": ([NOON], [1])}, "messages", said={"A": "oldest 3.2 h"})
    assert legend(drawn[1]) == ["A: 1, oldest 3.2 h"]


def test_lag_says_the_age_and_what_is_gone(drawn: Drawn) -> None:
    rows = [(NOON, "g", 30, 10, 90_000), (NOON, "idle", 0, 0, 0)]
    schema = "measuredAt timestamp, group string, backlog bigint, gone bigint, behindMs bigint"
    lag.plot(local.engine().values(rows, schema), "x.png", "note")
    (figure,) = drawn
    assert [t for t in texts(figure) if t != "note"] == ["30, oldest 90.0 s", "0"]
    assert legend(figure) == ["backlog", "deleted unread"]
    later = [*rows, (NOON + timedelta(minutes=1), "g", 20, 0, 30_000)]
    lag.plot(local.engine().values(later, schema), "x.png")
    assert legend(drawn[1]) == ["g: 20, oldest 30.0 s", "idle: 0"]


def test_trace_says_waits_and_failures(drawn: Drawn) -> None:
    names = [f"{n} {trace._TYPES[n]}" for n in trace.RESULT if trace._TYPES[n] != "double"]
    row = dict.fromkeys(trace.RESULT, None) | {
        "kind": "consume", "group": "g", "topic": "T", "count": 40, "failed": 3, "unfinished": 2,
        "p50Ms": 10, "p95Ms": 30, "waitP50Ms": 100, "waitP95Ms": 500,
    }  # fmt: skip
    groups = local.engine().values(
        [tuple(row[n.partition(" ")[0]] for n in names)], ", ".join(names)
    )
    trace.plot(trace.Trace(None, groups), "x.png")
    (figure,) = drawn
    assert texts(figure) == ["30 ms, 3 of 40 failed, 2 unfinished", "500 ms"]
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert rows == ["consume g", "wait g"]
    assert legend(figure) == ["p50", "up to p95", "wait p50", "wait up to p95"]


def test_a_source_says_where_it_reads_and_what() -> None:
    one = Source(paths=("/data/store",), since=1_769_860_800_000)
    assert one.text == "/data/store: from 2026-01-31 12:00:00Z"
    many = Source(paths=("/" + "x" * 200, "/b"), until=1_769_860_800_000)
    assert many.text.endswith(" and 1 more: until 2026-01-31 12:00:00Z")
    assert len(many.text) < 120
    assert Source(name_server="h:9876").text == "brokers of h:9876: all times"
