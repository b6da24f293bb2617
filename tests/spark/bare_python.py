"""A Python that has PySpark and pyarrow but not this project, as on a node that was forgotten."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

NEEDED = ("numpy", "numpy.libs", "py4j", "pyarrow", "pyspark")


def make(folder: Path) -> Path:
    """Makes a virtual environment; returns its interpreter."""
    venv.create(folder, with_pip=False, symlinks=True)
    site = next(folder.glob("lib/python3*/site-packages"))
    for name in NEEDED:
        found = importlib.util.find_spec(name.split(".")[0])
        assert found is not None, f"{name} is not installed"
        assert found.origin is not None
        source = Path(found.origin).parent.parent / name
        if source.exists():
            (site / name).symlink_to(source)
    return folder / "bin" / "python"


def for_spark(bare: Path) -> Path:
    """The bare one as Spark may start it: away from the checkout, which is in its path else."""
    return _script(
        bare.parent / "bare-for-spark", f'cd / && unset PYTHONPATH && exec "{bare}" "$@"'
    )


def only_in_tasks(bare: Path) -> Path:
    """An interpreter that is the bare one where Spark runs tasks, and this one where it plans.

    Spark starts its workers as `python -m pyspark.daemon WORKER`; that of tasks is pyspark.worker.
    """
    return _script(
        bare.parent / "bare-in-tasks",
        'case " $* " in\n'
        f'    *" pyspark.worker "*) cd / && exec "{bare}" "$@" ;;\n'
        f'    *) exec "{sys.executable}" "$@" ;;\n'
        "esac",
    )


def _script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def run(python: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs code there, away from the checkout."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [str(python), "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=python.parent,
        env=environment,
    )
