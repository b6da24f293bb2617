"""All options of `format("rocketmq")`, of reads and writes: the engine's table.

The rules of jobs, the names in errors and the table of docs/spark.md use it.
"""

from __future__ import annotations

from typing import Any

from pyrmq.engine import scan_option_rows
from spark_ext.option import Option, Query


def _option(row: dict[str, Any]) -> Option:
    where, required = (frozenset(map(Query, row.pop(name))) for name in ("where", "required"))
    return Option(where=where, required=required, **row)


OPTIONS: tuple[Option, ...] = tuple(map(_option, scan_option_rows()))

TABLE: dict[str, Option] = {option.name.lower(): option for option in OPTIONS}
"""By name in lower case, as Spark gives names."""

GROUPS: dict[str, tuple[str, ...]] = {
    group: tuple(o.name for o in OPTIONS if o.group == group)
    for group in dict.fromkeys(o.group for o in OPTIONS if o.group)
}
"""Groups of options; a query takes one option of each."""

SELECTING: tuple[str, ...] = tuple(option.name for option in OPTIONS if option.selects)
"""Options that select messages."""

SECRETS: tuple[str, ...] = tuple(option.name for option in OPTIONS if option.secret)
"""Options whose values are shown and kept nowhere."""

NAME_OF: dict[str, str] = {o.parameter: o.name for o in OPTIONS if o.parameter}
"""The option that sets each parameter of `pyrmq.segments`."""
