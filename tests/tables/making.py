"""What the tests of tables share: a log with known messages, a catalog, and runs from one to the
other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyrmq.tables.catalog import Catalog, open_catalog
from pyrmq.tables.commit import Waiting
from pyrmq.tables.ends import Ends, ends_of
from pyrmq.tables.runs import Added
from pyrmq.tables.source import StoreSource
from pyrmq.tables.write import Run, create_table
from tests.segments.making import as_rows, put, small

TOPIC, TABLE = "orders", "mq.orders"
Row = tuple[str, int, int, bytes]
COLUMNS = ("brokerName", "queueId", "queueOffset", "body")
"""Of a Row."""


def impatient() -> Waiting:
    """Waits without sleeping, a few times."""
    left = [3]

    def sleep(seconds: float) -> bool:
        left[0] -= 1
        return left[0] < 0

    return Waiting(300.0, sleep)


@dataclass
class Log:
    """A store on disk and the rows that it holds of TOPIC."""

    root: Path
    rows: list[Row] = field(default_factory=list)

    @property
    def broker(self) -> str:
        return self.root.name

    def put(self, count: int, queues: int = 3, size: int = 10) -> None:
        """Adds messages to TOPIC, round robin, with others of another topic between them."""
        with small(self.root) as store:
            for number in range(count):
                queue = number % queues
                body = b"%d of %s" % (len(self.rows), self.root.name.encode())
                body = body.ljust(size, b".")
                offset = sum(1 for row in self.rows if row[1] == queue)
                put(store, TOPIC, queue, body, f"t{queue}", f"k{number}")
                put(store, "others", 0, b"not of this table")
                self.rows.append((self.broker, queue, offset, body))


@dataclass
class World:
    """A catalog in a folder, and logs."""

    folder: Path

    @property
    def catalog(self) -> Catalog:
        return open_catalog(str(self.folder / "catalog"), create=True)

    def log(self, name: str = "broker-a") -> Log:
        return Log(self.folder / name)

    def table(self) -> Any:
        return self.catalog.load(TABLE)

    def ends(self) -> Ends:
        found = ends_of(self.table())
        assert found is not None
        return found

    def files(self) -> set[str]:
        """Names of the Parquet files that are on the disk."""
        return {path.name for path in (self.folder / "catalog").rglob("*.parquet")}

    def referenced(self) -> set[str]:
        """Names of the data files of the current snapshot."""
        tasks = self.table().scan().plan_files()
        return {task.file.file_path.rpartition("/")[2] for task in tasks}


def source_of(*logs: Log, columns: tuple[str, ...] = (), **how: Any) -> StoreSource:
    from pyrmq.tables.schema import columns_of

    return StoreSource([str(log.root) for log in logs], TOPIC, columns_of(columns), **how)


def run_of(world: World, *logs: Log, catalog: Catalog | None = None, **how: Any) -> Run:
    """A run that is not started yet; the table is created."""
    run_how = {
        name: how.pop(name) for name in ("waiting", "stop", "commit_bytes", "change") if name in how
    }
    table_how = {name: how.pop(name) for name in ("partition", "codec") if name in how}
    found = source_of(*logs, **how)
    there = catalog or world.catalog
    create_table(there, TABLE, TOPIC, found.schema, **table_how)
    run_how.setdefault("waiting", impatient())
    return Run(there, TABLE, found, found.schema, **run_how)


def write(world: World, *logs: Log, **how: Any) -> Added:
    """Adds what the logs have and the table has not."""
    run = run_of(world, *logs, **how)
    run.catch_up()
    return run.added


def rows_of(world: World) -> list[Row]:
    """What the table has, as pyiceberg reads it."""
    return as_rows(world.table().scan(selected_fields=COLUMNS).to_arrow(), COLUMNS)


def check_same(world: World, *logs: Log) -> None:
    """Each message of the logs is in the table once, and nothing else is."""
    check_rows(rows_of(world), *logs)


def check_rows(found: Iterable[Row], *logs: Log) -> None:
    """Each message of the logs is there once, and nothing else is."""
    want = Counter(row for log in logs for row in log.rows)
    have = Counter(found)
    assert not want - have, f"missing: {sorted(want - have)[:5]}"
    assert not have - want, f"twice, or of nowhere: {sorted(have - want)[:5]}"
