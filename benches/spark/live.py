"""Measures the time from a message's acknowledgement to Spark's row, with the reader in the JVM: in
real-time mode, or in micro-batches.

    python -m benches.spark.live [--rate 10000] [--seconds 20] [--size 1024] [--mode real-time]

A broker runs in a process, a producer in another one. The row's time is that at which Spark's first
operator behind the source handles it: System.nanoTime, the clock of time.monotonic_ns.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benches.loopback.harness import server
from benches.release_build import require_release_build

TOPIC = "live"


def session(jar: str) -> Any:
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[2]")
        .appName("benches")
        .config("spark.jars", jar)
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.streaming.realTimeMode.allowlistCheck", "false")  # a sink in memory
        .config("spark.sql.streaming.realTimeMode.minBatchDuration", "1000ms")
        .getOrCreate()
    )


def seen(spark: Any, store: Path, folder: Path, mode: str, batch: int) -> Any:
    """A running query that keeps each row's number and when it came."""
    rows = (
        spark.readStream.format("rocketmq")
        .options(subscribe=TOPIC, startingOffsets="earliest", columns="body")
        .load(str(store))
        .selectExpr(
            "cast(substring_index(cast(body as string), ';', 1) as bigint) as number",
            "cast(java_method('java.lang.System', 'nanoTime') as bigint) as nanos",
        )
    )
    trigger = (
        {"realTime": f"{batch} seconds"} if mode == "real-time" else {"processingTime": "0 seconds"}
    )
    return (
        rows.writeStream.format("memory")
        .queryName("seen")
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**trigger)
        .start()
    )


def acknowledged(out: Path) -> dict[int, int]:
    times = {}
    for line in out.read_text().splitlines():
        first, count, when = map(int, line.split())
        times.update(dict.fromkeys(range(first, first + count), when))
    return times


def measure(
    spark: Any, folder: Path, mode: str, rate: int, seconds: float, size: int, batch: int
) -> Any:
    out = folder / "acknowledged"
    with server(directory=folder) as broker:
        store = next(folder.glob("pyrmq-bench-*/store"))
        words = [sys.executable, "-m", "benches.spark.live_load", broker.namesrv, TOPIC]
        words += [str(rate), str(seconds), str(size), str(out)]
        load = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert load.stdin is not None
        assert load.stdout is not None
        assert load.stdout.readline() == "ready\n"
        query = seen(spark, store, folder, mode, batch)
        while query.lastProgress is None:  # the first micro-batch has loaded all classes
            if query.awaitTermination(0.1):
                raise SystemExit("the query ended")
        load.stdin.write("go\n")
        load.stdin.close()
        if load.wait(seconds + 60):
            raise SystemExit("the producer failed")
        query.processAllAvailable()
        rows = {row.number: row.nanos for row in spark.table("seen").collect()}
        query.stop()
    times = acknowledged(out)
    missing = times.keys() - rows.keys()
    if missing:
        raise SystemExit(f"{len(missing)} of {len(times)} messages have no row")
    warm = max(times) // 4
    late = sorted((rows[n] - when) / 1e6 for n, when in times.items() if n > warm)
    return {
        "mode": mode,
        "rate": round(len(times) / ((max(times.values()) - min(times.values())) / 1e9)),
        "messages": len(late),
        **{f"p{p}": round(late[int(len(late) * p / 100)], 2) for p in (1, 50, 90, 99)},
        "max": round(late[-1], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=10_000, help="messages per second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument(
        "--batch", type=int, default=20, help="seconds of a real-time task; Spark pauses behind it"
    )
    parser.add_argument("--mode", choices=["real-time", "micro-batch"], default="real-time")
    parser.add_argument("--jar", default=str(Path("spark_ext/jars/pyrmq-spark.jar").resolve()))
    asked = parser.parse_args()
    require_release_build()
    with tempfile.TemporaryDirectory(prefix="pyrmq-live-") as folder:
        spark = session(asked.jar)
        found = measure(
            spark, Path(folder), asked.mode, asked.rate, asked.seconds, asked.size, asked.batch
        )
        spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
