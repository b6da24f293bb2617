"""Tables with a few messages, made by pyiceberg alone: what upkeep finds."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyrmq.tables.catalog import Catalog, open_catalog
from pyrmq.tables.ends import COMMIT, ENDS, TOPIC, Anchor, Ends, QueueEnd
from pyrmq.tables.parquet import Writer
from pyrmq.tables.schema import iceberg_schema, message_schema, partition_spec

NAME = "mq.orders"
DAY = datetime(2026, 11, 28, tzinfo=UTC)


_NO_STATISTICS = {
    f"write.metadata.metrics.column.{column}": "none"
    for column in ("body", "properties.key", "properties.value")
}


def catalog_in(folder: Path) -> Catalog:
    # Without the syncs of files: they take most of the time of a test.
    fast = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
    return open_catalog(str(folder), fast, create=True)


def new_table(
    catalog: Catalog, partition: Sequence[str] = ("day",), name: str = NAME, **properties: str
) -> Any:
    schema = iceberg_schema(message_schema())
    return catalog.create(
        name,
        schema,
        partition_spec=partition_spec(partition, schema),
        properties={TOPIC: "orders", **_NO_STATISTICS, **properties},
    )


def loaded(folder: Path) -> Any:
    """The table of `new_table` as another process finds it."""
    return catalog_in(folder).load(NAME)


def rows(
    offsets: Iterable[int],
    queues: Sequence[int] = (0, 1),
    brokers: Sequence[str] = ("a",),
    day: int = 0,
    body: int = 20,
) -> pa.RecordBatch:
    """Messages at these offsets in each queue, sorted."""
    places = [(b, q, o) for b in brokers for q in queues for o in offsets]
    time = DAY + timedelta(days=day)
    found = [
        {
            "topic": "orders",
            "brokerName": broker,
            "queueId": queue,
            "queueOffset": offset,
            "commitLogOffset": 1000 * offset + queue,
            "storeTimestamp": time + timedelta(milliseconds=offset),
            "bornTimestamp": time,
            "tags": f"T{offset % 3}",
            "keys": f"k{queue}-{offset}",
            "flag": 0,
            "body": f"{broker}/{queue}/{offset}/".encode().ljust(body, b"."),
            "properties": [("n", str(offset)), ("empty", "")] if offset % 2 else [],
        }
        for broker, queue, offset in places
    ]
    return pa.RecordBatch.from_pylist(found, schema=message_schema())


def add(table: Any, batch: pa.RecordBatch, ends: str | None = "") -> None:
    """Appends a file of ours with the rows, as a write commits it; `ends`: of the summary."""
    commit = str(uuid.uuid4())
    writer = Writer(table, batch.schema, commit)
    writer.write(batch)
    files = writer.close()
    summary = {} if ends is None else {ENDS: ends or ends_after(table, batch), COMMIT: commit}
    with table.transaction() as change:
        with change.update_snapshot(snapshot_properties=summary).fast_append() as append:
            for file in files:
                append.append_data_file(file)
        if summary:
            change.set_properties(summary)


def add_runs(table: Any, count: int) -> None:
    """So many runs of ten offsets in two queues."""
    for run in range(count):
        add(table, rows(range(10 * run, 10 * run + 10)))


def ends_after(table: Any, batch: pa.RecordBatch) -> str:
    """The ends of a table when a batch is in it, whose offsets continue."""
    brokers: dict[str, dict[int, QueueEnd]] = {}
    for row in batch.select(
        ["brokerName", "queueId", "queueOffset", "commitLogOffset"]
    ).to_pylist():
        queues = brokers.setdefault(row["brokerName"], {})
        last = Anchor(row["queueOffset"], row["commitLogOffset"], 1)
        queues[row["queueId"]] = QueueEnd(0, row["queueOffset"] + 1, last)
    return Ends("orders", brokers).to_json()


def content(table: Any) -> list[dict[str, Any]]:
    """All rows, by broker, queue and offset."""
    table.refresh()
    found: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row["brokerName"], row["queueId"], row["queueOffset"]))


def paths(table: Any) -> list[str]:
    """Data files of the current snapshot."""
    table.refresh()
    return sorted(task.file.file_path.removeprefix("file://") for task in table.scan().plan_files())


def files_in(folder: Path, ending: str = ".parquet") -> set[str]:
    """All files below a folder."""
    return {str(path) for path in folder.rglob(f"*{ending}")}
