"""Finds Java, Maven and Go, and builds the drivers of the interop tests.

Everything that is built lands in `.build/` beside this file, once per state of the sources: a stamp
holds a digest of what was built, so that a second run starts at once. Missing tools are told by
`Missing`, whose text says how to get them; the fixtures turn it into a skip, or into a failure when
the environment variable PYRMQ_REQUIRE_INTEROP is 1 (as in CI).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BUILD = HERE / ".build"
NEWEST = "5.5.0"
"""The version of Apache RocketMQ that `make test` runs: its client, broker, name server, tools."""
OLDER_JAVA_CLIENTS = ("5.3.3", "5.1.4", "4.9.8", "4.9.4")
"""Further versions of org.apache.rocketmq:rocketmq-client, for `make thorough-interop`."""
SIGNS_BY_ITSELF = (5, 3, 3)
"""From this version on the Java client has the classes that sign requests."""
BUILD_TIMEOUT = 600.0
"""Seconds for one build; the first one downloads the client and its dependencies."""
ARCHIVE_TIMEOUT = 180.0
"""Seconds for an archive of classes. A machine that needs more goes without."""
MINIMUM_GO = (1, 21)
MINIMUM_JAVA = 8
SHORT_LIVED_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a JVM that runs for seconds: it compiles once."""


class Missing(Exception):
    """A tool is not on this machine, or is too old; the text says how to get it."""


class BuildFailed(Exception):
    """A driver did not build; the text ends with what the build tool said."""


def required() -> bool:
    """Whether a missing tool is a failure instead of a skip."""
    return os.environ.get("PYRMQ_REQUIRE_INTEROP") == "1"


def _tool(name: str, home_variable: str, advice: str) -> str:
    home = os.environ.get(home_variable)
    if home:
        candidate = Path(home) / "bin" / name
        if candidate.is_file():
            return str(candidate)
    found = shutil.which(name)
    if found is None:
        raise Missing(f"{name} is not on PATH and {home_variable} does not lead to it: {advice}")
    return found


def _version(command: Sequence[str], pattern: str) -> tuple[int, ...]:
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    match = re.search(pattern, result.stdout + result.stderr)
    if match is None:
        raise Missing(f"`{' '.join(command)}` does not tell a version: {result.stderr.strip()}")
    return tuple(int(part) for part in match.groups() if part is not None)


def java(minimum: int = MINIMUM_JAVA) -> str:
    """The `java` launcher, of a JDK (Maven needs its compiler)."""
    advice = f"install a JDK, {minimum} to 21 (Debian: apt install openjdk-17-jdk-headless)"
    launcher = _tool("java", "JAVA_HOME", advice)
    major, *rest = _version([launcher, "-version"], r'version "(\d+)(?:\.(\d+))?')
    if major == 1 and rest:
        major = rest[0]
    if major < minimum:
        raise Missing(f"{launcher} is Java {major}: {advice}")
    return launcher


def maven() -> str:
    """The `mvn` launcher."""
    advice = "install Apache Maven 3.6.3 or later (Debian: apt install maven)"
    return _tool("mvn", "MAVEN_HOME", advice)


def go() -> str:
    """The `go` tool."""
    advice = "install Go 1.21 or later (https://go.dev/dl/)"
    tool = _tool("go", "GOROOT", advice)
    version = _version([tool, "env", "GOVERSION"], r"go(\d+)\.(\d+)")
    if version < MINIMUM_GO:
        raise Missing(f"{tool} is Go {'.'.join(map(str, version))}: {advice}")
    return tool


