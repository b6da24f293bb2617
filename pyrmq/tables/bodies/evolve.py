"""Changes the columns of a table to what a schema of bodies needs, as far as Iceberg allows it.

Columns are added, `int` becomes `long`, `float` becomes `double`, decimals get more digits,
required columns become optional. A table that has the wider type already keeps it, and a column
that the schema does not have any more stays, with null in new rows. Everything else is an error
that names the column.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyrmq.tables.bodies import kinds
from pyrmq.tables.bodies.kinds import Field, Kind, Many, Named, Plain, Record
from pyrmq.tables.catalog import Catalog
from pyrmq.tables.errors import TableConflictError, TableSchemaError

RACES = 10
"""Commits of others that a change of columns gives way to."""
_PLAIN = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "uuid": "string",
    "binary": "binary",
    "date": "date",
    "time": "time",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
}
_WIDER = {("int", "long"), ("float", "double")}


@dataclass(frozen=True)
class Change:
    """A change of a column."""

    path: tuple[str, ...]
    text: str
    """What it is, in one line."""
    apply: Callable[[Any], Any]
    """Takes pyiceberg's UpdateSchema."""


def evolve(
    catalog: Catalog, name: str, fields: Sequence[Field], properties: Mapping[str, str]
) -> tuple[Any, list[str]]:
    """Brings the columns and the properties of a table to what is wanted, in one commit, and
    returns the table and what was changed. TableSchemaError if Iceberg does not allow it."""
    from pyiceberg.exceptions import CommitFailedException

    for _ in range(RACES):
        table = catalog.load(name)
        changes = list(needed(table.schema(), fields, name))
        new = {key: text for key, text in properties.items() if table.properties.get(key) != text}
        if not changes and not new:
            return table, []
        with catalog.errors(f"the columns of table {name} cannot be changed"):
            try:
                with table.transaction() as transaction:
                    if changes:
                        with transaction.update_schema() as update:
                            for change in changes:
                                change.apply(update)
                    if new:
                        transaction.set_properties(new)
            except CommitFailedException:
                continue
        return table, [change.text for change in changes]
    raise TableConflictError(
        f"the columns of table {name} were changed {RACES} times in between", "run again"
    )


def needed(schema: Any, fields: Sequence[Field], table: str) -> Iterator[Change]:
    """The changes that make a schema of Iceberg take these columns."""
    yield from _struct(schema.as_struct(), fields, (), table)


def kind_of(kind: Any) -> Kind:
    """The kind of a type of Iceberg. ValueError for one that no body has."""
    from pyiceberg import types

    if isinstance(kind, types.StructType):
        return Record(tuple(Field(one.name, kind_of(one.field_type)) for one in kind.fields))
    if isinstance(kind, types.ListType):
        return Many(kind_of(kind.element_type))
    if isinstance(kind, types.MapType) and isinstance(kind.key_type, types.StringType):
        return Named(kind_of(kind.value_type))
    if isinstance(kind, types.DecimalType):
        return Plain(f"decimal({kind.precision},{kind.scale})")
    name = _PLAIN.get(str(kind))
    if name is None or isinstance(kind, types.MapType):
        raise ValueError(f"{kind} is not a type of bodies")
    return Plain(name)


def _struct(
    there: Any, wanted: Sequence[Field], path: tuple[str, ...], table: str
) -> Iterator[Change]:
    known = {one.name: one for one in there.fields}
    twins = {one.name.lower(): one.name for one in there.fields}
    for field in wanted:
        at = (*path, field.name)
        old = known.get(field.name)
        if old is not None:
            yield from _field(old.field_type, old.required, field.kind, at, table)
            continue
        twin = twins.get(field.name.lower())
        if twin is not None:
            raise TableSchemaError(
                f"table {table} has the column {kinds.shown((*path, twin))}, and the schema has "
                f"{kinds.shown(at)}: Spark compares names without case",
                "write the field as the table has it, or give it another name",
            )
        yield _add(at, field.kind)


def _field(
    old: Any, required: bool, new: Kind, path: tuple[str, ...], table: str
) -> Iterator[Change]:
    if required:
        yield Change(
            path,
            f"column {kinds.shown(path)} is optional",
            lambda update: update.make_column_optional(path),
        )
    yield from _type(old, new, path, table)


def _type(old: Any, new: Kind, path: tuple[str, ...], table: str) -> Iterator[Change]:
    from pyiceberg import types

    if isinstance(old, types.StructType) and isinstance(new, Record):
        yield from _struct(old, new.fields, path, table)
        return
    if isinstance(old, types.ListType) and isinstance(new, Many):
        at = (*path, "element")
        yield from _field(old.element_type, old.element_required, new.item, at, table)
        return
    if isinstance(old, types.MapType) and isinstance(new, Named):
        at = (*path, "value")
        yield from _field(old.value_type, old.value_required, new.value, at, table)
        return
    try:
        now = kind_of(old)
    except ValueError:
        now = None
    if isinstance(now, Plain) and isinstance(new, Plain):
        if _takes(now, new):
            return
        if _takes(new, now):
            kind = kinds.iceberg_type(new, lambda: 0)
            yield Change(
                path,
                f"column {kinds.shown(path)}: {now.name} is {new.name}",
                lambda update: update.update_column(path, field_type=kind),
            )
            return
    shown = new.name if isinstance(new, Plain) else kinds.iceberg_type(new, _ids())
    raise TableSchemaError(
        f"column {kinds.shown(path)} of table {table} is {old}, and the schema makes it "
        f"{shown}, which Iceberg does not allow",
        "give the field another name in the schema, or write another table",
    )


def _takes(wide: Plain, narrow: Plain) -> bool:
    """Whether a column of one kind takes all values of the other."""
    if _stored(wide) == _stored(narrow) or (narrow.name, wide.name) in _WIDER:
        return True
    a, b = wide.decimal(), narrow.decimal()
    return a is not None and b is not None and a[1] == b[1] and a[0] >= b[0]


def _stored(kind: Plain) -> str:
    return "string" if kind.name == "json" else kind.name


def _add(path: tuple[str, ...], kind: Kind) -> Change:
    column = kinds.iceberg_type(kind, _ids())
    text = f"column {kinds.shown(path)} is new"
    return Change(path, text, lambda update: update.add_column(path, column))


def _ids() -> Callable[[], int]:
    """Ids that Iceberg replaces."""
    numbers = itertools.count(1)
    return lambda: next(numbers)
