"""The jar with Spark's reader in the JVM, for tests. It is built if a source is newer.

`make test` runs this file before all tests, so that no test waits for the build.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.interop import toolchain

ROOT = Path(__file__).parents[2]
JAR = ROOT / "spark_ext" / "jars" / "pyrmq-spark.jar"
SOURCES = (
    "spark_jvm/pom.xml",
    "spark_jvm/src",
    "native/jvm",
    "native/crates/scan/src",
    "native/crates/arrow/src",
    "native/crates/format/src",
    "Cargo.lock",
    "scripts/spark_jar.sh",
)
BUILD_TIMEOUT = 900.0
"""Seconds; the first build compiles the engine and downloads Spark's interfaces."""


class NotBuilt(Exception):
    """The build failed; the text ends with what it said."""


def built() -> Path:
    """The jar. Without tools the test is skipped, or fails with PYRMQ_REQUIRE_INTEROP=1."""
    missing = what_is_missing()
    if missing is not None:
        if toolchain.required():
            pytest.fail(f"the jar cannot be built: {missing}", pytrace=False)
        pytest.skip(f"the jar cannot be built: {missing}")
    try:
        build_if_stale()
    except NotBuilt as problem:
        pytest.fail(str(problem), pytrace=False)
    return JAR


def what_is_missing() -> str | None:
    """The first tool that this machine lacks, and how to get it."""
    try:
        toolchain.java(17)
        toolchain.maven()
    except toolchain.Missing as problem:
        return str(problem)
    if shutil.which("cargo") is None:
        return "cargo is not on PATH: install Rust (https://rustup.rs)"
    return None


def build_if_stale() -> None:
    """One process builds, the others wait for it. Raises NotBuilt."""
    JAR.parent.mkdir(exist_ok=True)
    with open(JAR.parent / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_fresh():
            _build()


def _files() -> Iterator[Path]:
    for name in SOURCES:
        path = ROOT / name
        yield from (one for one in path.rglob("*") if one.is_file()) if path.is_dir() else (path,)


def _is_fresh() -> bool:
    return JAR.exists() and all(f.stat().st_mtime <= JAR.stat().st_mtime for f in _files())


def _build() -> None:
    profile = os.environ.get("PYRMQ_JAR_PROFILE", "dev")
    done = subprocess.run(
        [str(ROOT / "scripts" / "spark_jar.sh")],
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT,
        check=False,
        env={"PYTHON": sys.executable, **os.environ, "PYRMQ_JAR_PROFILE": profile},
    )
    if done.returncode:
        raise NotBuilt(f"the jar does not build:\n{(done.stdout + done.stderr)[-4000:]}")


_jars = ""
"""What the JVM of this process was started with."""


def jvm_for(jars: str) -> None:
    """The next session gets a JVM that was started with these jars: its class path stays as it is.

    Only where the last session is stopped."""
    global _jars
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None and jars != _jars:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
        SparkContext._gateway = SparkContext._jvm = None
    _jars = jars


def main() -> int:
    missing = what_is_missing()
    if missing is not None:
        print(f"pyrmq: no jar for tests of Spark's reader in the JVM: {missing}", file=sys.stderr)
        return 1 if toolchain.required() else 0
    try:
        build_if_stale()
    except NotBuilt as problem:
        print(f"pyrmq: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
