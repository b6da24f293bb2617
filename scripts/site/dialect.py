"""CommonMark as Python-Markdown reads it.

The forge begins a list or a table right below a paragraph, and takes what is indented by the width
of a marker as part of its item. Python-Markdown wants an empty line before, and four spaces.
"""

from __future__ import annotations

import re

FENCE = re.compile(r"^( *)(`{3,}|~{3,})")
ITEM = re.compile(r"^( *)([-*+]|\d{1,9}[.)])( +)(?=\S)")
ROW = re.compile(r"^ *\|")
RULE = re.compile(r"^ *([-*_])( *\1){2,} *$")


class _Writer:
    """Takes the lines of a page in their order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._items: list[int] = []
        """Where the contents of the open items begin, outermost first."""
        self._loose = False
        """Whether the last item has code or an empty line."""
        self._fence: tuple[str, str, str] | None = None
        """Of an open block of code: its indent, its mark, and its indent here."""

    def take(self, line: str) -> None:
        opened = FENCE.match(line)
        item = None if RULE.match(line) else ITEM.match(line)
        if self._fence is not None:
            self._code(line, *self._fence)
        elif opened:
            self._open(line, opened[1], opened[2])
        elif line.startswith("#"):
            self._items.clear()
            self.lines.append(line)
        elif item and self._begins(item):
            self._item(line, item)
        else:
            self._other(line)

    def _code(self, line: str, indent: str, mark: str, indent_here: str) -> None:
        stripped = line[len(indent) :] if line.startswith(indent) else line.lstrip()
        self.lines.append(indent_here + stripped if stripped else "")
        if stripped.startswith(mark) and not stripped.strip(mark[0]).strip():
            self._fence = None
            self.lines.append("")

    def _open(self, line: str, indent: str, mark: str) -> None:
        if not indent:
            self._items.clear()
        here = "    " * self._depth(len(indent))
        self._fence = indent, mark, here
        self._loose = True
        self.lines.append(here + line[len(indent) :])

    def _depth(self, indent: int) -> int:
        """In how many of the open items a line of that indent stands."""
        return max((i + 1 for i, at in enumerate(self._items) if indent >= at), default=0)

    def _blank(self) -> bool:
        return not self.lines or not self.lines[-1].strip()

    def _separate(self) -> None:
        if not self._blank():
            self.lines.append("")

    def _begins(self, item: re.Match[str]) -> bool:
        """Whether a line begins an item. Below a paragraph a number does only if it is 1; what is
        indented by four outside of lists is code."""
        if not self._items and len(item[1]) >= 4:
            return False
        return bool(self._items) or self._blank() or item[2] in "-*+" or item[2][:-1] == "1"

    def _item(self, line: str, item: re.Match[str]) -> None:
        indent = len(item[1])
        first = not self._items
        while self._items and indent < self._items[-1]:
            self._items.pop()
        depth = len(self._items)
        before = ITEM.match(self.lines[-1]) if self.lines else None
        if first or self._loose or (depth and not (before and len(before[1]) == 4 * depth)):
            self._separate()
        self._loose = False
        self._items.append(indent + len(item[2]) + len(item[3]))
        self.lines.append(f"{'    ' * depth}{item[2].replace(')', '.')} {line[item.end() :]}")

    def _other(self, line: str) -> None:
        """A line of a paragraph or a table, or an empty one."""
        indent = len(line) - len(line.lstrip())
        self._loose = self._loose or not line
        if self._blank() and line:  # only now does an item end
            while self._items and indent < self._items[-1]:
                self._items.pop()
        inside = self._depth(indent)
        if inside:
            line = "    " * inside + line[self._items[inside - 1] :]
        before = self.lines[-1] if self.lines else ""
        if ROW.match(line) and not ROW.match(before):
            self._separate()
        self.lines.append(line)


def for_python_markdown(text: str) -> str:
    """The same page in Python-Markdown's dialect. Code stays as it is."""
    out = _Writer()
    for line in text.splitlines():
        out.take(line)
    return "\n".join(out.lines).rstrip("\n") + "\n"
