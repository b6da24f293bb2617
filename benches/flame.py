"""Draws stacks that were counted as a flame graph: an SVG without scripts.

Wide frames took long; a frame stands on its caller. Pointing at one shows its name and its part.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

WIDTH, ROW, LETTER = 1400.0, 17.0, 6.6
NARROWEST = 0.4
"""Pixels: a narrower frame is left out, with all above it."""
RUST, PYTHON, KERNEL, OTHER = "#e8a05c", "#7fb069", "#b58db6", "#8fb3d9"
STYLE = (
    "text{font:11px 'DejaVu Sans Mono',monospace;fill:#111;pointer-events:none}"
    ".head{font-size:15px;fill:var(--ink)}svg{--ink:#1f2328;--paper:#fff;background:var(--paper)}"
    "rect:hover{stroke:#000}"
    "@media (prefers-color-scheme:dark){svg{--ink:#e6edf3;--paper:#0d1117}}"
)
_SAMPLE = re.compile(r"^\s+[0-9a-f]+ (.+?)(?:\+0x[0-9a-f]+)? \((.*)\)$")


@dataclass
class Frame:
    count: int = 0
    above: dict[str, Frame] = field(default_factory=dict)


def read_folded(text: str) -> Counter[tuple[str, ...]]:
    """`a;b;c 12` a line, as py-spy's raw format."""
    stacks: Counter[tuple[str, ...]] = Counter()
    for line in text.splitlines():
        names, _, count = line.rpartition(" ")
        if names and count.isdigit():
            stacks[tuple(names.split(";"))] += int(count)
    return stacks


def read_perf(text: str) -> Counter[tuple[str, ...]]:
    """What `perf script` prints: a head line, then frames from the innermost on, then a blank."""
    stacks: Counter[tuple[str, ...]] = Counter()
    head, frames = "", []
    for line in [*text.splitlines(), ""]:
        if not line.strip():
            if head and frames:
                stacks[(head, *reversed(frames))] += 1
            head, frames = "", []
        elif not line[0].isspace():
            head = re.split(r"\s+\d+(?:/\d+)?\s", line, maxsplit=1)[0].strip()
        elif match := _SAMPLE.match(line):
            name = match[1]
            if match[2] == "[kernel.kallsyms]" or match[2].startswith("["):
                name += "_[k]"
            frames.append(name)
    return stacks


def tree(stacks: Iterable[tuple[tuple[str, ...], int]]) -> Frame:
    root = Frame()
    for names, count in stacks:
        frame = root
        frame.count += count
        for name in names:
            frame = frame.above.setdefault(name, Frame())
            frame.count += count
    return root


def _colour(name: str) -> str:
    if name.endswith("_[k]"):
        return KERNEL
    if "::" in name or ".rs:" in name or name.startswith("pyrmq_"):
        return RUST
    if ".py" in name or name.startswith("py::"):
        return PYTHON
    return OTHER


def draw(stacks: Counter[tuple[str, ...]], title: str) -> str:
    """ValueError if there is no stack."""
    root = tree(stacks.items())
    if not root.count:
        raise ValueError("no stack was sampled")
    scale = WIDTH / root.count
    deepest = 0
    parts: list[str] = []

    def walk(frame: Frame, start: float, depth: int) -> Iterator[tuple[str, Frame, float, int]]:
        for name in sorted(frame.above):
            above = frame.above[name]
            if above.count * scale >= NARROWEST:
                yield name, above, start, depth
                yield from walk(above, start, depth + 1)
            start += above.count * scale

    found = list(walk(root, 0.0, 0))
    deepest = max(depth for *_, depth in found) + 1 if found else 1
    height = 40 + deepest * ROW + 10
    for name, frame, x, depth in found:
        width, y = frame.count * scale, height - 10 - (depth + 1) * ROW
        shade = 0.75 + (zlib.crc32(name.encode()) % 100) / 400
        tip = f"{name}: {frame.count / root.count:.1%} ({frame.count} samples)"
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{ROW - 1:.1f}" '
            f'fill="{_colour(name)}" fill-opacity="{shade:.2f}"><title>{_text(tip)}</title></rect>'
        )
        if (letters := int(width / LETTER)) > 3:
            shown = name if len(name) <= letters else f"{name[: letters - 1]}…"
            parts.append(f'<text x="{x + 2:.1f}" y="{y + 12:.1f}">{_text(shown)}</text>')
    head = f"{title}: {root.count} samples"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height:.0f}" '
        f'width="{WIDTH:.0f}" height="{height:.0f}"><title>{_text(head)}</title>'
        f'<style>{STYLE}</style><text class="head" x="8" y="22">{_text(head)}</text>'
        f"{''.join(parts)}</svg>\n"
    )


def _text(text: str) -> str:
    return escape("".join(c if c.isprintable() else "?" for c in text))


def hottest(stacks: Counter[tuple[str, ...]], count: int = 15) -> list[tuple[str, float]]:
    """The frames that were innermost most often, with their part of all samples."""
    inner: Counter[str] = Counter()
    for names, seen in stacks.items():
        inner[names[-1]] += seen
    total = sum(inner.values())
    return [(name, seen / total) for name, seen in inner.most_common(count)]
