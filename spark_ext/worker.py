"""Spark's Python workers: unpickling with a check of the version, and one gc.freeze.

Spark sends readers and partitions to its workers pickled, classes by reference. In a worker without
the wheel, pickle would fail with "No module named 'spark_ext'". So our objects carry the function
that restores them by value: cloudpickle does that with functions that are defined inside of
functions. It needs nothing but the standard library, and its error says what to install.
"""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from pyrmq import __version__

ADMISSION = find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether this PySpark asks a stream reader for an end with a start and a limit (4.2 and later)."""

_frozen = 0


def make_check() -> Callable[[str], None]:
    """A function that raises where this package is missing or of another version than given."""

    def check(version: str) -> None:
        import sys
        from importlib.util import find_spec
        from socket import gethostname

        where = f"The Python of a Spark worker, {sys.executable} on host {gethostname()},"
        todo = (
            f"Install the driver's version there: pip install 'pyrmq-broker[spark]=={version}'. "
            "Workers run the Python that PYSPARK_PYTHON (or spark.pyspark.python) names, without "
            "it python3 from the PATH."
        )
        try:
            if find_spec("spark_ext") is None:
                raise ImportError("No module named 'spark_ext'")
            from pyrmq import __version__ as own
        except ImportError as error:
            raise RuntimeError(f"{where} has no pyrmq-broker ({error}). {todo}") from None
        if own != version:
            raise RuntimeError(f"{where} has pyrmq-broker {own}, the driver has {version}. {todo}")

    return check


def make_restore() -> Callable[[str, bytes], Any]:
    """The function that a pickle has in the place of our class: the check, then the object."""
    check = make_check()

    def restore(version: str, payload: bytes) -> Any:
        import pickle

        check(version)
        cls, state = pickle.loads(payload)
        made = cls.__new__(cls)
        made.__dict__.update(state)
        return made

    return restore


_restore = make_restore()


class VersionCheckedPickle:
    """Mix-in (first in the list of bases) for objects that Spark pickles: readers, writers,
    partitions. Unpickling them where this version of the package is missing is an error that says
    what to install."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Not pickle: the class may be a user's own, made in a notebook.
        from pyspark import cloudpickle

        state = (type(self), self.__dict__)
        payload = cloudpickle.dumps(state, pickle.HIGHEST_PROTOCOL)  # type: ignore[no-untyped-call]
        return _restore, (__version__, payload)


def prepare() -> None:
    """Called first in each task. Once per process, excludes all objects so far from collection.

    Spark calls gc.collect after each task of a worker that it uses again, 30 to 40 ms over some
    200,000 objects that are never freed. Workers are forked from one daemon, so the process id
    shows whether this process did it.
    """
    global _frozen
    if _frozen == os.getpid():
        return
    import pyarrow  # noqa: F401

    import pyrmq.engine  # noqa: F401

    gc.collect()
    gc.freeze()
    _frozen = os.getpid()
