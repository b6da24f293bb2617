"""Measures the reader in the JVM on a standalone cluster of two workers beside local[2].

    python -m benches.spark.cluster [--size 1073741824] [--rounds 5] [--kinds 1K,100B] [--json FILE]

Both have one core for each of two tasks, and warm up with one round. Each round runs each query on
both, first on one, then on the other. A ratio is local[2]'s time divided by the cluster's, within a
round: 1 is as fast. The workers get the jar from the driver and have no Python.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benches.release_build import require_release_build
from benches.spark.logs import write_log

QUEUES = 8
LOCAL, CLUSTER = "local", "cluster"


class Driver:
    """A driver in a process of its own: a JVM has one master."""

    def __init__(self, master: str, jar: str) -> None:
        command = [sys.executable, "-m", "benches.spark.cluster", "--driver", master, jar]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, query: str, store: Path) -> tuple[float, Any]:
        """How long a query took, and its answer. Raises RuntimeError if the driver has ended."""
        to, back = self._process.stdin, self._process.stdout
        assert to is not None
        assert back is not None
        to.write(json.dumps([query, str(store)]) + "\n")
        to.flush()
        for line in back:
            if line.startswith('{"took"'):
                answer = json.loads(line)
                return answer["took"], answer["found"]
        raise RuntimeError("the driver has ended: its log is above")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def drive(master: str, jar: str) -> None:
    """Runs the queries that stdin names."""
    from benches.spark.jvm import JVM, QUERIES, Frames
    from tests.spark.e2e.proof.standalone_driver import NO_PYTHON, session

    more = {"spark.executor.memory": "2g", "spark.sql.adaptive.enabled": "false"}
    spark = session(master, jar, NO_PYTHON, **more)
    for line in sys.stdin:
        query, store = json.loads(line)
        frame = Frames(spark, Path(store), parquet=False).of(JVM, query)
        began = time.perf_counter()
        found = QUERIES[query](frame)
        took = time.perf_counter() - began
        rows = sorted(map(repr, found)) if isinstance(found, list) else found
        print(json.dumps({"took": took, "found": rows}), flush=True)
    spark.stop()


def measure(drivers: dict[str, Driver], store: Path, rounds: int) -> dict[str, dict[str, Any]]:
    from benches.spark.jvm import QUERIES

    seconds: dict[str, dict[str, Any]] = {q: {LOCAL: [], CLUSTER: []} for q in QUERIES}
    for turn in range(rounds + 1):
        order = [LOCAL, CLUSTER] if turn % 2 else [CLUSTER, LOCAL]
        for query in QUERIES:
            answers = []
            for name in order:
                took, found = drivers[name].seconds(query, store)
                answers.append(found)
                if turn:
                    seconds[query][name].append(took)
            assert answers[0] == answers[1], query
    return seconds


def report(kind: str, seconds: dict[str, dict[str, Any]]) -> None:
    print(f"\n{kind} bodies; local[2]'s time / the cluster's: median (range)")
    for query, of in seconds.items():
        each = [local / far for local, far in zip(of[LOCAL], of[CLUSTER], strict=True)]
        print(f"  {query:46} {median(each):5.2f} ({min(each):.2f} to {max(each):.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.spark.cluster")
    parser.add_argument("--size", type=int, default=1 << 30, help="bytes of log")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", default="1K,100B")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--driver", nargs=2, metavar=("MASTER", "JAR"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.driver:
        drive(*given.driver)
        return
    import spark_ext
    from tests.spark.e2e.proof.standalone import Standalone

    jar = spark_ext.jar_path()
    root = Path(tempfile.mkdtemp(prefix="pyrmq-bench-"))
    results: dict[str, Any] = {}
    try:
        with Standalone(root / "home", memory="3g") as cluster:
            drivers = {
                LOCAL: Driver("local[2]", jar),
                CLUSTER: Driver(cluster.url, jar),
            }
            for kind in given.kinds.split(","):
                store = write_log(root, kind, given.size, queues=QUEUES)
                results[kind] = measure(drivers, store, given.rounds)
                report(kind, results[kind])
            for driver in drivers.values():
                driver.close()
    finally:
        shutil.rmtree(root)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    require_release_build()
    main()
