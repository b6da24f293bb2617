"""Files of the embedded catalog are on the disk before the catalog names them."""

from __future__ import annotations

import os

import pytest

from tests.tables.making import Log, World, check_same, write
from tests.tables.syncs import record_syncs


def test_each_file_and_its_folder_is_synced_before_the_commit(
    world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    written = SqlCatalog._write_metadata
    names: list[str] = []

    def metadata(*args: object, **named: object) -> None:
        written(*args, **named)  # type: ignore[arg-type]
        names.extend(map(str, (world.folder / "catalog" / "warehouse").rglob("*.*")))
        assert set(names) <= set(synced)
        assert {os.path.dirname(name) for name in names} <= set(synced)

    synced = record_syncs(monkeypatch)
    monkeypatch.setattr(SqlCatalog, "_write_metadata", staticmethod(metadata))
    write(world, log, partition=("day", "queue"))
    log.put(3)
    write(world, log)
    kinds = {name.rpartition(".")[2] for name in names}
    assert {"json", "avro", "parquet"} <= kinds
    check_same(world, log)
