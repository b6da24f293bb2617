"""Plots of the jobs, as files; no display is needed.

A colour means one thing in all plots (COLOURS); what has no meaning of its own takes the colours of
PALETTE in turn. Legends stand outside, counts have no ticks between whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrmq.escape import escape
from spark_ext.jobs import report
from spark_ext.jobs.errors import JobError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LABEL = 40
MAX_BARS = 40
MAX_LINES = 12
WIDTH = 9.0
LETTER = 0.016
"""Width of a letter behind a bar, as a part of the longest bar's."""
GREEN, RED, AMBER, GREY, BLUE = "#3a9e5c", "#d1495b", "#edae49", "#8d99ae", "#30638e"
COLOURS = {
    "committed": GREEN,
    "rolledBack": RED,
    "pending": AMBER,
    "discarded": GREY,
    "others": GREY,
    "bodies": BLUE,
    "headers and properties": "#a9c4d9",
    "p50": BLUE,
    "up to p95": "#a9c4d9",
    "backlog": AMBER,
    "deleted unread": RED,
    "failed": RED,
    "wait p50": AMBER,
    "wait up to p95": "#f4d58d",
    "retries exhausted": RED,
    "refused": AMBER,
    "refused or own limit": "#f4d58d",
    "given up in order": "#7b5ea7",
    "forwarded by a proxy": GREY,
}
"""Green went well, red failed, amber waits, grey is over or the rest."""
NAMES = {"rolledBack": "rolled back"}
"""Words for people where a series has the name of a state."""
PALETTE = (
    BLUE, "#e07a5f", "#3a9e5c", "#7b5ea7", "#edae49", "#2a9d8f", "#d1495b", "#6c757d", "#a26769",
    "#00798c", "#bc5090", "#5f7d3a",
)  # fmt: skip
INK, LINES, NOTE_INK = "#333333", "#e3e3e3", "#6c757d"
NOTE_LINE = 12.5
"""Points that a line of the note below the title takes."""


def _figure(title: str, height: float, note: str) -> tuple[Figure, Axes]:
    try:
        from matplotlib.figure import Figure
    except ImportError as e:
        raise JobError(f"plots need matplotlib ({e}): pip install 'pyrmq-broker[plot]'") from None
    figure = Figure(figsize=(WIDTH, height), layout="constrained", facecolor="white")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.12, h_pad=0.12)
    axes = figure.subplots()
    lines = note.count("\n") + 1 if note else 0
    axes.set_title(
        title, loc="left", fontsize=13, fontweight="bold", color=INK, pad=12 + NOTE_LINE * lines
    )
    if note:
        axes.annotate(
            note.replace("$", r"\$"), (0, 1), (0, 6), xycoords="axes fraction",
            textcoords="offset points", va="bottom", fontsize=8.5, color=NOTE_INK, linespacing=1.3,
        )  # fmt: skip
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(LINES)
    axes.tick_params(colors=INK, length=0)
    axes.set_axisbelow(True)
    return figure, axes


def _save(figure: Figure, path: str) -> None:
    """The file's ending says its kind. A figure without a window is drawn by Agg."""
    kinds = figure.canvas.get_supported_filetypes()
    kind = Path(path).suffix.lstrip(".").lower()
    if kind not in kinds:
        raise JobError(f"{path}: a plot's name ends in one of {', '.join(sorted(kinds))}")
    # Without a date in it, the same numbers are the same file.
    more: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {}
    figure.savefig(path, format=kind, dpi=110, **more)


def label(text: Any, longest: int = MAX_LABEL) -> str:
    """A text that others wrote as a label: `$` would begin a formula. The middle of a long one is
    left out, as long names often begin alike."""
    short = escape(text)
    if len(short) > longest:
        half = (longest - 2) // 2
        short = f"{short[:half]}..{short[-half:]}"
    return short.replace("$", r"\$")


