"""The native library in a JVM: JNI's own checks find nothing, nothing is left of queries however
they end, and a library that does not load says what to do."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import threading
import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.spark import jvm_jar, small_store
from tests.support.thorough import size
from tests.support.waiting import eventually
from tests.system.interop import toolchain

PROBE = Path(__file__).with_name("Probe.java")
JACKSON = sorted((Path(pyspark.__file__).parent / "jars").glob("jackson-[acd]*.jar"))
SLF4J = sorted((Path(pyspark.__file__).parent / "jars").glob("slf4j-api-*.jar"))
COUNT = 1500
NOTHING = {"tasks": 0, "streams": 0, "batches": 0, "bytes": 0}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("native") / "broker-a"
    small_store.write(root, COUNT)
    return root


def probe(store: Path, *options: str, before: tuple[Path, ...] = ()) -> str:
    """What the program says in a JVM with these options; `before` is first on its class path."""
    path = os.pathsep.join(map(str, [*before, jvm_jar.built(), *JACKSON, *SLF4J]))
    command = [str(toolchain.java(17)), *options, "-cp", path, str(PROBE), str(store)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + done.stderr


def test_checks_of_jni_find_nothing(store: Path) -> None:
    said = probe(store, "-Xcheck:jni")
    lines = said.splitlines()
    assert lines.count(f"rows {COUNT}") == 4, said
    assert [line for line in lines if line.startswith("fails ")][8:], said
    assert json.loads(said.partition("held ")[2].splitlines()[0]) == NOTHING
    assert not re.search(r"WARNING|FATAL|no error|other error|\tat ", said), said


def no_exec() -> Path | None:
    """A folder that this user may write, on a file system without execution."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "tmpfs" and "noexec" in options.split(",") and os.access(folder, os.W_OK):
            return Path(folder)
    return None


@pytest.mark.parametrize(
    ("options", "text", "hint"),
    [
        (["-Dos.arch=riscv64"], "no native library for the CPU riscv64", "source in Python"),
        (["-Dos.name=Mac OS X"], "runs on Linux, not on Mac OS X", "source in Python"),
        (["-Dpyrmq.spark.native.path=/no/such.so"], "/no/such.so cannot be read", "names it"),
        (["-Djava.io.tmpdir=/no/such"], "cannot be unpacked", "-Djava.io.tmpdir"),
    ],
)
def test_a_library_that_cannot_be_had(
    store: Path, options: list[str], text: str, hint: str
) -> None:
    said = probe(store, *options)
    assert "ScanException: SparkSetupError: " in said
    assert text in said
    assert hint in said


def library(folder: Path) -> Path:
    """The jar's native library for this machine, as a file."""
    with zipfile.ZipFile(jvm_jar.built()) as jar:
        inside = f"native/linux-{platform.machine()}/libpyrmq_jvm.so"
        return Path(jar.extract(inside, folder))


