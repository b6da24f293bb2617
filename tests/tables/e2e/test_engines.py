"""Other engines read the tables: each row, also after a compaction."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyrmq.tables.compact import compact
from tests.segments.making import as_rows
from tests.tables.making import COLUMNS, Log, World, write

DUCKDB = "1.5.5"
"""A version of which PyPI has the extension iceberg as a package."""
PROGRAM = """
import importlib.util, sys, duckdb
path, where = sys.argv[1:]
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for name in ("avro", "iceberg"):
    package = importlib.util.find_spec(f"duckdb_extension_{name}").submodule_search_locations[0]
    file = f"{package}/extensions/v{duckdb.__version__}/{name}.duckdb_extension"
    connection.execute(f"LOAD '{file}'")
query = f"SELECT brokerName, queueId, queueOffset, body FROM iceberg_scan('{path}') {where}"
for broker, queue, offset, body in connection.execute(query).fetchall():
    print(broker, queue, offset, body.hex())
"""


@pytest.fixture
def table(world: World, log: Log) -> Any:
    """Runs, a compaction, and one more run, by day and queue."""
    for _ in range(4):
        write(world, log, partition=("day", "queue"))
        log.put(30)
    write(world, log)
    compact(world.table(), files=2)
    log.put(30)
    write(world, log)
    return world.table()


def _same(found: pa.Table, log: Log, queue: int | None = None) -> None:
    rows = as_rows(found, COLUMNS)
    want = [row for row in log.rows if queue is None or row[1] == queue]
    assert Counter((b, q, o, bytes(body)) for b, q, o, body in rows) == Counter(want)


def test_pyiceberg(table: Any, log: Log) -> None:
    _same(table.scan().to_arrow(), log)
    _same(table.scan("queueId = 1").to_arrow(), log, 1)


def test_polars(table: Any, log: Log) -> None:
    import polars as pl

    lazy = pl.scan_iceberg(table)
    _same(lazy.select(COLUMNS).collect().to_arrow(), log)
    _same(lazy.filter(pl.col("queueId") == 1).select(COLUMNS).collect().to_arrow(), log, 1)
    first = lazy.filter(pl.col("queueOffset") == 0).select("properties").collect()
    found = [pair for row in first["properties"].to_list() for pair in row]
    assert {"key": "TAGS", "value": "t1"} in found


def test_duckdb_by_arrow(table: Any, log: Log) -> None:
    connection = table.scan().to_duckdb("orders")
    _same(connection.sql("SELECT * FROM orders").to_arrow_table(), log)
    assert connection.sql("SELECT count(DISTINCT properties['KEYS']) FROM orders").fetchone()


@pytest.mark.thorough("installs a version of DuckDB whose extension is on PyPI")
def test_the_iceberg_extension_of_duckdb(table: Any, log: Log) -> None:
    """DuckDB downloads extensions from a server of its own, which a test may not reach. PyPI has
    them for some versions."""
    path = table.metadata_location.removeprefix("file://")
    for where, queue in (("", None), ("WHERE queueId = 1", 1)):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, path, where],
            env={"PYTHONPATH": str(_duckdb())},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        words = [line.split(" ") for line in done.stdout.splitlines()]
        found = Counter((b, int(q), int(o), bytes.fromhex(body)) for b, q, o, body in words)
        want = [row for row in log.rows if queue is None or row[1] == queue]
        assert found == Counter(want)


def _duckdb() -> Path:
    folder = Path(__file__).parents[3] / "build" / f"duckdb-{DUCKDB}"
    if not (folder / "ready").is_file():
        packages = ["duckdb", "duckdb-extension-avro", "duckdb-extension-iceberg"]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        subprocess.run([*command, str(folder), *(f"{p}=={DUCKDB}" for p in packages)], check=True)
        (folder / "ready").touch()
    return folder
