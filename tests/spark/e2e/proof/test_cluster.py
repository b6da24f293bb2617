"""Two worker processes read the stores of two brokers as one DataFrame (docs/spark-cluster.md)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import need_java

from .material import Material
from .object_store import ObjectStore

ROOT = Path(__file__).parents[4]


def on_the_cluster(home: Path, *pairs: str) -> list[dict[str, Any]]:
    need_java()
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.e2e.proof.cluster", str(home), *pairs],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def expected(*materials: Material) -> dict[tuple[str, str, int], tuple[int, int, int]]:
    """Rows, bytes of bodies and last place in the log, by broker, topic and queue."""
    found: dict[tuple[str, str, int], tuple[int, int, int]] = {}
    for material in materials:
        for row in material.rows:
            key = material.broker, row["topic"], row["queueId"]
            rows, size, last = found.get(key, (0, 0, 0))
            found[key] = rows + 1, size + len(row["body"]), max(last, row["commitLogOffset"])
    return found


@pytest.mark.slow
@pytest.mark.thorough("three JVMs of its own; tasks and shipped segments are also tested on one")
def test_two_stores_on_two_executors(ours: Material, apache: Material, tmp_path: Path):
    """Local paths, which all executors see, and segments that were shipped to an object store."""
    roots = [ours.root, apache.root]
    with ObjectStore(ours.root.parent) as store:
        pairs = [",".join(map(str, roots)), ",".join(store.uri(root.name) for root in roots)]
        answers = on_the_cluster(tmp_path / "home", *pairs)
        assert store.asked
    assert len(answers) == 2
    for found in answers:
        counts = {tuple(row[:3]): tuple(row[3:]) for row in found["counts"]}
        assert counts == expected(ours, apache)
        assert set(found["executors"]) == {"0", "1"}
        assert sum(found["executors"].values()) == len(ours.rows) + len(apache.rows)
        assert found["partitions"] > 4
    assert (tmp_path / "home" / "work").is_dir()
