"""A page of metrics: rows are written by family, and read as OpenMetrics or as Prometheus' text.

Both formats have the same samples. They differ in the lines about each family and in the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from pyrmq.metrics.families import Family, Kind, label_text

PART_LINES = 512
"""Lines that are made bytes together."""
OPEN_METRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Format(Enum):
    """How a page is written; the value is its media type."""

    OPEN_METRICS = OPEN_METRICS_TYPE
    PLAIN = PLAIN_TYPE


def accepted(header: str) -> Format:
    """What a request's Accept header asks for: OpenMetrics if it prefers that to plain text."""
    best, chosen = 0.0, Format.PLAIN
    for part in header.split(","):
        kind, *parameters = (word.strip() for word in part.split(";"))
        given = dict(word.partition("=")[::2] for word in parameters)
        quality = _quality(given.get("q", "1"))
        if kind == "application/openmetrics-text":
            if given.get("version", "1.0.0").strip('"') in ("1.0.0", "0.0.1") and quality > best:
                best, chosen = quality, Format.OPEN_METRICS
        elif kind in ("text/plain", "text/*") and quality > best:
            best, chosen = quality, Format.PLAIN
    return chosen


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


class Rows:
    """The rows of one family. `common`: labels that all rows have, at least one."""

    __slots__ = ("_lines", "_parts", "_prefix", "_prefixes", "_upto", "family")

    def __init__(self, family: Family, common: str) -> None:
        self.family = family
        self._prefix = f"{family.name}{{{common}"
        self._prefixes = tuple(
            f"{family.name}_{end}{{{common}" for end in ("bucket", "sum", "count")
        )
        self._upto = [f',le="{float(bound)}"}} ' for bound in family.bounds]
        self._lines: list[str] = []
        self._parts: list[bytes] = []

    def add(self, labels: str, value: float) -> None:
        """A row. `labels`: further ones, as `label_text` writes them."""
        lines = self._lines
        lines.append(f"{self._prefix}{labels}}} {value}\n")
        if len(lines) >= PART_LINES:
            self._flush()

    def add_histogram(self, labels: str, counts: Sequence[int], total: float) -> None:
        """A row of a histogram. `counts`: how many values are in each bucket and in none before,
        the last above all bounds; `total`: the sum of the values."""
        buckets, in_sum, in_count = self._prefixes
        head, so_far, lines = buckets + labels, 0, self._lines
        for upto, count in zip(self._upto, counts, strict=False):
            so_far += count
            lines.append(f"{head}{upto}{so_far}\n")
        every = sum(counts)
        lines.append(
            f'{head},le="+Inf"}} {every}\n'
            f"{in_sum}{labels}}} {total}\n"
            f"{in_count}{labels}}} {every}\n"
        )
        if len(lines) >= PART_LINES:
            self._flush()

    def _flush(self) -> None:
        self._parts.append("".join(self._lines).encode())
        self._lines.clear()

    def parts(self) -> list[bytes]:
        """All rows, in parts."""
        if self._lines:
            self._flush()
        return self._parts


class Page:
    """What a scrape gets. `common`: labels that all rows have."""

    def __init__(self, common: Mapping[str, object]) -> None:
        self._common = label_text(common)[1:]
        self._rows: dict[str, Rows] = {}

    def rows(self, family: Family) -> Rows:
        """The rows of a family, to add to."""
        rows = self._rows.get(family.name)
        if rows is None:
            rows = self._rows[family.name] = Rows(family, self._common)
        return rows

    def add(self, family: Family, value: float, **labels: object) -> None:
        """One row of a family."""
        self.rows(family).add(label_text(labels), +value)  # + makes a boolean a number

    def chunks(self, form: Format) -> Iterator[bytes]:
        """The text. Families without a row are left out."""
        for rows in self._rows.values():
            parts = rows.parts()
            if parts:
                yield _head(rows.family, form)
                yield from parts
        if form is Format.OPEN_METRICS:
            yield b"# EOF\n"


def _head(family: Family, form: Format) -> bytes:
    """The lines in front of a family's rows."""
    doc = family.doc.replace("\\", r"\\").replace("\n", r"\n")
    if form is Format.OPEN_METRICS:
        name, kind = family.stem, family.kind.value
        doc = doc.replace('"', r"\"")
    else:
        name = family.name
        kind = Kind.GAUGE.value if family.kind is Kind.INFO else family.kind.value
    return f"# HELP {name} {doc}\n# TYPE {name} {kind}\n".encode()
