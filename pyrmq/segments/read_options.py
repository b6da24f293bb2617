"""How messages are read: columns, their forms, checks, size of batches."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from pyrmq.engine import ALL_COLUMNS, DEFAULT_COLUMNS, LogRange, SegmentReader
from pyrmq.errors import Parameter, SegmentOptionError
from pyrmq.segments.filesystem import need
from pyrmq.segments.parameters import ON_CORRUPTION, PROPERTIES, VERIFY_CRC

_MAX_ROWS = 10_000_000
_MAX_BYTES = 1 << 30
"""Of a batch: string and binary columns have 32-bit places, and a batch may pass by one record."""


@dataclass(frozen=True)
class ReadOptions:
    """Parameters of a read that do not select messages. SegmentOptionError for a wrong value."""

    columns: tuple[str, ...] = ()
    """In the order in which they come; empty: the default ones."""
    properties: str = "map"
    """Form of the column `properties`: map, json, raw; none leaves it out of the default ones."""
    decompress: bool = True
    verify_crc: str = "tail"
    on_corruption: str = "fail"
    batch_rows: int = 10_000
    batch_bytes: int = 1 << 20
    views: bool = False
    """Bodies as binary_view over the mapped files, not copied; local files only."""

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("properties", self.properties, PROPERTIES),
            ("verify_crc", self.verify_crc, VERIFY_CRC),
            ("on_corruption", self.on_corruption, ON_CORRUPTION),
        ):
            if value not in allowed:
                raise SegmentOptionError(
                    (Parameter(name), f": {value!r}"),
                    f"expected {', '.join(allowed[:-1])} or {allowed[-1]}",
                )
        for name, number, limit in (
            ("batch_rows", self.batch_rows, _MAX_ROWS),
            ("batch_bytes", self.batch_bytes, _MAX_BYTES),
        ):
            if not 1 <= number <= limit:
                raise SegmentOptionError((Parameter(name), f": {number}"), f"expected 1 to {limit}")
        known = ALL_COLUMNS
        for column in self.columns:
            if column not in known:
                near = difflib.get_close_matches(column, known, 1, 0.5)
                guess = f"did you mean {near[0]}? " if near else ""
                hint = f"{guess}there are {', '.join(known)}"
                raise SegmentOptionError(
                    (Parameter("columns"), f": there is no column {column!r}"), hint
                )
        if len(set(self.columns)) != len(self.columns):
            raise SegmentOptionError((Parameter("columns"), " names a column twice"))
        if self.properties == "none" and "properties" in self.columns:
            raise SegmentOptionError(
                (
                    Parameter("properties", "none"),
                    ", but ",
                    Parameter("columns"),
                    " names properties",
                ),
                "leave out one of them",
            )

    def names(self) -> tuple[str, ...]:
        """The columns that come, in order."""
        left_out = "properties" if self.properties == "none" else ""
        return self.columns or tuple(c for c in DEFAULT_COLUMNS if c != left_out)

    def empty(self) -> SegmentReader:
        """A reader of nothing, whose Arrow schema is that of what is read."""
        return SegmentReader(LogRange([], 0, 0), None, self)

    def schema(self) -> Any:
        """The pyarrow schema of what is read."""
        return need("pyarrow", "an Arrow schema").schema(self.empty().schema)
