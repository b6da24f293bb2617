"""How messages are read: columns, their forms, checks, size of batches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from pyrmq.engine import DEFAULT_COLUMNS, LogRange, SegmentForm, SegmentReader
from pyrmq.errors import Parameter, SegmentOptionError
from pyrmq.segments.filesystem import need

_ON_CORRUPTION = ("fail", "skip")
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
    body: str | Mapping[str, Any] | None = None
    """Form of the column `body` in tasks: None is bytes, `utf8` a text, `{"json": type}` a struct
    type of Spark in its JSON. Spark's source sets it."""

    def __post_init__(self) -> None:
        for name, number, limit in (
            ("batch_rows", self.batch_rows, _MAX_ROWS),
            ("batch_bytes", self.batch_bytes, _MAX_BYTES),
        ):
            if not 1 <= number <= limit:
                raise SegmentOptionError((Parameter(name), f": {number}"), f"expected 1 to {limit}")
        if self.on_corruption not in _ON_CORRUPTION:
            raise SegmentOptionError(
                (Parameter("on_corruption"), f": {self.on_corruption!r}"),
                f"expected {' or '.join(_ON_CORRUPTION)}",
            )
        self.native  # noqa: B018 - the engine checks the rest

    def __reduce__(self) -> tuple[type[ReadOptions], tuple[object, ...]]:
        return ReadOptions, tuple(getattr(self, one.name) for one in fields(self))

    @cached_property
    def native(self) -> SegmentForm:
        """The same for the engine."""
        return SegmentForm(json.dumps({one.name: getattr(self, one.name) for one in fields(self)}))

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
