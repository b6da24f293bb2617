"""A topic's table with the log behind it, beside the table alone."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import pyarrow.compute as pc
import pytest

from benches.stores import FULL
from pyrmq.engine import Store
from pyrmq.tables import history, stored
from pyrmq.tables.catalog import Catalog, open_catalog
from pyrmq.tables.commit import Waiting
from pyrmq.tables.history import TableScan
from pyrmq.tables.rows import Rows
from pyrmq.tables.schema import columns_of
from pyrmq.tables.source import StoreSource
from pyrmq.tables.write import Run, create_table

HISTORY = 5_000_000 if FULL else 200_000
TAIL = HISTORY // 20
NAME = "mq.orders"
QUERIES = {
    "sum of a narrow column": ("queueOffset", "storeTimestamp", "tags"),
    "all columns": (),
}


def _put(store: Store, first: int, count: int) -> None:
    for number in range(first, first + count):
        body = (b'{"n":%d,' % number) + b"%x" % (number * 0x9E3779B97F4A7C15 % 2**64) * 60
        properties = f"TAGS\x01tag-{number % 8}\x02KEYS\x01order-{number}\x02"
        store.put("orders", number % 8, body, properties, born_timestamp=number)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Catalog]:
    """A store, and a table of all but its last messages."""
    folder = tmp_path_factory.mktemp("tail")
    root = folder / "broker-a"
    store = Store(root, commit_log_file_size=1 << 28, index_enable=False)
    _put(store, 0, HISTORY)
    store.close()
    catalog = open_catalog(str(folder / "catalog"), create=True)
    source = StoreSource([str(root)], "orders", columns_of())
    source.pin()
    create_table(catalog, NAME, "orders", source.schema)
    Run(catalog, NAME, source, source.schema, waiting=Waiting()).catch_up()
    store = Store(root, commit_log_file_size=1 << 28, index_enable=False)
    _put(store, HISTORY, TAIL)
    store.close()
    return root, catalog


def _rows(scan: TableScan) -> int:
    rows = total = 0
    for batch in scan.to_reader():
        rows += batch.num_rows
        total += pc.sum(batch.column("queueOffset")).as_py()
    assert total
    return rows


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.benchmark(group=f"{HISTORY:,} messages of a table and {TAIL:,} of the log")
def test_history_and_tail(query, paired, report, made) -> None:
    root, catalog = made
    columns = QUERIES[query]

    def whole() -> None:
        assert _rows(history.table(NAME, root, catalog=catalog, columns=columns)) == HISTORY + TAIL

    def alone() -> None:
        pinned = history.pin(catalog, NAME)
        schema = pinned.schema(columns)
        parts = stored.parts(pinned.iceberg, Rows(), schema)
        assert _rows(TableScan(pinned, schema, parts)) == HISTORY

    result = paired(whole, alone, rounds=5)
    work, yard = median(result.work), median(result.yard)
    report(f"{work:.3f} s, the table alone {yard:.3f} s", "<= 1.2 of it + 0.3 s")
    report(f"{work / yard:.2f} of the table alone for {1 + TAIL / HISTORY:.2f} of its rows")
    began = time.perf_counter()
    fields = {"selected_fields": columns} if columns else {}
    for batch in catalog.load(NAME).scan(**fields).to_arrow_batch_reader():
        pc.sum(batch.column("queueOffset")).as_py()
    report(f"pyiceberg alone {time.perf_counter() - began:.3f} s")
