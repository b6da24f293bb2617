"""Columns of bodies that Python decodes one by one: in parts that bound the memory. A row that
Arrow refuses is one body that does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyrmq.tables.bodies.misfit import Misfit, brief

if TYPE_CHECKING:
    import pyarrow

PART_BYTES = 1 << 20
"""Bodies that are Python objects at the same time; one body may be longer."""
PART_ROWS = 10_000
PART_VALUES = 2_000_000
"""Values of them, nulls of missing fields included, and those of one body more."""

Row = Callable[[bytes], tuple[dict[str, Any], int]]
"""The fields of a body, and how many values they hold. Raises Misfit."""


@dataclass(frozen=True)
class Part:
    """The columns of some bodies of a batch."""

    start: int
    """The first of them."""
    values: pyarrow.StructArray
    """Null for a body that does not fit."""
    reasons: dict[int, str]
    """Why not, by row of `values`."""


def parts(bodies: pyarrow.Array, kind: pyarrow.DataType, row: Row) -> Iterator[Part]:
    """The bodies of a binary array, in order."""
    found: list[dict[str, Any] | None] = []
    reasons: dict[int, str] = {}
    start = size = count = 0
    for at, scalar in enumerate(bodies):
        body = scalar.as_py()
        length = len(body) if body is not None else 0
        full = len(found) >= PART_ROWS or size + length > PART_BYTES or count > PART_VALUES
        if found and full:
            yield _built(start, found, kind, reasons)
            found, reasons, start, size, count = [], {}, at, 0, 0
        size += length
        try:
            if body is None:
                raise Misfit((), "the body is null")
            fields, number = row(body)
        except Misfit as error:
            reasons[len(found)] = str(error)
            found.append(None)
        else:
            count += number
            found.append(fields)
    if found:
        yield _built(start, found, kind, reasons)


def _built(
    start: int,
    found: list[dict[str, Any] | None],
    kind: pyarrow.DataType,
    reasons: dict[int, str],
) -> Part:
    import pyarrow as pa

    refused = (pa.ArrowException, ValueError, TypeError, OverflowError)
    try:
        return Part(start, pa.array(found, kind), reasons)
    except refused:
        pass
    for at, fields in enumerate(found):
        try:
            pa.array([fields], kind)
        except refused as error:
            reasons[at] = brief(error)
            found[at] = None
    return Part(start, pa.array(found, kind), reasons)