@contextlib.contextmanager
def _locked(name: str) -> Iterator[None]:
    """One builder at a time, also between processes that run tests at once."""
    BUILD.mkdir(exist_ok=True)
    with open(BUILD / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _digest(folder: Path, *words: str) -> str:
    """Of the sources below a folder, but not of what a build left there by hand."""
    state = hashlib.sha256("\n".join(words).encode())
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and relative.parts[0] != "target":
            state.update(f"{relative}\n".encode())
            state.update(path.read_bytes())
    return state.hexdigest()


def _build(command: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=BUILD_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise BuildFailed(f"not built after {BUILD_TIMEOUT:.0f} s: {' '.join(command)}") from late
    if result.returncode != 0:
        raise BuildFailed(f"{' '.join(command)} failed:\n{result.stdout[-6000:]}")


def with_shared_classes(
    command: Sequence[str], archive: Path, *, through: str = "", **options: Any
) -> list[str]:
    """Options of a JVM whose classes come from an archive (class data sharing) instead of being
    read, checked and linked: half the CPU of one that runs for seconds.

    command: what to run while the archive is made, however that ends: a JVM, its options, and a
    program; or a program that hands the variable `through` to its JVM as options. Where no archive
    can be had (Java before 13, a machine that needs too long) nothing is lost.
    """
    with _locked(archive.parent.name):
        if not archive.exists():
            making = archive.with_suffix(".new")
            making.unlink(missing_ok=True)
            make = f"-XX:ArchiveClassesAtExit={making}"
            if through:
                env = options["env"]
                options["env"] = {**env, through: f"{env.get(through, '')} {make} -Xlog:disable"}
            else:
                command = [command[0], make, *command[1:]]
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=ARCHIVE_TIMEOUT,
                    check=False,
                    **options,
                )
            if making.exists():
                making.rename(archive)
            else:
                archive.touch()
    if not archive.stat().st_size:
        return []
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable"]


def pack(classes: Path, jar: Path) -> None:
    """Compiled classes into a jar: an archive of classes knows no folders."""
    with zipfile.ZipFile(jar, "w") as packed:
        for path in sorted(classes.rglob("*")):
            if path.is_file():
                packed.write(path, path.relative_to(classes))


def java_driver(version: str) -> list[str]:
    """Builds the Java driver for a client version; the command that starts it, without arguments.

    JVM options may be inserted after the first word.
    """
    launcher, builder = java(), maven()
    sources, target = HERE / "java", BUILD / f"java-{version}"
    stamp, jar = target / "stamp", target / "driver.jar"
    digest = _digest(sources, version, jar.name)
    with _locked(target.name):
        if not stamp.is_file() or stamp.read_text() != digest:
            shutil.rmtree(target, ignore_errors=True)
            options = [f"-Drocketmq.version={version}", f"-Ddriver.target={target}"]
            if tuple(map(int, version.split("."))) < SIGNS_BY_ITSELF:
                options.append("-Dsigning")
            if version != NEWEST:
                options.append("-Dnot.compiled=**/Newest*.java")
            _build([builder, "-q", "-B", "process-classes", *options], sources, {})
            pack(target / "classes", jar)
            stamp.write_text(digest)
    classpath = os.pathsep.join([str(jar), str(target / "lib" / "*")])
    home = BUILD / "home"
    home.mkdir(exist_ok=True)
    options = ["-Xmx256m", *SHORT_LIVED_JVM, f"-Duser.home={home}"]
    program = ["-cp", classpath, "interop.Driver"]
    nobody = ["produce", "namesrv=127.0.0.1:1", "timeout=60", "topic=T", "group=G", "count=1"]
    shared = with_shared_classes([launcher, *options, *program, *nobody], target / "driver.jsa")
    return [launcher, *shared, *options, *program]


def traced_driver() -> list[str]:
    """Builds the Java driver with OpenTelemetry's instrumentation; the command that starts it."""
    launcher, builder = java(), maven()
    sources, target = HERE / "traced", BUILD / "traced"
    stamp = target / "stamp"
    digest = _digest(sources, NEWEST)
    with _locked(target.name):
        if not stamp.is_file() or stamp.read_text() != digest:
            shutil.rmtree(target, ignore_errors=True)
            options = [f"-Drocketmq.version={NEWEST}", f"-Ddriver.target={target}"]
            _build([builder, "-q", "-B", "process-classes", *options], sources, {})
            stamp.write_text(digest)
    classpath = os.pathsep.join([str(target / "classes"), str(target / "lib" / "*")])
    home = BUILD / "home"
    home.mkdir(exist_ok=True)
    options = ["-Xmx256m", *SHORT_LIVED_JVM, f"-Duser.home={home}"]
    return [launcher, *options, "-cp", classpath, "interop.Traced"]


def go_driver() -> list[str]:
    """Builds the Go driver; the command that starts it, without arguments."""
    builder = go()
    sources, target = HERE / "go", BUILD / "go"
    binary, stamp = target / "driver", target / "stamp"
    digest = _digest(sources, str(_version([builder, "env", "GOVERSION"], r"go(\d+)\.(\d+)")))
    with _locked(target.name):
        if not binary.is_file() or not stamp.is_file() or stamp.read_text() != digest:
            target.mkdir(exist_ok=True)
            command = [builder, "build", "-mod=readonly", "-o", str(binary), "."]
            _build(command, sources, {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0"})
            stamp.write_text(digest)
    return [str(binary)]
