"""A flame graph of a loaded broker, over Rust and Python.

    python -m benches.profile SCENARIO [--tool py-spy|perf] [--seconds S] [-o FILE]

py-spy shows the threads that run Python, with Python's and Rust's frames in one stack. perf shows
all threads and, where it may, the kernel; it shows names of Python functions from Python 3.12 on.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .flame import draw, hottest, read_folded, read_perf
from .loopback.generator import generate
from .loopback.harness import Broker, HarnessError, server
from .loopback.loads import BATCH, LOADS, Load
from .release_build import require_release_build

SCENARIOS = {load.name: load for load in LOADS if load.mode != "pull"}
SETTLE = 1.0
"""Seconds of load before the profile begins."""
SAMPLES = 500
"""A second; not a divisor of the clock's."""
TOOLS = ("py-spy", "perf")


def tool(wanted: str | None) -> str:
    """The tool to use. HarnessError says how to get what is missing."""
    advice = {
        "py-spy": "py-spy is missing: .venv/bin/pip install py-spy",
        "perf": "perf is missing: install it (Debian: apt install linux-perf)",
    }
    for name in [wanted] if wanted else TOOLS:
        if _path(name):
            return name
    raise HarnessError("; ".join(advice[name] for name in ([wanted] if wanted else TOOLS)))


def _path(name: str) -> str | None:
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() else shutil.which(name)


def _load(broker: Broker, load: Load, seconds: float) -> dict[str, object]:
    options: dict[str, object] = {
        "connections": load.connections,
        "in_flight": load.in_flight,
        "seconds": seconds,
        "warmup": 0,
    }
    if load.mode == "batch":
        options["batch"] = BATCH
    return generate(load.mode, broker, options, limit=seconds + 60)


def _by_py_spy(load: Load, seconds: float, home: Path) -> Counter[tuple[str, ...]]:
    """py-spy is the server's parent, so it may look at it without further rights."""
    out = home / "raw"
    spy = [str(_path("py-spy")), "record", "--native", "--format", "raw"]
    spy += ["--rate", str(SAMPLES), "--output", str(out), "--"]
    command = [*spy, sys.executable, "-m", "pyrmq", "server"]
    with server(load.flush, command, home) as broker:
        _load(broker, load, seconds + SETTLE)
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGTERM)  # the server's end is the end of the profile
        end = time.monotonic() + 60
        while not out.is_file() and time.monotonic() < end:
            time.sleep(0.2)
    found = read_folded(out.read_text()) if out.is_file() else Counter()
    # It began before the server did: what is only imported is no part of the load.
    load_only = {
        names: count
        for names, count in found.items()
        if not any("<frozen importlib" in name for name in names)
    }
    return Counter(load_only)


@contextmanager
def _names_for_perf() -> Iterator[None]:
    """Python 3.12 and later tells perf the names of functions."""
    os.environ["PYTHONPERFSUPPORT"] = "1"
    try:
        yield
    finally:
        os.environ.pop("PYTHONPERFSUPPORT", None)


def _by_perf(load: Load, seconds: float, home: Path) -> Counter[tuple[str, ...]]:
    data = home / "perf.data"
    with _names_for_perf(), server(load.flush, directory=home) as broker:
        loader = threading.Thread(
            target=_load, args=(broker, load, seconds + SETTLE + 3.0), daemon=True
        )
        loader.start()
        time.sleep(SETTLE)
        words = [str(_path("perf")), "record", "-q", "-F", str(SAMPLES - 1), "-o", str(data)]
        words += ["--call-graph", "dwarf,16384", "-p", str(broker.pid), "--", "sleep", str(seconds)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        loader.join()
    if not data.is_file() or done.returncode != 0:
        raise HarnessError(
            f"perf may not record: {done.stderr.strip()} (kernel.perf_event_paranoid is "
            f"{Path('/proc/sys/kernel/perf_event_paranoid').read_text().strip()}; 2 or less is "
            "needed, or --tool py-spy)"
        )
    script = subprocess.run(
        [str(_path("perf")), "script", "--no-inline", "-i", str(data)],
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
    )
    return read_perf(script.stdout)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.profile", description=__doc__)
    parser.add_argument("scenario", choices=sorted(SCENARIOS))
    parser.add_argument("--tool", choices=TOOLS, help="default: py-spy, or perf where it is not")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("-o", "--output", type=Path, help="default: build/profile-SCENARIO.svg")
    options = parser.parse_args(argv)
    target = options.output or Path("build") / f"profile-{options.scenario}.svg"
    load = SCENARIOS[options.scenario]
    home = Path(tempfile.mkdtemp(prefix="pyrmq-profile-"))
    try:
        name = tool(options.tool)
        by = {"py-spy": _by_py_spy, "perf": _by_perf}[name]
        stacks = by(load, options.seconds, home)
        if not stacks:
            raise HarnessError(f"{name} gave no samples")
    except (HarnessError, subprocess.CalledProcessError) as error:
        print(f"profile: {error}", file=sys.stderr)
        return 1
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(home)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(draw(stacks, f"{load.text}, by {name}"))
    for frame, part in hottest(stacks):
        print(f"{part:6.1%}  {frame[:110]}")
    print(f"written: {target}")
    return 0


if __name__ == "__main__":
    require_release_build()
    sys.exit(main())
