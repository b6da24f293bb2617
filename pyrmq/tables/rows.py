"""Which rows of a table a query wants, said to both halves: to Iceberg and Parquet for what the
table has, to the engine for the log behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyrmq.errors import Parameter, SegmentOptionError

_INT64 = 1 << 63
_MICROS = 1000
FARTHEST = _INT64 // _MICROS - 1
"""Milliseconds: a time that is later than this, or earlier than its negative, is no bound."""

Condition = tuple[str, str, Any]
"""Column, one of `in`, `>=` and `<`, value."""


@dataclass(frozen=True)
class Rows:
    """Conditions that all have to hold. Ranges are from and before; None: no bound."""

    queues: tuple[int, ...] = ()
    """Queue ids; empty: all."""
    brokers: tuple[str, ...] = ()
    """Broker names; empty: all."""
    offsets: tuple[int | None, int | None] = (None, None)
    """Queue offsets, of each queue."""
    times: tuple[int | None, int | None] = (None, None)
    """Store times, ms."""
    tags: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if any(not 0 <= queue < 1 << 31 for queue in self.queues):
            raise SegmentOptionError((Parameter("queues"), f": {self.queues} are no queue ids"))
        if len(self.offsets) != 2:
            raise SegmentOptionError(
                (Parameter("offsets"), f": {self.offsets} are not two"),
                "expected from and before, such as (0, 1000); None is no bound",
            )
        for offset in self.offsets:
            if offset is not None and not 0 <= offset < _INT64:
                raise SegmentOptionError(
                    (Parameter("offsets"), f": {offset} is no queue offset"),
                    "expected from and before, such as (0, 1000); None is no bound",
                )

    def conditions(self) -> list[Condition]:
        """The same by column; times in microseconds, as the column has them."""
        found: list[Condition] = []
        if self.queues:
            found.append(("queueId", "in", sorted(set(self.queues))))
        if self.brokers:
            found.append(("brokerName", "in", sorted(set(self.brokers))))
        if self.tags is not None:
            found.append(("tags", "in", sorted(set(self.tags))))
        for column, bounds, unit in (
            ("queueOffset", self.offsets, 1),
            ("storeTimestamp", self.times, _MICROS),
        ):
            for sign, bound in zip((">=", "<"), bounds, strict=True):
                if bound is not None:
                    most = _INT64 - 1 if unit == 1 else FARTHEST
                    found.append((column, sign, max(-most, min(bound, most)) * unit))
        return found

    def filters(self) -> dict[str, Any]:
        """For `filters` of a `Selection`."""
        found = {}
        for name, bounds in (("queue_offsets", self.offsets), ("store_times", self.times)):
            if bounds != (None, None):
                low, high = bounds
                found[name] = (
                    -_INT64 if low is None else max(low, -_INT64),
                    _INT64 - 1 if high is None else min(high, _INT64 - 1),
                )
        return found


def iceberg(conditions: Iterable[Condition]) -> Any:
    """An expression of pyiceberg, which leaves out files by partition and by their statistics."""
    from pyiceberg import expressions

    signs: Mapping[str, Callable[..., Any]] = {
        "in": expressions.In,
        ">=": expressions.GreaterThanOrEqual,
        "<": expressions.LessThan,
    }
    whole: Any = expressions.AlwaysTrue()
    for column, sign, value in conditions:
        whole = expressions.And(whole, signs[sign](column, value))
    return whole


def arrow(conditions: Iterable[Condition], schema: Any) -> Any:
    """An expression of pyarrow for columns of a schema; None without conditions."""
    import pyarrow
    import pyarrow.compute as pc

    whole = None
    for column, sign, value in conditions:
        kind = schema.field(column).type
        at = pc.field(column)
        if sign == "in":
            part = at.isin(pyarrow.array(value, kind))
        elif sign == ">=":
            part = at >= pyarrow.scalar(value, kind)
        else:
            part = at < pyarrow.scalar(value, kind)
        whole = part if whole is None else whole & part
    return whole


def mask(conditions: Iterable[Condition], batch: Any) -> Any:
    """Which rows of a batch hold, as a boolean array; None without conditions. Null does not."""
    import pyarrow
    import pyarrow.compute as pc

    whole = None
    for column, sign, value in conditions:
        values = batch.column(column)
        if sign == "in":
            part = pc.is_in(values, value_set=pyarrow.array(value, values.type))
        else:
            compare = pc.greater_equal if sign == ">=" else pc.less
            part = compare(values, pyarrow.scalar(value, values.type))
        whole = part if whole is None else pc.and_(whole, part)
    return whole
