"""Mermaid's diagrams without Mermaid: sequences as SVG, flowcharts as tables.

Mermaid itself would be loaded from another host, or be 3 MB of the site. The pages use few of its
words: participant, arrows, `Note over`, the blocks alt, else, opt and loop; `a --> b & c`. What is
not one of these is an error.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

FENCE = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PARTICIPANT = re.compile(r"participant (\w+)(?: as (.+))?$")
ARROW = re.compile(r"(\w+)(-->>|->>)(\w+): (.+)$")
NOTE = re.compile(r"Note over (\w+)(?:,\s*(\w+))?: (.+)$")
BLOCK = re.compile(r"(alt|opt|loop|par) (.+)$")
EDGE = re.compile(r"(\w+) --> *(.*)$")
COLUMN, LINE, CHAR = 116, 14, 6.0
"""Between two participants, between two lines of text, of a character: px."""

ARROW_HEAD = (
    '<defs><marker id="sequence-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>'
)


class DiagramError(ValueError):
    """A diagram has a line that is not known here."""


def drawn(text: str) -> str:
    """The text of a page with its diagrams drawn."""
    return FENCE.sub(lambda found: f"\n{_drawn(found[1])}\n", text)


def _drawn(source: str) -> str:
    kind, *lines = [line.strip() for line in source.splitlines() if line.strip()]
    if kind == "sequenceDiagram":
        return _Sequence(lines).figure(source)
    if kind.startswith("flowchart"):
        return _edges(lines)
    raise DiagramError(f"a diagram of an unknown kind: {kind}")


def _edges(lines: list[str]) -> str:
    """A flowchart as a table: what is above, and what is below it."""
    rows = ["| | leads to |", "|---|---|"]
    for line in lines:
        edge = EDGE.match(line)
        if edge is None:
            raise DiagramError(f"no edge: {line}")
        targets = ", ".join(f"`{name.strip()}`" for name in edge[2].split("&") if name.strip())
        rows.append(f"| `{edge[1]}` | {targets} |")
    return "\n".join(rows)


def wrapped(text: str, width: float) -> list[str]:
    """A text in lines of about that many px, broken behind blanks and slashes."""
    lines = [""]
    for part in re.findall(r"[^\s/]+/?\s*|/\s*", text):
        if lines[-1] and len(lines[-1] + part.rstrip()) * CHAR > width:
            lines.append("")
        lines[-1] += part
    return [line.rstrip() for line in lines]


@dataclass
class _Sequence:
    lines: list[str]
    columns: dict[str, int] = field(default_factory=dict)
    labels: list[list[str]] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)
    blocks: list[tuple[str, int, list[int]]] = field(default_factory=list)
    """Open blocks: what they say, where they begin, where their else begins."""
    y: int = 0

    def figure(self, source: str) -> str:
        for line in self.lines:
            if found := PARTICIPANT.match(line):
                self.columns[found[1]] = len(self.columns)
                self.labels.append(wrapped(found[2] or found[1], COLUMN - 16))
        head = max(len(label) for label in self.labels) * LINE + 14
        self.y = head + 10
        for line in self.lines:
            self._line(line)
        if self.blocks:
            raise DiagramError("a block has no end")
        width, height = len(self.columns) * COLUMN, self.y + 12
        shapes = [*self._participants(head, height), *self.shapes]
        text = html.escape(source.strip()).replace("\n", "&#10;")
        return (
            f'<figure class="sequence" tabindex="0"><svg role="img" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" xmlns="http://www.w3.org/2000/svg">'
            f"<title>A sequence of calls; the same as text stands below</title>"
            f"{ARROW_HEAD}{''.join(shapes)}</svg>"
            f"<details><summary>As text</summary><pre>{text}</pre></details></figure>"
        )

    def _x(self, name: str) -> int:
        if name not in self.columns:
            raise DiagramError(f"no participant {name}")
        return self.columns[name] * COLUMN + COLUMN // 2

    def _participants(self, head: int, height: int) -> list[str]:
        out = []
        for name, label in zip(self.columns, self.labels, strict=True):
            x = self._x(name)
            out.append(f'<line class="life" x1="{x}" y1="{head}" x2="{x}" y2="{height}"/>')
            left = x - COLUMN // 2 + 4
            out.append(f'<rect x="{left}" y="1" width="{COLUMN - 8}" height="{head - 1}" rx="3"/>')
            out.append(self._text(x, (head - len(label) * LINE) // 2 + 11, label))
        return out

    def _text(self, x: int, y: int, lines: list[str], kind: str = "") -> str:
        """Lines of text with their middle at x; y is the base of the first."""
        rows = "".join(
            f'<tspan x="{x}" y="{y + i * LINE}">{html.escape(line)}</tspan>'
            for i, line in enumerate(lines)
        )
        return f'<text class="{kind}">{rows}</text>' if kind else f"<text>{rows}</text>"

    def _line(self, line: str) -> None:
        if found := ARROW.match(line):
            self._arrow(*found.groups())
        elif found := NOTE.match(line):
            self._note(self._x(found[1]), self._x(found[2] or found[1]), found[3])
        elif found := BLOCK.match(line):
            self.blocks.append((f"{found[1]}: {found[2]}", self.y, []))
            self.y += 24
        elif line == "else" or line.startswith("else "):
            self.blocks[-1][2].append(self.y)
            self.shapes.append(self._label(f"else: {line[5:]}" if line[5:] else "else", self.y))
            self.y += 24
        elif line == "end":
            self._end()
        elif not PARTICIPANT.match(line):
            raise DiagramError(f"a line of a sequence that is not known: {line}")

    def _label(self, text: str, y: int) -> str:
        x = 8 * len(self.blocks) + 4
        return f'<text class="block" x="{x}" y="{y + 15}">{html.escape(text)}</text>'

    def _end(self) -> None:
        text, top, elses = self.blocks[-1]
        left = 8 * len(self.blocks) - 4
        width = len(self.columns) * COLUMN - 2 * left
        self.shapes.append(
            f'<rect class="block" x="{left}" y="{top}" width="{width}" height="{self.y - top}"/>'
        )
        self.shapes.append(self._label(text, top))
        for y in elses:
            self.shapes.append(
                f'<line class="block" x1="{left}" y1="{y}" x2="{left + width}" y2="{y}"/>'
            )
        self.blocks.pop()
        self.y += 8

    def _arrow(self, source: str, kind: str, target: str, text: str) -> None:
        start, end = self._x(source), self._x(target)
        dashed = ' class="answer"' if kind == "-->>" else ""
        if start == end:
            lines = wrapped(text, COLUMN * 1.4)
            self.shapes.append(self._text(start + 12, self.y + 12, lines, "own"))
            y = self.y + len(lines) * LINE + 2
            path = f"M{start} {y}h22v10h-22"
            self.y = y + 20
        else:
            lines = wrapped(text, max(abs(end - start), COLUMN) - 12)
            self.shapes.append(self._text((start + end) // 2, self.y + 12, lines))
            y = self.y + len(lines) * LINE + 4
            path = f"M{start} {y}H{end + (-1 if end > start else 1)}"
            self.y = y + 10
        self.shapes.append(f'<path d="{path}"{dashed} marker-end="url(#sequence-arrow)"/>')

    def _note(self, start: int, end: int, text: str) -> None:
        left, right = min(start, end) - COLUMN // 2 + 4, max(start, end) + COLUMN // 2 - 4
        lines = wrapped(text, right - left - 10)
        height = len(lines) * LINE + 8
        self.shapes.append(
            f'<rect class="note" x="{left}" y="{self.y}" width="{right - left}" height="{height}"/>'
        )
        self.shapes.append(self._text((left + right) // 2, self.y + 15, lines))
        self.y += height + 8