def _colour(name: str, place: int) -> str:
    return COLOURS.get(name) or PALETTE[place % len(PALETTE)]


def _number(value: float, unit: str) -> str:
    if unit == "bytes":
        return report.size(value)
    if unit == "ms":
        return report.duration(value)
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _scale(axis: Any, unit: str, most: float) -> None:
    """Ticks at whole numbers of a unit that people read."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if unit == "bytes":
        step = next((size for size in (1 << 30, 1 << 20, 1 << 10) if most >= 2 * size), 1)
        word = {1 << 30: "GiB", 1 << 20: "MiB", 1 << 10: "KiB"}.get(step, "bytes")
        axis.set_major_locator(_Stepped(step))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / step:,.0f}"))
        unit = word
    else:
        axis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.set_label_text(unit, color=INK)


def _Stepped(step: int) -> Any:
    from matplotlib.ticker import MaxNLocator

    class Locator(MaxNLocator):
        """Whole numbers of `step`."""

        def tick_values(self, vmin: float, vmax: float) -> Any:
            ticks: Any = super().tick_values(vmin / step, vmax / step)
            return ticks * step

    return Locator(nbins=6, integer=True, min_n_ticks=1)


def _legend(figure: Figure, axes: Axes, many: bool) -> None:
    """Outside, below the title if it is one line, else at the right."""
    handles, labels = axes.get_legend_handles_labels()
    if many:
        figure.legend(handles, labels, loc="outside right upper", frameon=False, labelcolor=INK)
    else:
        figure.legend(
            handles, labels, loc="outside lower center", ncols=len(labels), frameon=False,
            labelcolor=INK,
        )  # fmt: skip


def _nothing(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(
        0.5, 0.5, "nothing to show", transform=axes.transAxes, ha="center", va="center", color=GREY
    )


def _shown(series: Mapping[str, Sequence[float]], count: int) -> dict[str, list[float]]:
    """Series that have something, cut to `count` names."""
    cut = {name: [float(v or 0) for v in values[:count]] for name, values in series.items()}
    return {name: values for name, values in cut.items() if any(values)} or cut


def bars(
    path: str,
    title: str,
    names: Sequence[str],
    series: Mapping[str, Sequence[float]],
    unit: str,
    *,
    note: str = "",
    said: Sequence[str] = (),
) -> None:
    """Lying bars, one row per name and one colour per series, stacked, with the sum at the end; the
    first name on top. Of more than 40 names the first 40 are drawn. `unit`: bytes and ms are
    scaled, all others are counts. `note`: stands below the title; `said`: what stands behind the
    sum of each row."""
    more = len(names) - MAX_BARS
    names = names[:MAX_BARS]
    figure, axes = _figure(title, 1.6 + 0.34 * max(len(names), 2), note)
    if names:
        _lying(axes, names, _shown(series, len(names)), unit, said)
        if len(series) > 1:
            _legend(figure, axes, many=False)
    else:
        _nothing(axes)
    if more > 0:
        axes.set_xlabel(f"{axes.get_xlabel()} ({more} more are not drawn)", color=INK)
    _save(figure, path)


def _stacked(
    draw: Callable[..., object], base: str, count: int, series: Mapping[str, list[float]]
) -> list[float]:
    """Draws bars on one another; where each stack ends. `base`: what `draw` calls their start."""
    ends = [0.0] * count
    for place, (name, values) in enumerate(series.items()):
        draw(
            range(count), values, 0.66, color=_colour(name, place),
            label=NAMES.get(name, label(name)), **{base: ends},
        )  # fmt: skip
        ends = [a + b for a, b in zip(ends, values, strict=True)]
    return ends


def _lying(
    axes: Axes,
    names: Sequence[str],
    series: Mapping[str, list[float]],
    unit: str,
    said: Sequence[str],
) -> None:
    ends = _stacked(axes.barh, "left", len(names), series)
    most = max(ends) or 1
    longest = 0
    for row, end in enumerate(ends):
        behind = said[row] if row < len(said) else ""
        text = ", ".join(part for part in (_number(end, unit), behind) if part)
        longest = max(longest, len(text) * (end > most / 2))
        axes.text(end + most * 0.01, row, text, va="center", color=INK, fontsize=9)
    axes.set_yticks(range(len(names)), [label(name) for name in names])
    # One row is as thick as one of many; the last label needs its place.
    axes.set_ylim(max(len(names), 2) - 0.5, -0.5 if len(names) > 1 else -0.9)
    axes.set_xlim(0, most * max(1.12, 1 + longest * LETTER))
    axes.grid(axis="x", color=LINES)
    axes.spines["bottom"].set_visible(False)
    _scale(axes.xaxis, unit, most)


def columns(
    path: str,
    title: str,
    names: Sequence[str],
    series: Mapping[str, Sequence[float]],
    unit: str,
    *,
    note: str = "",
) -> None:
    """Upright bars over time, one per name (a day), one colour per series, stacked, with the sum on
    top. `note`: stands below the title."""
    figure, axes = _figure(title, 4.5, note)
    if names:
        shown = _shown(series, len(names))
        ends = _stacked(axes.bar, "bottom", len(names), shown)
        most = max(ends) or 1
        if len(names) <= 12:
            for at, end in enumerate(ends):
                text = _number(end, unit)
                axes.text(at, end + most * 0.01, text, ha="center", va="bottom", color=INK)
        step = -(-len(names) // 14)
        axes.set_xticks(range(0, len(names), step), [label(n) for n in names[::step]])
        if len(names) > 7:
            axes.tick_params(axis="x", rotation=45)
        # Few bars are no walls.
        axes.set_xlim(min(-0.5, len(names) / 2 - 3.5), max(len(names) - 0.5, len(names) / 2 + 2.5))
        axes.set_ylim(0, most * 1.1)
        axes.grid(axis="y", color=LINES)
        axes.spines["left"].set_visible(False)
        _scale(axes.yaxis, unit, most)
        _legend(figure, axes, many=len(shown) > 3)
    else:
        _nothing(axes)
    _save(figure, path)


def curves(
    path: str,
    title: str,
    series: Mapping[str, tuple[Sequence[Any], Sequence[float]]],
    unit: str,
    *,
    note: str = "",
    said: Mapping[str, str] | None = None,
) -> None:
    """Values over time (UTC), one line per name with its last value; of more than 12 the first 12
    are drawn. `note`: stands below the title; `said`: what stands behind a name's last value."""
    from matplotlib import dates

    figure, axes = _figure(title, 4.5, note)
    most = 1.0
    for place, (name, (times, values)) in enumerate(list(series.items())[:MAX_LINES]):
        colour = PALETTE[place % len(PALETTE)]
        utc = [time.astimezone(UTC) for time in times]
        last = f"{label(name)}: {_number(values[-1], unit)}"
        if said and said.get(name):
            last += f", {said[name]}"
        axes.plot(utc, values, marker="o", markersize=4, linewidth=2, color=colour, label=last)
        most = max(most, *values)
    if series:
        every = [time.astimezone(UTC) for times, _ in series.values() for time in times]
        first, last = min(every), max(every)
        margin = max((last - first) / 30, timedelta(seconds=5))
        axes.set_xlim(first - margin, last + margin)
        untyped: Any = dates
        locator = untyped.AutoDateLocator(maxticks=8)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(untyped.ConciseDateFormatter(locator, tz=UTC))
        axes.set_ylim(0, most * 1.08)
        axes.grid(axis="y", color=LINES)
        axes.spines["left"].set_visible(False)
        _scale(axes.yaxis, unit, most)
        axes.set_xlabel("UTC", color=INK)
        _legend(figure, axes, many=True)
    else:
        _nothing(axes)
    _save(figure, path)
