"""Queries that are killed and started again while the log grows: no gap and no repeat.

PYRMQ_SPARK_ROUNDS: how many kills; a JVM starts in each. PYRMQ_SEED: of the moments.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.thorough import seeds, size

from .query import Query, sink_rows, start
from .writer import Writer, number_of, place_of

ROUNDS = size("PYRMQ_SPARK_ROUNDS", 1, 50)
PER_SECOND = 500


def assert_is_the_log(rows: list[dict[str, object]], count: int) -> None:
    """The messages 0 to count - 1 of the writer, each once and in its place."""
    numbers = [number_of(row["body"]) for row in rows]  # type: ignore[arg-type]
    repeats = len(numbers) - len(set(numbers))
    gaps = sorted(set(range(count)) - set(numbers))
    assert not repeats, f"{repeats} rows twice"
    assert not gaps, f"{len(gaps)} of {count} rows missing, the first is {gaps[0]}"
    assert numbers == list(range(count))
    for number, row in enumerate(rows):
        assert (row["topic"], row["queueId"], row["queueOffset"]) == place_of(number)


@pytest.mark.slow
@pytest.mark.both_readers
@pytest.mark.thorough("a JVM for each life; test_stream_restart ends queries in one")
@pytest.mark.parametrize("seed", seeds("spark-stream-kill"))
def test_killed_and_restarted(spark: SparkSession, reader: str, tmp_path: Path, seed: int):
    """The driver and its JVM die by SIGKILL at random moments of their work. The last run, which
    reads the rest, is one of this process."""
    chance = random.Random(seed)
    store, out = tmp_path / "store", tmp_path / "out"
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 3000}
    with Writer(store, 10_000_000, PER_SECOND) as writer:
        for _ in range(ROUNDS):
            with Query(store, out, "always", reader, **options) as query:
                query.wait_for("batch" if chance.random() < 0.8 else "started")
                time.sleep(chance.uniform(0, 1.5))  # the moment of the kill
                query.kill()
            assert writer.running
        total = writer.stop()
    assert len(list((store / "commitlog").iterdir())) > 2 + ROUNDS // 2
    assert start(spark, str(store), out, "now", options).awaitTermination(300)
    assert_is_the_log(sink_rows(out / "sink"), total)
