"""Whether the import package `pyrmq` is ours: PyRMQ, a RabbitMQ client, has one of the same name.

pip puts both into one folder without a word. `pyrmq/__init__.py` is then that of the one that was
installed last, and uninstalling either removes it.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

MEND = (
    "Keep the two in separate virtual environments. To repair this one: pip uninstall PyRMQ, then "
    "pip install --force-reinstall --no-deps pyrmq-broker"
)
MARK = "_IS_PYRMQ_BROKER"
"""The name that only our `pyrmq/__init__.py` has."""
_FOLDER = re.compile(r"pyrmq-([0-9][0-9a-z.!+_]*?)(-py[0-9.]+)?\.(dist|egg)-info", re.IGNORECASE)
_told: set[str] = set()


def other_version(paths: Iterable[str]) -> str | None:
    """The version of PyRMQ, if it is installed in one of these folders. Lists each folder once;
    the import of importlib.metadata alone would take longer."""
    for path in paths:
        try:
            names = os.listdir(path or ".")
        except OSError:  # an archive, or a folder that is not there
            continue
        for name in names:
            if found := _FOLDER.fullmatch(name):
                return found[1]
    return None


def problem(paths: Iterable[str] | None = None, package: ModuleType | None = None) -> str | None:
    """What is wrong, None for nothing; `MEND` says what to do. `paths`: sys.path. `package`: what
    was imported as `pyrmq`."""
    version = other_version(sys.path if paths is None else paths)
    other = f"PyRMQ{f' {version}' if version else ''}, a RabbitMQ client with the import package"
    package = sys.modules.get("pyrmq") if package is None else package
    if package is None or hasattr(package, MARK):
        if version is None:
            return None
        return (
            f"{other} `pyrmq` as well, is installed beside pyrmq-broker: they overwrite each "
            f"other's pyrmq/__init__.py, and uninstalling or updating one breaks the other"
        )
    file = getattr(package, "__file__", None)
    if file is None:
        return (
            f"{Path(__file__).with_name('__init__.py')} is missing: {other} `pyrmq` as well, was "
            f"installed here and removed, or the installation is not complete"
        )
    return (
        f"{file} is not pyrmq-broker's: {other} `pyrmq` as well, was installed over it, and "
        f"`from pyrmq import …` finds only PyRMQ's names"
    )


def untold(what: str | None) -> str | None:
    """The text to show, once in a process."""
    if what is None or what in _told:
        return None
    _told.add(what)
    return f"{what}. {MEND}"


def warn_if_replaced() -> None:
    """Warns if `pyrmq/__init__.py` is not ours. Reads no folder where it is."""
    package = sys.modules.get("pyrmq")
    if package is None or hasattr(package, MARK):
        return
    if text := untold(problem(package=package)):
        warnings.warn(text, RuntimeWarning, stacklevel=2)
