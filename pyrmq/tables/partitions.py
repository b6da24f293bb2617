"""The partition of each row, and the order of rows by partition, broker, queue and offset."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any

from pyrmq.tables.errors import TableError, TableSchemaError

Part = tuple[Any, ...]
"""Values of the partition's fields."""
Key = tuple[Part, str, int]
"""Partition, broker and queue."""
MAX_FOLDER = 200
"""Characters of a partition's value in the name of a folder: file systems take 255 bytes."""
_SPAN = 1 << 62
_CALENDAR = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""Microseconds of the years 1 to 9999."""


@dataclass(frozen=True)
class Field:
    """A field of a partition."""

    name: str
    column: str
    transform: str

    def values(self, table: Any) -> Any:
        """Of each row, as a numpy array of integers or a pyarrow array of texts."""
        import numpy as np
        import pyarrow

        column = table.column(self.column)
        if self.transform == "identity":
            return column
        micros = column.cast(pyarrow.int64()).to_numpy()
        unit = 86_400_000_000 if self.transform == "day" else 3_600_000_000
        # A store may have any time. Engines, and pyiceberg at a commit, take years 1 to 9999.
        values = np.floor_divide(np.clip(micros, _CALENDAR[0], _CALENDAR[1]), unit)
        return pyarrow.chunked_array([pyarrow.array(values)])

    def shown(self, value: Any) -> str:
        """As the name of a folder. Two values may have one: files have names of their own."""
        from urllib.parse import quote

        if self.transform == "day":
            try:
                return date.fromordinal(value + date(1970, 1, 1).toordinal()).isoformat()
            except (ValueError, OverflowError):
                return str(value)
        text = quote(str(value), safe="")
        return text if len(text) <= MAX_FOLDER else re.sub("%.?$", "", text[:MAX_FOLDER])


def fields_of(table: Any) -> list[Field]:
    """The fields of a table's partition. TableSchemaError for one that is not of ours."""
    fields = []
    for field in table.spec().fields:
        column = table.schema().find_field(field.source_id).name
        transform = str(field.transform)
        known = transform == "identity" and column in ("brokerName", "queueId", "topic")
        if not known and not (transform in ("day", "hour") and column == "storeTimestamp"):
            raise TableSchemaError(
                f"table {'.'.join(table.name())} is partitioned by {transform} of {column}",
                "this job knows day and hour of storeTimestamp, queueId, brokerName and topic",
            )
        fields.append(Field(field.name, column, transform))
    return fields


def in_order(table: Any, fields: Sequence[Field]) -> tuple[Any, list[tuple[Key, int, int]]]:
    """The order of the rows by partition, broker, queue and offset (None: as they are), and the
    places of each key in that order."""
    import numpy as np

    columns = [field.values(table) for field in fields]
    columns += [table.column(name) for name in ("brokerName", "queueId")]
    keys = np.zeros(table.num_rows, "i8")
    dictionaries = []
    span = 1
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype("i8")
        words = encoded.dictionary.to_pylist()
        ranks = np.empty(len(words), "i8")
        ranks[sorted(range(len(words)), key=words.__getitem__)] = np.arange(len(words))
        dictionaries.append(sorted(words))
        span *= len(words)
        if span >= _SPAN:
            raise TableError("too many partitions in one commit", "partition by day and queue only")
        keys = keys * len(words) + ranks[codes]
    offsets = table.column("queueOffset").to_numpy()
    small = keys.astype("u2") if span <= 1 << 16 else keys
    order = np.argsort(small, kind="stable")
    there, sorted_keys = offsets[order], keys[order]
    if ((np.diff(there) < 0) & (np.diff(sorted_keys) == 0)).any():
        order = np.lexsort((offsets, keys))
        sorted_keys = keys[order]
    starts = [0, *(np.flatnonzero(np.diff(sorted_keys)) + 1).tolist(), table.num_rows]
    cuts = []
    for start, stop in pairwise(starts):
        number, values = int(sorted_keys[start]), []
        for words in reversed(dictionaries):
            number, at = divmod(number, len(words))
            values.append(words[at])
        queue, broker, *part = values
        cuts.append(((tuple(reversed(part)), broker, queue), start, stop))
    same = bool((order == np.arange(len(order))).all())
    return (None if same else order), cuts
