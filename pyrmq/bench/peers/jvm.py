"""What runs on a JVM: the launcher, and jars that Maven fetches."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pyrmq.bench.peers.peer import Unavailable, finished
from pyrmq.escape import escape

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pyrmq</groupId><artifactId>bench-peer</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = """    <dependency>
      <groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version>
    </dependency>"""
FETCH_SECONDS = 900.0


def java() -> str:
    """The launcher. Unavailable if there is none."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise Unavailable(
            "java is missing: install a JDK, 17 or 21 (Debian: apt install openjdk-17-jdk-headless)"
        )
    return found


def cache() -> Path:
    """Where jars are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pyrmq" / "bench"


def fetched(target: Path) -> bool:
    """Whether all jars are below `target`."""
    return (target / "complete").is_file()


def fetch(target: Path, artifacts: Sequence[tuple[str, str, str]], otherwise: str) -> None:
    """Puts these artifacts (group, name, version) and what they need into `target`/lib, unless they
    are there. Unavailable if that cannot be; `otherwise`: what else a user can do."""
    if fetched(target):
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable(
            "its jars are not here yet, and mvn is missing: install Apache Maven (Debian: apt "
            f"install maven), or {otherwise}"
        )
    target.mkdir(parents=True, exist_ok=True)
    dependencies = "\n".join(DEPENDENCY.format(*one) for one in artifacts)
    (target / "pom.xml").write_text(POM.format(dependencies=dependencies))
    words = [
        maven,
        "-q",
        "-B",
        "--strict-checksums",
        PLUGIN,
        "-DincludeScope=runtime",
        "-DoutputDirectory=lib",
    ]
    try:
        done = finished(words, FETCH_SECONDS, folder=target)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Unavailable(
            f"Maven did not fetch its jars ({escape(str(e))}): run this again, or {otherwise}"
        ) from None
    if done.returncode != 0:
        raise Unavailable(
            f"Maven did not fetch its jars ({_reason(done.stdout)}): see that it reaches a "
            f"repository and run this again, or {otherwise}"
        )
    (target / "complete").touch()


def _reason(text: str) -> str:
    """What Maven says first; advice about its own options follows there."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    lines = [line.removeprefix("[ERROR]").strip() for line in plain.splitlines()]
    first = next(filter(None, lines), "it said nothing")
    return escape(first[:600])
