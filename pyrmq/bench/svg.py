"""Draws plots as SVG: lines over an axis, and bars in groups. No package is needed for it.

Colours follow the reader's light or dark mode. A series also has its own marker or place, so that
a plot can be read without colours. Texts are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape as xml
from xml.sax.saxutils import quoteattr

from pyrmq.escape import escape as printable

# Colours that people with colour blindness can tell apart (Okabe and Ito), for light and dark.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b4589a", "#a87900", "#3d8fc0")
STYLE = (
    "svg.plot{--ink:#1f2328;--grid:#d8dee4;--paper:#ffffff;"
    "font:12px system-ui,'DejaVu Sans',sans-serif;background:var(--paper)}"
    "svg.plot text{fill:var(--ink)}svg.plot .grid{stroke:var(--grid)}"
    "svg.plot .axis{stroke:var(--ink)}svg.plot .mark{stroke:var(--ink);stroke-dasharray:5 4}"
    "@media (prefers-color-scheme:dark){svg.plot{--ink:#e6edf3;--grid:#3d444d;--paper:#0d1117}}"
)
LETTER = 6.8
"""About the width of a letter, in pixels."""


@dataclass(frozen=True)
class Series:
    """A line: points from left to right, in the units of the axes."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Mark:
    """A dashed line through the plot, such as a limit: at `x` or at `y`."""

    text: str
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True)
class Bar:
    """A value with the lowest and the highest of what it is the median of."""

    name: str
    value: float
    low: float
    high: float
    text: str = ""
    """What stands beside it; default: the value."""
    colour: int | None = None
    """Which of COLOURS; default: by the order of names in the plot."""


