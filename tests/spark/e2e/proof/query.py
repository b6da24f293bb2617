"""A streaming query in a process of its own, to be killed: segments to Parquet, by a checkpoint.

    python -m tests.spark.e2e.proof.query STORE FOLDER TRIGGER READER [OPTION=VALUE ...]

READER is python, or jvm: by the jar. FOLDER gets `sink/` and `checkpoint/`. TRIGGER is "always"
(until killed) or "now" (what is there, then the end). It prints "started" when the query runs,
"batch N" after each one, "done" at the end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

from tests.spark.jvm_jar import JAR
from tests.spark.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

COLUMNS = ["topic", "queueId", "queueOffset", "commitLogOffset", "tags", "body"]
ROOT = Path(__file__).parents[4]


def run(store: str, folder: Path, trigger: str, reader: str, options: dict[str, str]) -> None:
    from pyspark.sql import SparkSession

    import spark_ext

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", str(JAR) if reader == "jvm" else "")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.metricsEnabled", "false")
        .getOrCreate()
    )
    spark_ext.register(spark)
    query = start(spark, store, folder, trigger, options)
    print("started", flush=True)
    seen = -1
    while not query.awaitTermination(1):
        progress = query.lastProgress
        if progress and progress["batchId"] > seen:
            seen = progress["batchId"]
            print(f"batch {seen}", flush=True)
    print("done", flush=True)
    spark.stop()


def start(
    spark: SparkSession, store: str, folder: Path, trigger: str, options: Mapping[str, Any]
) -> StreamingQuery:
    """Starts the query, or goes on where the last one has left the checkpoint."""
    frame = spark.readStream.format("rocketmq").options(path=store, **options).load()
    writer = (
        frame.select(*COLUMNS)
        .writeStream.format("parquet")
        .option("path", str(folder / "sink"))
        .option("checkpointLocation", str(folder / "checkpoint"))
    )
    often = {"availableNow": True} if trigger == "now" else {"processingTime": "0 seconds"}
    writer = writer.trigger(**often)  # type: ignore[arg-type]
    return writer.start()


class Query:
    """The process as a context; leaving it kills it and the JVM that it started."""

    def __init__(
        self, store: Path, folder: Path, trigger: str, reader: str = "python", **options: object
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._errors = folder / "query.err"
        words = [f"{name}={value}" for name, value in options.items()]
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.e2e.proof.query", str(store), str(folder),
                 trigger, reader, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env={
                    **os.environ, "PYSPARK_PYTHON": worker_python(), "SPARK_LOCAL_IP": "127.0.0.1"
                },
                start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def wait_for(self, word: str) -> None:
        """Until it prints a line that begins with the word."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(word.encode()):
                return
        raise AssertionError(f"the query ended before {word!r}:\n{self.said()}")

    def said(self) -> str:
        return self._errors.read_text(errors="replace")[-6000:]

    def kill(self) -> None:
        """SIGKILL to the driver and its JVM, which are one process group."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


def committed_files(sink: Path) -> Iterator[Path]:
    """What a file sink has committed, by its log: the last compact file and those after it.
    [FileStreamSinkLog, CompactibleFileStreamLog]"""
    log = sink / "_spark_metadata"
    names = [path.name for path in log.iterdir() if not path.name.startswith(".")]
    batches = sorted((int(name.partition(".")[0]), name) for name in names)
    compact = [number for number, name in batches if name.endswith(".compact")]
    first = max(compact, default=0)
    for _, name in [pair for pair in batches if pair[0] >= first]:
        version, *lines = (log / name).read_text().splitlines()
        assert version == "v1", version
        for line in lines:
            entry = json.loads(line)
            assert entry["action"] == "add", entry
            yield Path(unquote(urlparse(entry["path"]).path))


def sink_rows(sink: Path) -> list[dict[str, Any]]:
    """The rows that a file sink has committed, by their place in the log."""
    rows = [row for path in committed_files(sink) for row in pq.read_table(path).to_pylist()]
    return sorted(rows, key=lambda row: row["commitLogOffset"])


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4],
        dict(word.split("=", 1) for word in sys.argv[5:]))  # fmt: skip
