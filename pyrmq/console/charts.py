"""Line charts of the last hour: SVG that the server draws, with labels in HTML.

The drawing stretches with the page (`preserveAspectRatio="none"`); the labels stand beside it and
keep their size. No script and no inline style: `static/charts.css` has the classes. A screen reader
gets a sentence and a table with six rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pyrmq.console.rendering import BLANK, human_bytes, number
from pyrmq.console.samples import STEP_MS, Hour

WIDTH, HEIGHT = 360, 100
"""Of the drawing, in its own units."""
SPANS_MS = (600_000, 1_800_000, 3_600_000)
"""A chart is as long as the shortest of them that holds all points: of a young cluster one does not
see an empty hour."""
GAP_MS = 4 * STEP_MS
"""Points that are farther apart are not joined."""
MOST_LINES = 6
"""Lines of one chart; there are so many colours."""
COLUMNS = 60
"""Places that show their numbers under the pointer: one a minute, in an hour."""
TABLE_ROWS = 6
Point = tuple[int, float]
Span = tuple[int, int]
"""Begin and end of a chart, ms."""


def _rate(value: float) -> str:
    return f"{_short(value)}/s"


def _bytes_rate(value: float) -> str:
    return f"{human_bytes(value)}/s"


def _percent(value: float) -> str:
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"


def _ms(value: float) -> str:
    return f"{value:.0f} ms" if value < 1000 else f"{value / 1000:.1f} s"


def _short(value: float) -> str:
    """A number of at most four digits: `12.4 k`."""
    if value < 100:
        return f"{value:.1f}".removesuffix(".0")
    if value < 10_000:
        return number(round(value))
    units = iter("kMGTPE")
    unit = ""
    while value >= 1000 and (more := next(units, "")):
        value, unit = value / 1000, more
    return f"{value:.3g} {unit}"


UNITS: dict[str, Callable[[float], str]] = {
    "rate": _rate,
    "bytes": human_bytes,
    "bytes_rate": _bytes_rate,
    "count": _short,
    "percent": _percent,
    "ms": _ms,
}


@dataclass(frozen=True, slots=True)
class Line:
    """points: times (ms since 1970) and numbers, oldest first; NaN leaves a gap."""

    name: str
    points: Sequence[Point]

    @classmethod
    def of(cls, name: str, hour: Hour, figure: str) -> Line:
        """A figure of an hour."""
        return cls(name, hour.series(figure))


def chart(
    title: str,
    lines: Iterable[Line],
    *,
    unit: str,
    now: int,
    limit: float | None = None,
    most: float | None = None,
) -> Markup:
    """A chart of the time before `now` (ms), an hour at most. unit: of UNITS. limit: a value to
    mark. most: the end of the scale; by default the next round number above all points."""
    text = UNITS[unit]
    drawn = [_within(line, now - SPANS_MS[-1], now) for line in lines][:MOST_LINES]
    drawn = [line for line in drawn if line.points] or drawn
    first = min((line.points[0][0] for line in drawn if line.points), default=now)
    span = next(s for s in SPANS_MS if now - first <= s)
    begin = now - span
    values = [value for line in drawn for _, value in line.points if not math.isnan(value)]
    top = (
        most if most is not None else round_up(max([*values, limit or 0.0]), binary="bytes" in unit)
    )
    legend = Markup("").join(
        _legend(i, line, text, len(drawn), now) for i, line in enumerate(drawn, 1)
    )
    head = Markup(
        '<figure class="chart"><figcaption><span class="chart-title">{}</span>'
        '<span class="chart-legend">{}</span></figcaption>'
    ).format(title, legend)
    if not values:
        return head + Markup('<p class="chart-empty">no samples yet</p></figure>')
    scale = Markup(
        '<div class="chart-scale" aria-hidden="true"><span>{}</span><span>{}</span><span>{}</span>'
        "</div>"
    ).format(*(text(top), text(top / 2), text(0)) if any(values) else ("", "", text(0)))
    times = Markup(
        '<div class="chart-times" aria-hidden="true"><span>{}</span><span>{}</span><span>{}</span>'
        "</div>"
    ).format(*(_clock(at) for at in (begin, begin + span // 2, now)))
    drawing = _drawing(title, drawn, text, (begin, now), top, limit)
    body = Markup('<div class="chart-body">{}{}</div>{}').format(scale, drawing, times)
    return head + body + _table(title, drawn, text, (begin, now)) + Markup("</figure>")


def round_up(value: float, *, binary: bool = False) -> float:
    """The next 1, 2 or 5 with zeros; of bytes with a unit of 1024."""
    if not 0 < value < math.inf:
        return 1.0
    unit = 1024.0 ** max(0, math.floor(math.log(value, 1024))) if binary else 1.0
    value /= unit
    power = 10.0 ** math.floor(math.log10(value))
    step = next((s for s in (1, 2, 5) if value <= s * power * (1 + 1e-9)), 10)
    return step * power * unit


def _within(line: Line, begin: int, end: int) -> Line:
    return Line(line.name, [p for p in line.points if begin <= p[0] <= end])


def _legend(i: int, line: Line, text: Callable[[float], str], lines: int, now: int) -> Markup:
    last = _last(line, now)
    shown = BLANK if math.isnan(last) else text(last)
    if lines == 1 and not line.name:
        return Markup('<span class="chart-now">{}</span>').format(shown)
    key = Markup('<span class="chart-key line-{}" aria-hidden="true"></span>').format(i)
    return Markup('<span class="chart-item">{}{} <b>{}</b></span>').format(key, line.name, shown)


def _last(line: Line, now: int) -> float:
    """The number now; NaN if the newest point says nothing of now."""
    if not line.points or now - line.points[-1][0] > GAP_MS:
        return math.nan
    return line.points[-1][1]


def _drawing(
    title: str,
    lines: Sequence[Line],
    text: Callable[[float], str],
    span: Span,
    top: float,
    limit: float | None,
) -> Markup:
    parts = [
        Markup('<svg viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">')
        .format(WIDTH, HEIGHT, f"{title}: {_sentence(lines, text, span[1])}"),
        Markup("<title>{}</title><desc>{}</desc>").format(title, _sentence(lines, text, span[1])),
        Markup('<path class="chart-grid" d="M0 0.5H{0}M0 50H{0}M0 99.5H{0}"/>').format(WIDTH),
    ]  # fmt: skip
    if limit is not None and limit <= top:
        y = _y(limit, top)
        parts.append(Markup('<path class="chart-limit" d="M0 {}H{}"/>').format(y, WIDTH))
    if len(lines) == 1:
        parts.append(
            Markup('<path class="chart-area line-1" d="{}"/>').format(_area(lines[0], span, top))
        )
    for i, line in enumerate(lines, 1):
        parts.append(
            Markup('<path class="chart-line line-{}" d="{}"/>').format(i, _path(line, span, top))
        )
    parts.append(_under_pointer(lines, text, span))
    return Markup("").join([*parts, Markup("</svg>")])


def _x(at: int, span: Span) -> str:
    begin, end = span
    return f"{(at - begin) * WIDTH / (end - begin):.1f}".removesuffix(".0")


def _y(value: float, top: float) -> str:
    y = HEIGHT - max(0.0, min(value / top, 1.0)) * HEIGHT
    return f"{y:.1f}".removesuffix(".0")


def _runs(line: Line) -> list[list[Point]]:
    """The points that are joined."""
    runs: list[list[Point]] = []
    before = None
    for at, value in line.points:
        if math.isnan(value):
            before = None
            continue
        if before is None or at - before > GAP_MS:
            runs.append([])
        runs[-1].append((at, value))
        before = at
    return runs


def _path(line: Line, span: Span, top: float) -> str:
    parts = []
    for run in _runs(line):
        places = [f"{_x(at, span)} {_y(value, top)}" for at, value in run]
        # One point alone is a line of no length, which round ends make a dot.
        parts.append("M" + "L".join(places if len(places) > 1 else places * 2))
    return "".join(parts)


def _area(line: Line, span: Span, top: float) -> str:
    parts = []
    for run in _runs(line):
        places = "L".join(f"{_x(at, span)} {_y(value, top)}" for at, value in run)
        first, last = _x(run[0][0], span), _x(run[-1][0], span)
        parts.append(f"M{first} {HEIGHT}L{places}L{last} {HEIGHT}Z")
    return "".join(parts)


def _newest(line: Line, begin: int, end: int) -> float | None:
    """The newest number of a span."""
    for at, value in reversed(line.points):
        if at <= begin:
            return None
        if at <= end and not math.isnan(value):
            return value
    return None


def _under_pointer(lines: Sequence[Line], text: Callable[[float], str], span: Span) -> Markup:
    """Invisible columns whose titles browsers show under the pointer."""
    begin, end = span
    step = (end - begin) // COLUMNS
    parts = []
    for n in range(COLUMNS):
        found = [(line.name, _newest(line, begin + n * step, begin + (n + 1) * step))
                 for line in lines]  # fmt: skip
        shown = [f"{name} {text(value)}".strip() for name, value in found if value is not None]
        if shown:
            label = f"{_clock(begin + (n + 1) * step)}  {', '.join(shown)}"
            parts.append(
                Markup('<rect x="{}" width="{}" height="{}"><title>{}</title></rect>').format(
                    n * WIDTH // COLUMNS, WIDTH // COLUMNS, HEIGHT, label
                )
            )
    return Markup('<g class="chart-hits">{}</g>').format(Markup("").join(parts))


def _sentence(lines: Sequence[Line], text: Callable[[float], str], now: int) -> str:
    found = []
    for line in lines:
        values = [value for _, value in line.points if not math.isnan(value)]
        if values:
            name = f"{line.name} " if line.name else ""
            last = _last(line, now)
            shown = "unknown" if math.isnan(last) else text(last)
            found.append(f"{name}now {shown}, at most {text(max(values))}")
    return "; ".join(found)


def _table(title: str, lines: Sequence[Line], text: Callable[[float], str], span: Span) -> Markup:
    """For screen readers: the newest number of each sixth of the time."""
    begin, now = span
    step = (now - begin) // TABLE_ROWS
    heads = Markup("").join(
        Markup('<th scope="col">{}</th>').format(line.name or title) for line in lines
    )
    rows = []
    for n in range(TABLE_ROWS):
        end = begin + (n + 1) * step
        values = [_newest(line, end - step, end) for line in lines]
        cells = Markup("").join(
            Markup("<td>{}</td>").format(BLANK if value is None else text(value))
            for value in values
        )
        rows.append(Markup('<tr><th scope="row">{}</th>{}</tr>').format(_clock(end), cells))
    return Markup(
        '<table class="chart-table"><caption>{}</caption><thead><tr><th scope="col">until</th>{}'
        "</tr></thead><tbody>{}</tbody></table>"
    ).format(title, heads, Markup("").join(rows))


def _clock(at: int) -> str:
    return time.strftime("%H:%M", time.localtime(at / 1000))