def number(value: float) -> str:
    """A value for people: 12,345; 12.3; 0.123."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


class Scale:
    """Values to pixels, linear or logarithmic. All values are finite; logarithmic ones above 0."""

    def __init__(self, values: Sequence[float], start: float, end: float, log: bool) -> None:
        self._start, self._end, self._log = start, end, log
        low, high = min(values), max(values)
        if log:
            # 10 to the power of its exponent may be 0 for the smallest numbers there are.
            self.low = 10.0 ** max(-300, math.floor(math.log10(low)))
            self.high = 10.0 ** math.ceil(math.log10(high))
            if self.high == self.low:
                self.high *= 10
        else:
            self.low = min(0.0, low)
            step = _step((high - self.low) or 1.0)
            self.high = self.low + step * max(1, math.ceil((high - self.low) / step - 1e-9))

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self._log:
            low, high, value = math.log10(low), math.log10(high), math.log10(max(value, low))
        return self._start + (value - low) / (high - low) * (self._end - self._start)

    def ticks(self) -> list[float]:
        if self._log:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            each = max(1, math.ceil((last - first) / 8))
            tens = [10.0**power for power in range(first, last + 1, each)]
            if len(tens) <= 3:
                tens = sorted({t * k for t in tens for k in (1, 2, 5) if t * k <= self.high})
            return tens
        step = _step(self.high - self.low)
        return [self.low + step * i for i in range(round((self.high - self.low) / step) + 1)]


def _step(reach: float) -> float:
    """A round distance of ticks: about six of them."""
    rough = reach / 6
    power = 10.0 ** math.floor(math.log10(rough))
    return next(k * power for k in (1, 2, 5, 10) if k * power >= rough * 0.999)


def escape(text: str) -> str:
    """For a document: also without characters that XML does not have."""
    return xml(printable(text))


def _text(x: float, y: float, text: str, anchor: str = "start", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(text)}</text>'


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _marker(shape: int, x: float, y: float, colour: str, title: str = "") -> str:
    """A point in the shape of its series, with a text that shows when pointed at."""
    r = 4.0
    path = (
        f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z",
        f"M{x - r:.1f} {y - r:.1f}h{2 * r}v{2 * r}h{-2 * r}z",
        f"M{x:.1f} {y - r - 1:.1f}l{r + 1} {2 * r}h{-2 * (r + 1)}z",
        f"M{x:.1f} {y - r - 1:.1f}l{r + 1} {r + 1}l{-r - 1} {r + 1}l{-r - 1} {-r - 1}z",
    )[shape % 4]
    inside = f"<title>{escape(title)}</title>" if title else ""
    return f'<path d="{path}" fill="{colour}">{inside}</path>'


def _document(width: float, height: float, title: str, parts: Iterator[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f"aria-label={quoteattr(printable(title))}><title>{escape(title)}</title><style>{STYLE}</style>"
        f"{''.join(parts)}</svg>\n"
    )


def lines(
    title: str,
    x_label: str,
    y_label: str,
    series: Sequence[Series],
    marks: Sequence[Mark] = (),
    *,
    log_x: bool = False,
    log_y: bool = False,
) -> str:
    """An SVG document. Points that an axis cannot show (not finite; 0 on a logarithmic one) are
    left out. ValueError if nothing is left."""
    width, height, left, right, top, bottom = 760.0, 420.0, 78.0, 44.0, 64.0, 52.0

    def fits(x: float, y: float) -> bool:
        finite = math.isfinite(x) and math.isfinite(y)
        return finite and (x > 0 or not log_x) and (y > 0 or not log_y)

    shown = [Series(s.name, [p for p in s.points if fits(*p)]) for s in series]
    points = [point for one in shown for point in one.points]
    if not points:
        raise ValueError("no point can be drawn")
    across = [p[0] for p in points] + [m.x for m in marks if m.x is not None]
    up = [p[1] for p in points] + [m.y for m in marks if m.y is not None]
    x = Scale(across, left, width - right, log_x)
    y = Scale(up, height - bottom, top, log_y)

    def parts() -> Iterator[str]:
        yield _text(left, 20, title, extra=' font-size="15" font-weight="600"')
        for tick in y.ticks():
            yield _line("grid", left, y(tick), width - right, y(tick))
            yield _text(left - 8, y(tick) + 4, number(tick), "end")
        for tick in x.ticks():
            yield _line("grid", x(tick), top, x(tick), height - bottom)
            yield _text(x(tick), height - bottom + 18, number(tick), "middle")
        yield _line("axis", left, height - bottom, width - right, height - bottom)
        yield _line("axis", left, top, left, height - bottom)
        yield _text((left + width - right) / 2, height - 12, x_label, "middle")
        middle = (top + height - bottom) / 2
        turn = f' transform="rotate(-90 16 {middle:.1f})"'
        yield _text(16, middle, y_label, "middle", turn)
        for mark in marks:
            if mark.y is not None:
                yield _line("mark", left, y(mark.y), width - right, y(mark.y))
                yield _text(left + 6, y(mark.y) - 5, mark.text)
            if mark.x is not None:
                yield _line("mark", x(mark.x), top, x(mark.x), height - bottom)
                end = x(mark.x) > width * 0.7
                place = x(mark.x) + (-6 if end else 6)
                yield _text(place, top + 14, mark.text, "end" if end else "start")
        legend = left
        for index, one in enumerate(shown):
            colour = COLOURS[index % len(COLOURS)]
            if len(one.points) > 1:
                path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in one.points)
                yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
            for a, b in one.points:
                tip = f"{one.name}: {number(b)} at {number(a)}"
                yield _marker(index, x(a), y(b), colour, tip)
            yield _marker(index, legend + 5, 44, colour)
            yield _text(legend + 16, 48, one.name)
            legend += 34 + LETTER * len(one.name)

    return _document(width, height, title, parts())


def bars(
    title: str, unit: str, groups: Sequence[tuple[str, Sequence[Bar]]], *, log: bool = False
) -> str:
    """Horizontal bars in groups, each with its range as a thin line. A name has the same colour in
    all groups. A logarithmic axis is used only if all values are above 0. ValueError if there is
    no bar."""
    all_bars = [bar for _, found in groups for bar in found]
    if not all_bars:
        raise ValueError("no bar can be drawn")
    names = list(dict.fromkeys(bar.name for bar in all_bars))
    name_width = LETTER * max(map(len, names))
    left = max(110.0, name_width + 24)
    label = LETTER * max(len(bar.text or number(bar.value)) for bar in all_bars)
    width, row, head = 760.0, 20.0, 26.0
    height = 58 + sum(head + row * len(found) for _, found in groups) + 34
    most = [max(bar.value, bar.high) for bar in all_bars]
    least = [min(bar.value, bar.low) for bar in all_bars]
    log = log and min(least) > 0
    x = Scale([*most, *least] if log else [*most, 0.0], left, width - label - 20, log)

    def parts() -> Iterator[str]:
        yield _text(12, 20, title, extra=' font-size="15" font-weight="600"')
        for tick in x.ticks():
            yield _line("grid", x(tick), 34, x(tick), height - 40)
            yield _text(x(tick), height - 24, number(tick), "middle")
        yield _text((left + width - label) / 2, height - 6, unit, "middle")
        place = 40.0
        for group, found in groups:
            yield _text(12, place + 14, group, extra=' font-weight="600"')
            place += head
            for bar in found:
                index = names.index(bar.name) if bar.colour is None else bar.colour
                colour = COLOURS[index % len(COLOURS)]
                middle = place + row / 2
                shown = bar.text or number(bar.value)
                tip = f"{group}, {bar.name}: {shown} ({number(bar.low)} to {number(bar.high)})"
                yield _text(left - 8, middle + 4, bar.name, "end")
                yield (
                    f'<rect x="{left:.1f}" y="{place + 3:.1f}" '
                    f'width="{max(x(bar.value) - left, 0.5):.1f}" height="{row - 6:.1f}" '
                    f'fill="{colour}"><title>{escape(tip)}</title></rect>'
                )
                yield _line("axis", x(bar.low), middle, x(bar.high), middle)
                yield _text(max(x(bar.high), x(bar.value)) + 6, middle + 4, shown)
                place += row

    return _document(width, height, title, parts())
