"""Plots of the jobs, as files; no display is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrmq.escape import escape
from spark_ext.jobs.errors import JobError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LABEL = 40
MAX_BARS = 40
MAX_LINES = 12


def _figure(title: str, height: float) -> tuple[Figure, Axes]:
    try:
        from matplotlib.figure import Figure
    except ImportError as e:
        raise JobError(f"plots need matplotlib ({e}): pip install 'pyrmq-broker[plot]'") from None
    figure = Figure(figsize=(9, height), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title)
    return figure, axes


def _save(figure: Figure, path: str) -> None:
    """The file's ending says its kind. A figure without a window is drawn by Agg."""
    kinds = figure.canvas.get_supported_filetypes()
    kind = Path(path).suffix.lstrip(".").lower()
    if kind not in kinds:
        raise JobError(f"{path}: a plot's name ends in one of {', '.join(sorted(kinds))}")
    figure.savefig(path, format=kind, dpi=110)


def label(text: Any) -> str:
    """A text that others wrote as an axis label: `$` would begin a formula."""
    short = escape(text).replace("$", r"\$")
    return short if len(short) <= MAX_LABEL else f"{short[: MAX_LABEL - 2]}.."


def bars(
    path: str,
    title: str,
    names: Sequence[str],
    series: Mapping[str, Sequence[float]],
    unit: str,
) -> None:
    """Lying bars, one row per name and one colour per series, stacked; the first name on top. Of
    more than 40 names the first 40 are drawn."""
    names = names[:MAX_BARS]
    figure, axes = _figure(title, max(2.5, 1.2 + 0.28 * len(names)))
    left = [0.0] * len(names)
    places = range(len(names))
    for name, values in series.items():
        shown = [float(value or 0) for value in values[: len(names)]]
        axes.barh(places, shown, left=left, label=name)
        left = [a + b for a, b in zip(left, shown, strict=True)]
    axes.set_yticks(list(places), [label(name) for name in names])
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    if len(series) > 1:
        axes.legend()
    _save(figure, path)


def curves(
    path: str, title: str, series: Mapping[str, tuple[Sequence[Any], Sequence[float]]], unit: str
) -> None:
    """Values over time, one line per name; of more than 12 the first 12 are drawn."""
    figure, axes = _figure(title, 4.5)
    for name, (times, values) in list(series.items())[:MAX_LINES]:
        axes.plot(times, values, marker="o", markersize=3, label=label(name))
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    if series:
        axes.legend(fontsize="small")
    figure.autofmt_xdate()
    _save(figure, path)
