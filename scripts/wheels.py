"""Builds wheels for Linux on x86_64 and aarch64, one for each Python: dist/pyrmq_broker-….whl.

    scripts/wheels.py [--cpu x86_64|aarch64]… [--python 3.12]… [--out DIR] [--try] [--no-jar]

`make wheels` runs it with the tools of scripts/wheels.txt. zig compiles and links, so that a wheel
runs with glibc 2.17 and newer, and so that one machine builds for both CPUs. Each version needs its
interpreter on this machine, for maturin and for the headers. Everything is built from the source
distribution, in a folder of its own. `scripts/wheel_contents.py` checks what came out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import wheel_contents

ROOT = Path(__file__).resolve().parent.parent
GLIBC = "2.17"
CPUS = ("x86_64", "aarch64")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
JAR = Path("spark_ext/jars/pyrmq-spark.jar")
ASK = """
import json, sys, sysconfig
print(json.dumps([list(sys.version_info[:2]), sys.implementation.name,
    sysconfig.get_path("include"), sysconfig.get_config_h_filename(),
    sysconfig.get_config_var("MULTIARCH") or "",
    bool(sysconfig.get_config_var("Py_GIL_DISABLED"))]))
"""


class Unable(Exception):
    """What is missing or wrong, and what to do."""


@dataclass(frozen=True)
class Python:
    """An interpreter on this machine, whose headers and version a wheel is built for."""

    version: str
    executable: str
    include: Path
    config: Path
    """pyconfig.h."""

    @property
    def tag(self) -> str:
        return "cp" + self.version.replace(".", "")

    def suffix(self, cpu: str) -> str:
        return f".cpython-{self.version.replace('.', '')}-{cpu}-linux-gnu.so"

    @classmethod
    def asked(cls, executable: str, version: str) -> Python | None:
        """None if it does not run, or is not CPython of this version with a GIL."""
        file = shutil.which(executable)
        if file is None:
            return None
        ran = subprocess.run([file, "-c", ASK], capture_output=True, check=False)
        if ran.returncode:  # as pyenv's `python3.12`, where it has no 3.12
            return None
        numbers, kind, include, config, multiarch, free = json.loads(ran.stdout)
        if (".".join(map(str, numbers)), kind, free) != (version, "cpython", False):
            return None
        # Debian's pyconfig.h only includes the one of the CPU.
        beside = Path(include).parent / multiarch / Path(include).name / "pyconfig.h"
        return cls(version, file, Path(include), beside if beside.exists() else Path(config))


def find_python(version: str) -> Python | None:
    """On the PATH, or one of pyenv's."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for executable in (sys.executable, f"python{version}", *map(str, pyenv)):
        if (found := Python.asked(executable, version)) and (found.include / "Python.h").exists():
            return found
    return None


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    """What it prints is shown if it fails."""
    words = list(map(str, command))
    ran = subprocess.run(
        words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if ran.returncode:
        print(ran.stdout.decode(errors="replace"), file=sys.stderr)
        raise Unable(f"{' '.join(words)} failed")


def tool(name: str) -> Path:
    """A program that is installed beside the Python of this script."""
    file = Path(sysconfig.get_path("scripts")) / name
    if not file.exists():
        raise Unable(f"{name} is missing here: `make wheels` installs scripts/wheels.txt")
    return file


def source(work: Path, jar: bool) -> Path:
    """The source distribution, unpacked, with what wheels have besides. Its folder is named by its
    content: so cargo finds what it has compiled of the same source, and only that, though all files
    have one and the same time."""
    run(tool("maturin"), "sdist", "--out", work)
    (packed,) = work.glob("*.tar.gz")
    with tarfile.open(packed) as file:
        file.extractall(work, filter="data")
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    folder = ROOT / "build/wheels" / digest[:16]
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(packed.with_suffix("").with_suffix(""), folder)
    if jar:
        check_jar(ROOT / JAR)
        (folder / JAR).parent.mkdir()
        shutil.copyfile(ROOT / JAR, folder / JAR)
    run("cargo", "fetch", "--locked", "--quiet")  # licences are read from the crates
    run(sys.executable, "scripts/licences.py", "wheel", "--check")
    run(sys.executable, "scripts/licences.py", "wheel", "--texts", folder / "third_party")
    shutil.copyfile(ROOT / "native/THIRD_PARTY.md", folder / "THIRD_PARTY.md")
    project = folder / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    ours, all_of_them = '["LICENSE"]', '["LICENSE", "THIRD_PARTY.md", "third_party/*/*"]'
    if text.count(f"license-files = {ours}") != 1:
        raise Unable(f"pyproject.toml does not say license-files = {ours}")
    project.write_text(text.replace(ours, all_of_them), encoding="utf-8")
    return folder


def check_jar(jar: Path) -> None:
    """It has the engine's library for all CPUs: it goes from a driver to executors."""
    make = f'make jar PYRMQ_JAR_CPUS="{" ".join(CPUS)}"'
    if not jar.exists():
        raise Unable(f"{JAR} is missing: {make}, or --no-jar for wheels without it")
    with zipfile.ZipFile(jar) as file:
        names = set(file.namelist())
    missing = [cpu for cpu in CPUS if f"native/linux-{cpu}/libpyrmq_jvm.so" not in names]
    if missing:
        raise Unable(f"{JAR} has no library for {', '.join(missing)}: {make}")


def headers(python: Python, work: Path) -> Path:
    """The headers of a Python, with its pyconfig.h among them."""
    folder = work / "include" / python.version
    folder.mkdir(parents=True)
    for entry in python.include.iterdir():
        if entry.name != "pyconfig.h":
            (folder / entry.name).symlink_to(entry)
    shutil.copyfile(python.config, folder / "pyconfig.h")
    return folder


def compile_engine(code: Path, folder: Path, include: Path, python: Python, cpu: str) -> Path:
    """pyrmq/engine.….so, of the C code that Cython made: the same for all versions and CPUs."""
    built = folder / "pyrmq" / f"engine{python.suffix(cpu)}"
    run(
        *(sys.executable, "-m", "ziglang", "cc", "-target", f"{cpu}-linux-gnu.{GLIBC}"),
        *("-shared", "-fPIC", "-O3", "-fwrapv", "-DNDEBUG", "-s"),
        *("-I", include, "-I", folder / "native/include"),
        *("-include", ROOT / "build_backend/same_sizes.h", code, "-o", built),
    )
    return built


def environment() -> dict[str, str]:
    """Modules are stripped: zig removes either all symbols or none. Flame graphs need a build from
    source."""
    folder = Path(sys.executable).parent
    return {
        **os.environ,
        "CARGO_PROFILE_RELEASE_STRIP": "symbols",
        "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target")),
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",  # for `python -m ziglang`
    }


