"""Columns of bodies that Python decodes one by one: parts of a batch that bound the memory, and a
row that Arrow refuses is one body that does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyrmq.tables.bodies.misfit import Misfit, brief

if TYPE_CHECKING:
    import pyarrow

PART_BYTES = 1 << 20
"""Bodies that are Python objects at the same time; one body may be longer."""
PART_ROWS = 10_000

Row = Callable[[bytes], dict[str, Any]]
"""The fields of a body. Raises Misfit."""


def column(
    bodies: pyarrow.Array, kind: pyarrow.DataType, row: Row
) -> tuple[pyarrow.Array, dict[int, str]]:
    """The structs, null for a body that does not fit, and the reasons by row."""
    import pyarrow as pa

    parts, reasons = [], {}
    for start, part in _parts(bodies):
        rows: list[dict[str, Any] | None] = []
        for at, body in enumerate(part.to_pylist(), start):
            try:
                if body is None:
                    raise Misfit((), "the body is null")
                rows.append(row(body))
            except Misfit as error:
                reasons[at] = str(error)
                rows.append(None)
        parts.append(_build(rows, kind, start, reasons))
    return pa.concat_arrays(parts) if parts else pa.array([], kind), reasons


def _parts(bodies: pyarrow.Array) -> Iterator[tuple[int, pyarrow.Array]]:
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.binary_length(bodies), 0).to_pylist()
    start = size = 0
    for at, length in enumerate(lengths):
        if at > start and (size + length > PART_BYTES or at - start >= PART_ROWS):
            yield start, bodies.slice(start, at - start)
            start, size = at, 0
        size += length
    if start < len(bodies):
        yield start, bodies.slice(start)


def _build(
    rows: list[dict[str, Any] | None], kind: pyarrow.DataType, start: int, reasons: dict[int, str]
) -> pyarrow.Array:
    import pyarrow as pa

    refused = (pa.ArrowException, ValueError, TypeError, OverflowError)
    try:
        return pa.array(rows, kind)
    except refused:
        pass
    for at, row in enumerate(rows):
        try:
            pa.array([row], kind)
        except refused as error:
            reasons[start + at] = brief(error)
            rows[at] = None
    return pa.array(rows, kind)
