"""Measures the reader in Spark's JVM beside the Python source and Parquet, as people write SQL.

    python -m benches.spark.jvm [--size 1073741824] [--rounds 5] [--kinds 1K,100B] [--json FILE]

No query names columns or repeats a filter as an option. Every round runs each reader of each query
once; which reader is first changes from round to round. The first round is a warm-up. A ratio is
Parquet's time divided by the reader's, within a round: above 1 is faster than Parquet.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import spark_ext
from benches.release_build import require_release_build
from benches.spark import data
from benches.spark.logs import TAGS, TOPICS, write_log

QUEUES = 8
"""Of each of the eight topics: 64 in all."""
PYTHON, JVM, PARQUET = "python", "jvm", "parquet"

TARGETS: dict[str, dict[str, float]] = {
    "default scan": {"1K": 3, "100B": 1.3},
    "count and sum(bodyLength) by topic and queue": {"1K": 1.2, "100B": 1},
    "sum(length(body))": {"1K": 4, "100B": 2},
    "one tag of eight": {"1K": 3.5, "100B": 1.6},
    "count(*) of a topic": {"1K": 1, "100B": 1},
    "one queue of 64": {"1K": 10, "100B": 5},
}
"""What the JVM reader is to reach, as a part of Parquet's rate."""

Query = Callable[[Any], Any]


def _sink(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _sizes(frame: Any) -> Any:
    from pyspark.sql import functions as f

    return frame.groupBy("topic", "queueId").agg(f.count("*"), f.sum("bodyLength")).collect()


def _bodies(frame: Any) -> Any:
    from pyspark.sql import functions as f

    return frame.agg(f.sum(f.length("body"))).collect()


def _tagged(frame: Any) -> Any:
    from pyspark.sql import functions as f

    return frame.where(f"tags = '{TAGS[1]}'").agg(f.count("*"), f.sum(f.length("body"))).collect()


def _count(frame: Any) -> Any:
    return frame.where(f"topic = '{TOPICS[3]}'").count()


def _queue(frame: Any) -> None:
    _sink(frame.where(f"topic = '{TOPICS[3]}' and queueId = 1"))


QUERIES: dict[str, Query] = {
    "default scan": _sink,
    "count and sum(bodyLength) by topic and queue": _sizes,
    "sum(length(body))": _bodies,
    "one tag of eight": _tagged,
    "count(*) of a topic": _count,
    "one queue of 64": _queue,
}


def session(master: str = "local[2]") -> Any:
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master(master)
        .appName("benches")
        .config("spark.driver.memory", "6g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.adaptive.enabled", "false")
    )
    return spark_ext.session(builder, reader="jvm")


class Frames:
    """The same rows for each reader."""

    def __init__(self, spark: Any, store: Path, *, parquet: bool = True) -> None:
        self.spark, self.store = spark, store
        self.parquet = data.parquet(spark, store) if parquet else None

    def of(self, reader: str, query: str) -> Any:
        if reader == PARQUET:
            names = [*data.DEFAULT] if query == "default scan" else [*data.DEFAULT, "bodyLength"]
            return self.spark.read.parquet(str(self.parquet)).select(*names)
        chosen = self.spark.read.format("rocketmq").option("reader", reader)
        if "bodyLength" in query:  # no default column: without names Python cannot give it
            if reader == JVM:
                chosen = chosen.option("columns", "*")
            else:
                chosen = chosen.option("columns", "topic,queueId,bodyLength")
        return chosen.load(str(self.store))


def measure(frames: Frames, rounds: int, readers: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Seconds of each query by each reader; a warm-up round is not in it. Raises AssertionError if
    two readers answer differently."""
    seconds = {query: {reader: [] for reader in readers} for query in QUERIES}  # type: ignore[var-annotated]
    for turn in range(rounds + 1):
        for query, run in QUERIES.items():
            answers = {}
            for reader in _rotated(readers, turn):
                began = time.perf_counter()
                found = run(frames.of(reader, query))
                took = time.perf_counter() - began
                answers[reader] = sorted(map(tuple, found)) if isinstance(found, list) else found
                if turn:
                    seconds[query][reader].append(took)
            one = next(iter(answers.values()))
            assert all(answer == one for answer in answers.values()), query
    return seconds


def _rotated(readers: tuple[str, ...], turn: int) -> tuple[str, ...]:
    at = turn % len(readers)
    return readers[at:] + readers[:at]


def report(kind: str, seconds: dict[str, dict[str, Any]], rounds: int) -> dict[str, Any]:
    print(f"\n{kind} bodies, {rounds} rounds; Parquet's time / the reader's: median (range)")
    out: dict[str, Any] = {}
    for query, by_reader in seconds.items():
        line = f"  {query:46}"
        for reader in (JVM, PYTHON):
            pairs = zip(by_reader[PARQUET], by_reader.get(reader, []), strict=False)
            each = [parquet / own for parquet, own in pairs]
            if each:
                out[f"{query}, {reader}"] = [median(each), min(each), max(each)]
                line += f" {reader} {median(each):6.2f} ({min(each):.2f} to {max(each):.2f})"
        print(f"{line}  aim {TARGETS[query][kind]}")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.spark.jvm")
    parser.add_argument("--size", type=int, default=1 << 30, help="bytes of log")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", default="1K,100B")
    parser.add_argument("--readers", default=f"{PARQUET},{JVM},{PYTHON}")
    parser.add_argument("--folder", type=Path, help="keep the logs here (default: a temporary one)")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    root = given.folder or Path(tempfile.mkdtemp(prefix="pyrmq-bench-"))
    root.mkdir(parents=True, exist_ok=True)
    spark = session()
    results: dict[str, Any] = {}
    try:
        for kind in given.kinds.split(","):
            store = write_log(root, kind, given.size, queues=QUEUES)
            readers = tuple(given.readers.split(","))
            seconds = measure(Frames(spark, store), given.rounds, readers)
            results[kind] = {
                "seconds": seconds,
                "ratios": report(kind, seconds, given.rounds),
            }
    finally:
        spark.stop()
        if given.folder is None:
            shutil.rmtree(root)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    require_release_build()
    main()
