"""Spark with iceberg-spark reads our tables, rewrites their files, and writes a stream of ours.

The program of docs/tables.md runs in a process of its own: a session's jars are chosen when its JVM
starts. iceberg-spark is made for one line of Spark."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from pyrmq.tables.ends import ends_of
from tests.tables.making import World, check_same, write

PAGE = Path(__file__).parents[3] / "docs" / "tables.md"
LINE = "4.1"
"""Of Spark, for which there is an iceberg-spark."""
SETTINGS = """
builder = builder.config("spark.master", "local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.ui.showConsoleProgress", "false")
builder = builder.config("spark.driver.memory", "1g")
"""
CHECKS = """
def rows(table):
    columns = ("brokerName", "queueId", "queueOffset", "body")
    found = spark.table(table).select(*columns).collect()
    return sorted((b, q, o, bytes(body).hex()) for b, q, o, body in found)

assert rows("pyrmq.mq.orders") == rows("pyrmq.mq.orders_stream")
print("ROWS", len(rows("pyrmq.mq.orders")))
done = spark.sql(
    "CALL pyrmq.system.rewrite_data_files(table => 'mq.orders', "
    "options => map('min-input-files', '2'))"
).collect()[0]
print("REWRITTEN", done.rewritten_data_files_count)
"""


@pytest.mark.slow
@pytest.mark.spark_versions
@pytest.mark.skipif(
    not pyspark.__version__.startswith(f"{LINE}."),
    reason=f"iceberg-spark is there for Spark {LINE}; make thorough-spark runs it",
)
def test_the_program_of_the_documentation(tmp_path: Path) -> None:
    world = World(tmp_path)
    log = world.log()
    for _ in range(3):
        log.put(30)
        write(world, log)
    page = PAGE.read_text(encoding="utf-8")
    program = next(
        b for b in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "iceberg-spark" in b
    )
    program = program.replace("/lake/", f"{tmp_path}/catalog/").replace("/data/", f"{tmp_path}/")
    before, session, after = program.partition("spark = spark_ext.session(builder)")
    file = tmp_path / "program.py"
    file.write_text(before + SETTINGS + session + after + CHECKS)
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "ROWS 90" in done.stdout
    assert "REWRITTEN 3" in done.stdout
    # The ends are still found, and our next run goes on behind the rewrite of Spark.
    ends = ends_of(world.table())
    assert ends is not None
    assert sum(one.end for _, _, one in ends.queues()) == 90
    log.put(30)
    assert write(world, log).rows == 30
    check_same(world, log)
