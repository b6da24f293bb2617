"""The jar with Spark's reader in the JVM, for tests. It is built if a source is newer."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
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
)
BUILD_TIMEOUT = 900.0
"""Seconds; the first build compiles the engine and downloads Spark's interfaces."""


def built() -> Path:
    """The jar. Without tools the test is skipped, or fails with PYRMQ_REQUIRE_INTEROP=1."""
    try:
        toolchain.java(17)
        toolchain.maven()
        if shutil.which("cargo") is None:
            raise toolchain.Missing("cargo is not on PATH: install Rust (https://rustup.rs)")
    except toolchain.Missing as problem:
        if toolchain.required():
            pytest.fail(f"the jar cannot be built: {problem}", pytrace=False)
        pytest.skip(f"the jar cannot be built: {problem}")
    JAR.parent.mkdir(exist_ok=True)
    with open(JAR.parent / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_fresh():
            _build()
    return JAR


def _files() -> Iterator[Path]:
    for name in SOURCES:
        path = ROOT / name
        yield from (one for one in path.rglob("*") if one.is_file()) if path.is_dir() else (path,)


def _is_fresh() -> bool:
    return JAR.exists() and all(f.stat().st_mtime <= JAR.stat().st_mtime for f in _files())


def _build() -> None:
    profile = os.environ.get("PYRMQ_JAR_PROFILE", "dev-engine")
    done = subprocess.run(
        [str(ROOT / "scripts" / "spark_jar.sh")],
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT,
        check=False,
        env={**os.environ, "PYRMQ_JAR_PROFILE": profile},
    )
    if done.returncode:
        pytest.fail(
            f"the jar does not build:\n{(done.stdout + done.stderr)[-4000:]}", pytrace=False
        )


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
