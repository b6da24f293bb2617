"""Finds Prometheus and promtool: on PATH, in a folder, or in Debian's package, unpacked once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.system.interop.toolchain import Missing

FOLDER = "PYRMQ_PROMETHEUS"
"""Variable of the environment: a folder with both programs."""
ADVICE = (
    f"install it (Debian: apt install prometheus), or set {FOLDER} to a folder with its programs"
)
DOWNLOAD_TIMEOUT = 120.0


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`. Missing says how to get it."""
    folder = os.environ.get(FOLDER)
    if folder:
        if (Path(folder) / name).is_file():
            return str(Path(folder) / name)
        raise Missing(f"{folder} has no {name} ({FOLDER}): {ADVICE}")
    found = shutil.which(name)
    if found is not None:
        return found
    return str(_unpacked() / "usr" / "bin" / name)


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "pyrmq-tests"


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "prometheus.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _unpacked() -> Path:
    """Debian's package in the user's cache; neither root nor an installation is needed."""
    apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg")
    if apt is None or dpkg is None:
        raise Missing(f"prometheus is not on PATH: {ADVICE}")
    cache = _cache()
    target = cache / "prometheus"
    with _locked(cache):
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=cache) as made:
                folder = Path(made)
                _run([apt, "download", "prometheus"], folder)
                packages = list(folder.glob("prometheus_*.deb"))
                if len(packages) != 1:
                    raise Missing(f"apt-get download gave {len(packages)} packages: {ADVICE}")
                _run([dpkg, "-x", str(packages[0]), str(folder / "x")], folder)
                if not (folder / "x" / "usr" / "bin" / "promtool").is_file():
                    raise Missing(f"the package has no promtool: {ADVICE}")
                (folder / "x").rename(target)
    return target


def _run(command: list[str], folder: Path) -> None:
    try:
        ran = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise Missing(f"`{' '.join(command)}` took too long: {ADVICE}") from late
    if ran.returncode:
        raise Missing(f"`{' '.join(command)}` failed: {ran.stderr.strip()[-300:]}: {ADVICE}")
