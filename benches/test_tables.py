"""A topic into an Iceberg table, beside the archive job and beside Parquet alone."""

from __future__ import annotations

import itertools
import resource
from pathlib import Path

import pytest

from benches.spark.logs import TOPICS, write_log
from benches.stores import FULL
from pyrmq import scan
from pyrmq.tables.catalog import open_catalog
from pyrmq.tables.schema import columns_of
from pyrmq.tables.source import StoreSource
from pyrmq.tables.write import Run, create_table
from spark_ext.jobs import archive_local
from spark_ext.jobs.archive_manifest import Head

SIZE = 1 << (30 if FULL else 27)
TOPIC = TOPICS[0]
COLUMNS = columns_of()


class Bench:
    """One log of one topic; each write goes to a folder of its own."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.root = write_log(folder, kind, SIZE, topics=1)
        self._fresh = (folder / f"out-{n}" for n in itertools.count())
        self.rows = 0

    def table(self, codec: str = "snappy", partition: tuple[str, ...] = ("day",)) -> None:
        catalog = open_catalog(str(next(self._fresh)), create=True)
        source = StoreSource([str(self.root)], TOPIC, COLUMNS)
        create_table(catalog, "mq.t", TOPIC, source.schema, codec=codec, partition=partition)
        run = Run(catalog, "mq.t", source, source.schema)
        run.catch_up()
        self.rows = run.added.rows

    def archive(self) -> None:
        options = {"subscribe": TOPIC, "startingOffsets": "earliest"}
        stream = archive_local.Stream(options, [str(self.root)], COLUMNS)
        archive_local.archive_stream(stream, str(next(self._fresh)), Head(options, COLUMNS))


@pytest.fixture
def bench(folder: Path, kind: str) -> Bench:
    return Bench(folder, kind)


@pytest.mark.parametrize("kind", ["1K", "100B"])
@pytest.mark.benchmark(group=f"Iceberg table beside the archive, {SIZE >> 20} MiB of log")
def test_beside_archive(bench: Bench, paired, report) -> None:
    result = paired(bench.table, bench.archive, rounds=5)
    report(
        f"{result.speed:.2f} of archive, {result.cpu_ns(bench.rows):.0f} ns of CPU a row", ">= 0.7"
    )


@pytest.mark.parametrize("kind", ["1K", "100B"])
@pytest.mark.benchmark(group=f"Iceberg table beside Parquet alone, {SIZE >> 20} MiB of log")
def test_beside_parquet(bench: Bench, paired, report, folder: Path) -> None:
    """The yardstick reads the same rows of the log and writes them, in its order, to one file."""
    from pyarrow.parquet import ParquetWriter

    def plain() -> None:
        rows = scan(
            bench.root, topic=TOPIC, columns=COLUMNS, batch_rows=100_000, batch_bytes=32 << 20
        )
        reader = rows.to_reader()
        with ParquetWriter(folder / "plain.parquet", reader.schema, compression="snappy") as writer:
            for batch in reader:
                writer.write_batch(batch)

    result = paired(bench.table, plain, rounds=5)
    report(f"{result.speed:.2f} of scan and Parquet", ">= 0.6")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report(f"{most:.0f} MiB of memory at most", "<= 1024")


@pytest.mark.parametrize("kind", ["1K"])
@pytest.mark.benchmark(group=f"Iceberg table by codec, {SIZE >> 20} MiB of log")
def test_zstd_beside_snappy(bench: Bench, paired, report) -> None:
    result = paired(lambda: bench.table("zstd"), bench.table, rounds=3)
    report(f"zstd {result.speed:.2f} of snappy")
