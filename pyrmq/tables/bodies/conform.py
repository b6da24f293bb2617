"""Columns as a table has them: wider types, other order, null where there is nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow


def conform(array: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    """The values in another type, whose fields are those of the array and others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        there = dict(zip((one.name for one in array.type), array.flatten(), strict=True))
        columns = [
            conform(there[one.name], one.type)
            if one.name in there
            else pa.nulls(len(array), one.type)
            for one in kind
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        if array.offset:
            array = pa.concat_arrays([array, array.slice(0, 0)])
        mask = array.is_null() if array.null_count else None
        if pa.types.is_list(kind):
            values = conform(array.values, kind.value_type)
            return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=mask)
        items = conform(array.items, kind.item_type)
        return pa.MapArray.from_arrays(array.offsets, array.keys, items, type=kind, mask=mask)
    return pc.cast(array, kind)