def build(folder: Path, python: Python, cpu: str, out: Path) -> Path:
    """One wheel. maturin compiles the crate, audits it and packs. For another CPU it runs no
    interpreter and takes the version from the name."""
    own = cpu == os.uname().machine
    interpreter = python.executable if own else f"python{python.version}"
    run(
        *(tool("maturin"), "build", "--release", "--locked", "--zig", "--auditwheel", "check"),
        *("--target", f"{cpu}-unknown-linux-gnu", "--interpreter", interpreter),
        *("--compatibility", f"manylinux_{GLIBC.replace('.', '_')}", "--out", out),
        cwd=folder,
        env=environment(),
    )
    found = list(out.glob(f"*-{python.tag}-{python.tag}-*_{cpu}.whl"))
    if len(found) != 1:
        names = [path.name for path in out.iterdir()]
        raise Unable(f"maturin made no wheel for Python {python.version} on {cpu}: {names}")
    return found[0]


def wheels(args: argparse.Namespace) -> Iterator[Path]:
    pythons = {}
    for version in args.python or PYTHONS:
        if (found := find_python(version)) is not None:
            pythons[version] = found
        elif args.python:
            raise Unable(f"there is no Python {version} with its headers on this machine")
        else:
            print(f"wheels: no Python {version} with its headers on this machine, skipped")
    if not pythons:
        raise Unable(f"none of Python {', '.join(PYTHONS)} is on this machine")
    with TemporaryDirectory(prefix="pyrmq-wheels-") as name:
        work = Path(name)
        folder = source(work, args.jar)
        code = work / "engine.c"
        run(tool("cython"), "-3", "pyrmq/engine.pyx", "-o", code, cwd=folder)
        include = {version: headers(python, work) for version, python in pythons.items()}
        for cpu in args.cpu or CPUS:
            for version, python in pythons.items():
                engine = compile_engine(code, folder, include[version], python, cpu)
                wheel = build(folder, python, cpu, work / "dist")
                engine.unlink()
                wheel_contents.check(wheel, jar=args.jar)
                if args.tried and cpu == os.uname().machine:
                    run(python.executable, "scripts/wheel_try.py", wheel)
                args.out.mkdir(parents=True, exist_ok=True)
                yield Path(shutil.copy(wheel, args.out))
        shutil.rmtree(folder)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--cpu", action="append", choices=CPUS, help="default: both")
    options.add_argument("--python", action="append", choices=PYTHONS, help="default: all found")
    options.add_argument("--out", type=Path, default=ROOT / "dist")
    options.add_argument("--try", dest="tried", action="store_true", help="those of this CPU")
    options.add_argument("--no-jar", dest="jar", action="store_false", help="without Spark's jar")
    try:
        for wheel in wheels(options.parse_args()):
            print(f"wheels: {wheel} {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    except (Unable, wheel_contents.Wrong) as e:
        print(f"wheels: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