def test_a_file_that_is_no_library(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "libpyrmq_jvm.so"
    for content in (b"", b"not a library", b"\x7fELF\x02\x01" + b"\xff" * 100):
        file.write_bytes(content)
        said = probe(store, f"-Dpyrmq.spark.native.path={file}")
        assert f"SparkSetupError: the native library cannot be loaded: {file}: it is " in said
    assert "it is no file" in probe(store, f"-Dpyrmq.spark.native.path={tmp_path}")


@pytest.mark.parametrize("part", [0.001, 0.5, 0.999])
def test_a_library_that_is_cut_short_ends_no_jvm(store: Path, tmp_path: Path, part: float) -> None:
    file = library(tmp_path)
    os.truncate(file, int(file.stat().st_size * part))
    said = probe(store, f"-Dpyrmq.spark.native.path={file}")
    assert "it is cut short or damaged" in said, said
    assert "SIGBUS" not in said


def test_a_library_for_another_cpu(store: Path, tmp_path: Path) -> None:
    file = library(tmp_path)
    with open(file, "r+b") as opened:
        opened.seek(18)
        opened.write((8).to_bytes(2, "little"))
    said = probe(store, f"-Dpyrmq.spark.native.path={file}")
    assert f"it is for another CPU than {platform.machine()} (ELF machine 8)" in said, said


def test_a_temporary_folder_by_a_relative_path(store: Path) -> None:
    folder = os.path.relpath(store.parent)
    assert f"rows {COUNT}" in probe(store, f"-Djava.io.tmpdir={folder}")


def test_a_folder_without_execution(store: Path) -> None:
    folder = no_exec()
    if folder is None:
        pytest.skip("no tmpfs is mounted noexec where this user may write")
    said = probe(store, f"-Djava.io.tmpdir={folder}")
    assert "the temporary folder is mounted noexec" in said
    assert not list(folder.glob("pyrmq-spark*"))


def test_a_library_of_another_version(store: Path, tmp_path: Path) -> None:
    other = tmp_path / "pyrmq" / "spark" / "build.properties"
    other.parent.mkdir(parents=True)
    other.write_text("version=9.9.9\nspark=4.1.3\nscala=2.13\n")
    said = probe(store, before=(tmp_path,))
    assert re.search(r"the native library has version \S+, the classes have 9\.9\.9", said), said


def test_nothing_is_left_in_the_temporary_folder(store: Path, tmp_path: Path) -> None:
    assert f"rows {COUNT}" in probe(store, f"-Djava.io.tmpdir={tmp_path}")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("pyrmq")] == []


def held(spark: SparkSession) -> dict[str, int]:
    answer = spark._jvm.pyrmq.spark.Native.call(bytearray(b'{"op":"held"}'))  # type: ignore[union-attr]
    found: dict[str, int] = json.loads(bytes(answer))
    return found


@pytest.fixture
def native(spark: SparkSession) -> Any:
    return spark._jvm.pyrmq.spark.Native  # type: ignore[union-attr]


def test_what_is_open_is_held(spark: SparkSession, native: Any, store: Path) -> None:
    asked = {"op": "plan", "request": {"paths": [str(store)], "how": {"batch_rows": 100}}}
    plan = json.loads(bytes(native.call(bytearray(json.dumps(asked).encode()))))
    handle = native.open(bytearray(json.dumps(plan["tasks"][0]).encode()))
    batch = list(native.next(handle))
    assert batch[0] == 100
    assert held(spark) == {"tasks": 1, "streams": 0, "batches": 1, "bytes": batch[1]}
    native.release(handle)
    assert held(spark) == {"tasks": 1, "streams": 0, "batches": 0, "bytes": 0}
    native.close(handle)
    assert held(spark) == NOTHING


def test_nothing_is_left_of_queries(spark: SparkSession, store: Path) -> None:
    """Read to their end, in part, and to an error in a task."""
    frame = (
        spark.read.format("rocketmq").options(splitBytes="64k", properties="map").load(str(store))
    )
    for _ in range(size("PYRMQ_SPARK_QUERIES", 5, 500)):
        assert frame.count() == COUNT
        assert len(frame.limit(3).collect()) == 3
        assert frame.groupBy("topic", "queueId").count().count() == 8
        fails = frame.selectExpr("raise_error(string(body))")
        with pytest.raises(Exception, match="USER_RAISED_EXCEPTION"):
            fails.collect()
        assert frame.selectExpr("properties['n']").distinct().count() == COUNT
    # A query that fails, or has its rows, does not wait for its other tasks, which Spark kills.
    eventually(lambda: held(spark), "what is held", until=lambda now: now == NOTHING)


def test_nothing_is_left_of_a_task_that_is_killed(spark: SparkSession, store: Path) -> None:
    context = spark.sparkContext
    # Spark looks between two batches whether a task is killed.
    frame = spark.read.format("rocketmq").option("batchRows", 1).load(str(store))
    many = frame.selectExpr("explode(sequence(1, 1000000)) AS n", "body")
    errors: list[Exception] = []

    def run() -> None:
        context.setJobGroup("killed", "a query that is cancelled", interruptOnCancel=True)
        try:
            many.selectExpr("sum(n * length(body))").collect()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: held(spark)["batches"] > 0, "the query reads")
    context.cancelJobGroup("killed")
    thread.join()
    assert errors
    eventually(lambda: held(spark), "what is held", until=lambda now: now == NOTHING)
