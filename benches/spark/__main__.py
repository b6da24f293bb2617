"""Measures reading raw segments with Spark beside Parquet, in turns.

    python -m benches.spark [--size 1073741824] [--rounds 5] [--kinds 1K,100B] [--json FILE]

Every round runs each case once, in the same order; the first round is a warm-up and does not count.
Ratios are taken within a round and their median is shown with the lowest and highest.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benches.release_build import require_release_build
from benches.spark import data
from benches.spark.logs import TAGS, TOPICS, write_log

Case = Callable[[], object]


def session() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[2]")
        .appName("benches")
        .config("spark.driver.memory", "6g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.adaptive.enabled", "false")
        .getOrCreate()
    )


def sink(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


class Cases:
    """What is run for one kind of log; each case by its name."""

    def __init__(self, spark: Any, root: Path, kind: str, size: int) -> None:
        self.spark, self.root, self.kind = spark, root, kind
        self.store = write_log(root, kind, size)
        self.segments = data.ten_segments(root, kind, size)
        self.parquet = data.parquet(spark, self.store)
        self.middle = self._middle_segment()

    def read(self, *columns: str, store: Path | None = None, **options: str) -> Any:
        reader = self.spark.read.format("rocketmq")
        reader = reader.option("columns", ",".join(columns or data.COLUMNS))
        if "properties" in (columns or data.COLUMNS):
            reader = reader.option("properties", "map")
        return reader.options(**options).load(str(store or self.store))

    def parquet_of(self, *columns: str) -> Any:
        return self.spark.read.parquet(str(self.parquet)).select(*(columns or data.COLUMNS))

    def _middle_segment(self) -> tuple[int, int]:
        """Store times that the fifth of the ten segments spans."""
        from pyrmq.engine import segment_times

        files = sorted((self.segments / "commitlog").glob("0*"))
        rows = [(int(f.name), f.stat().st_size, str(f)) for f in files]
        times = segment_times(rows)
        first, after = times[4], times[5]
        assert first
        assert after
        return first[0], after[0]

    def aggregate(self, frame: Any) -> None:
        from pyspark.sql import functions as f

        groups = frame.groupBy("topic", "queueId")
        groups.agg(f.count("*"), f.sum(f.length("body"))).collect()

    def sizes(self, frame: Any) -> None:
        from pyspark.sql import functions as f

        frame.groupBy("topic", "queueId").agg(f.count("*"), f.sum("bodyLength")).collect()

    def summed(self, frame: Any) -> None:
        from pyspark.sql import functions as f

        frame.agg(f.sum(f.length("body"))).collect()

    def tagged(self, frame: Any) -> None:
        from pyspark.sql import functions as f

        frame.agg(f.count("*"), f.sum(f.length("body"))).collect()

    def cases(self) -> dict[str, Case]:
        start, end = map(str, self.middle)
        queue = json.dumps({TOPICS[3]: {self.store.name: [1]}})
        few = ("topic", "queueId", "body")
        sizes = ("topic", "queueId", "bodyLength")
        return {
            "default scan": lambda: sink(self.spark.read.format("rocketmq").load(str(self.store))),
            "default scan, Parquet": lambda: sink(self.parquet_of(*data.DEFAULT)),
            "sizes by queue": lambda: self.sizes(self.read(*sizes)),
            "sizes by queue, Parquet": lambda: self.sizes(self.parquet_of(*sizes)),
            "sum of bodies": lambda: self.summed(self.read("body")),
            "sum of bodies, Parquet": lambda: self.summed(self.parquet_of("body")),
            "sum of bodies, unnamed": lambda: self.summed(
                self.spark.read.format("rocketmq").load(str(self.store))
            ),
            "scan": lambda: sink(self.read()),
            "scan, Parquet": lambda: sink(self.parquet_of()),
            "group": lambda: self.aggregate(self.read(*few)),
            "group, Parquet": lambda: self.aggregate(self.parquet_of(*few)),
            "one column, count": lambda: self.read("queueId").count(),
            "tag": lambda: self.tagged(self.read("tags", "body", subExpression=TAGS[1])),
            "tag, scan": lambda: sink(self.read(subExpression=TAGS[1])),
            "tag, Parquet": lambda: self.tagged(
                self.parquet_of("tags", "body").where(f"tags = '{TAGS[1]}'")
            ),
            "time, one of ten": lambda: sink(
                self.read(store=self.segments, startingTimestamp=start, endingTimestamp=end)
            ),
            "ten segments": lambda: sink(self.read(store=self.segments)),
            "queue by index": lambda: sink(self.read(assign=queue)),
            "topic by scan": lambda: sink(self.read(subscribe=TOPICS[3], plan="scan")),
            "tuples, count": self._tuples,
            "count": lambda: self.read().count(),
            "archive": self._archive,
            "scan to Parquet by Spark": self._to_parquet,
        }

    def _tuples(self) -> None:
        from benches.spark.tuples import TupleSource

        self.spark.dataSource.register(TupleSource)
        self.spark.read.format("tuples").load(str(self.store)).count()

    def _to_parquet(self) -> None:
        target = self.root / "plain.parquet"
        self.read().write.mode("overwrite").parquet(str(target))
        shutil.rmtree(target)

    def _archive(self) -> None:
        from spark_ext.jobs.archive import archive
        from spark_ext.jobs.source import Source

        target = self.root / "archive"
        shutil.rmtree(target, ignore_errors=True)
        archive(self.spark, Source(paths=(str(self.store),)), str(target))
        shutil.rmtree(target)


RATIOS: list[tuple[str, str, str, str | dict[str, str]]] = [
    (
        "default scan, Parquet's time / ours",
        "default scan, Parquet",
        "default scan",
        {"1K": ">= 1.5", "100B": ">= 1"},
    ),
    (
        "count and sum(bodyLength) by topic and queue, Parquet's / ours",
        "sizes by queue, Parquet",
        "sizes by queue",
        {"1K": ">= 0.9", "100B": ">= 0.8"},
    ),
    (
        "sum(length(body)), body named, Parquet's / ours",
        "sum of bodies, Parquet",
        "sum of bodies",
        {"1K": ">= 1.5", "100B": ">= 0.9"},
    ),
    ("the same, no column named", "sum of bodies, Parquet", "sum of bodies, unnamed", ""),
    ("scan with properties, Parquet's time / ours", "scan, Parquet", "scan", ">= 1"),
    ("full scan's rows, tuple source's time / ours (count)", "tuples, count", "count", ">= 5"),
    ("group by topic and queue, Parquet's / ours", "group, Parquet", "group", ">= 0.9"),
    ("one column and a count, full scan / it", "scan", "one column, count", ">= 4"),
    ("tag option (12 %), full scan / it", "scan", "tag, scan", ">= 3"),
    ("tag option, Parquet's / ours", "tag, Parquet", "tag", {"1K": ">= 2", "100B": ">= 1"}),
    ("one of ten segments by time, all / it", "ten segments", "time, one of ten", ">= 5"),
    ("one queue of 32, topic by scan / by index", "topic by scan", "queue by index", ">= 5"),
    (
        "archive, scan and Spark's Parquet write / it",
        "scan to Parquet by Spark",
        "archive",
        ">= 0.7",
    ),
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.spark")
    parser.add_argument("--size", type=int, default=1 << 30, help="bytes of log")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", default="1K,100B")
    parser.add_argument("--cases", default="", help="only those whose name has one of these words")
    parser.add_argument("--folder", type=Path, help="keep the logs here (default: a temporary one)")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    root = given.folder or Path(tempfile.mkdtemp(prefix="pyrmq-bench-"))
    root.mkdir(parents=True, exist_ok=True)
    spark = session()
    results: dict[str, Any] = {}
    try:
        for kind in given.kinds.split(","):
            results[kind] = measure(Cases(spark, root, kind, given.size), given.rounds, given.cases)
    finally:
        spark.stop()
        if given.folder is None:
            shutil.rmtree(root)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))


def measure(cases: Cases, rounds: int, words: str) -> dict[str, Any]:
    wanted = [w for w in words.split(",") if w]
    chosen = {
        name: run
        for name, run in cases.cases().items()
        if not wanted or any(w in name for w in wanted)
    }
    seconds: dict[str, list[float]] = {name: [] for name in chosen}
    for turn in range(rounds + 1):
        for name, run in chosen.items():
            if name == "tuples, count" and turn not in (0, 1):
                continue  # minutes, and far from the line
            began = time.perf_counter()
            run()
            if turn:
                seconds[name].append(time.perf_counter() - began)
    print(f"\n{cases.kind} bodies, {rounds} rounds; seconds: median (lowest to highest)")
    for name, all_of_it in seconds.items():
        values = f"{median(all_of_it):7.2f} ({min(all_of_it):.2f} to {max(all_of_it):.2f})"
        print(f"  {name:30} {values}")
    ratios = {}
    for title, over, under, targets in RATIOS:
        target = targets if isinstance(targets, str) else targets[cases.kind]
        if over not in seconds or under not in seconds:
            continue
        each = [a / b for a, b in zip(seconds[over], seconds[under], strict=False)]
        ratios[title] = [median(each), min(each), max(each), target]
        print(f"  {title:55} {median(each):5.2f} ({min(each):.2f} to {max(each):.2f})  {target}")
    return {"seconds": seconds, "ratios": ratios}


if __name__ == "__main__":
    require_release_build()
    main()
