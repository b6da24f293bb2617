"""Checks what is inside of a wheel: modules, packages with their data, jar, licences, platform.

    scripts/wheel_contents.py [--released [--no-jar]] WHEEL

The files of the packages must be those of this checkout. `--released`: what `make wheels` promises
is checked too, with auditwheel: the platform of its name, licences and the list of crates, the jar.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("pyrmq", "spark_ext", "pyspark_rocketmq", "pyspark_pyrmq")
MODULES = ("_native", "engine")
JAR = "spark_ext/jars/pyrmq-spark.jar"
ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES = 100_000_000
"""PyPI takes no larger file."""
_NAME = re.compile(r"pyrmq_broker-[^-]+-cp(3\d\d)-cp\1-(.+)_(x86_64|aarch64)\.whl")


class Wrong(Exception):
    """A wheel that must not be given to anybody."""


def expected(source: Path) -> Iterator[str]:
    """The files of the packages: code, types, templates, what pages load, files to deploy."""
    for package in PACKAGES:
        for path in sorted((source / package).rglob("*")):
            built = path.suffix == ".so" or {"__pycache__", "jars"} & set(path.parts)
            if path.is_file() and not built:
                yield path.relative_to(source).as_posix()


def faults(wheel: Path, source: Path) -> Iterator[str]:
    """What is wrong with any wheel of ours."""
    named = _NAME.fullmatch(wheel.name)
    if named is None:
        yield "its name is not that of a wheel for one CPython on Linux"
        return
    python, _, cpu = named.groups()
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    modules = {f"pyrmq/{module}.cpython-{python}-{cpu}-linux-gnu.so" for module in MODULES}
    for name in sorted(modules - names):
        yield f"it lacks {name}"
    for name in sorted(name for name in names if name.endswith(".so")):
        if name not in modules:
            yield f"it has {name}, which is for another Python or CPU"
    for name in expected(source):
        if name not in names:
            yield f"it lacks {name}"
    for name in sorted(names):
        top = name.partition("/")[0]
        if top not in PACKAGES and not top.endswith(".dist-info"):
            yield f"it has {name}, which would be installed beside the packages"
        if "__pycache__" in name:
            yield f"it has {name}"
    if wheel.stat().st_size > MOST_BYTES:
        yield f"it has {wheel.stat().st_size} bytes, PyPI takes {MOST_BYTES}"


def faults_of_released(wheel: Path, *, jar: bool) -> Iterator[str]:
    """What else is wrong with one that others are given."""
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        sboms = [name for name in names if re.search(r"\.dist-info/sboms/.*\.json$", name)]
        crates = {
            part["name"] for name in sboms for part in json.loads(file.read(name))["components"]
        }
    if jar and JAR not in names:
        yield f"it lacks {JAR}"
    if not {"pyo3", "rustls"} <= crates:
        yield "it has no list of its crates (SBOM)"
    for pattern in (r"LICENSE", r"THIRD_PARTY\.md", r"third_party/rustls-[^/]+/LICENSE.*"):
        if not any(re.search(rf"\.dist-info/licenses/{pattern}$", name) for name in names):
            yield f"it lacks the licence {pattern}"
    needed, promised = glibc(found := audited(wheel)), glibc(wheel.name)
    if needed is None or promised is None or needed > promised:
        yield f"auditwheel says that it fits {found}"


def glibc(text: str) -> tuple[int, int] | None:
    """The version of glibc in a platform tag; None if there is none."""
    found = re.search(r"manylinux_(\d+)_(\d+)_", text)
    return (int(found[1]), int(found[2])) if found else None


def audited(wheel: Path) -> str:
    """The platform tag that its libraries fit, by the versions of the symbols they need."""
    command = [sys.executable, "-m", "auditwheel", "show", "--json", str(wheel)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise Wrong(f"auditwheel failed for {wheel.name}: {ran.stderr}")
    return str(json.loads(ran.stdout)["overall_tag"])


def check(wheel: Path, *, released: bool = True, jar: bool = True) -> None:
    """Raises Wrong with all that is wrong."""
    found = list(faults(wheel, ROOT))
    if released and not found:
        found = list(faults_of_released(wheel, jar=jar))
    if found:
        raise Wrong("\n  ".join([f"{wheel.name} must not be used:", *found]))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("wheel", type=Path)
    options.add_argument("--released", action="store_true")
    options.add_argument("--no-jar", dest="jar", action="store_false")
    args = options.parse_args()
    try:
        check(args.wheel, released=args.released, jar=args.jar)
    except Wrong as e:
        print(e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
