"""The Python that Spark plans and runs tasks in, and whether it can run the source.

PySpark takes it from PYSPARK_PYTHON when the SparkContext is made (`SparkContext.pythonExec`),
without it `python3` from the PATH; spark.pyspark.python reaches it only through spark-submit. The
look-up of formats by name takes the JVM's own environment instead, as it was when the JVM started.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyrmq import __version__
from pyrmq.escape import escape
from spark_ext.errors import SparkSetupError

if TYPE_CHECKING:
    from pyspark import SparkContext

UNSET = "python3"
"""What PySpark runs when nobody chose."""
_SECONDS = 60.0
_LOOK = """
import json, sys
found = {"python": list(sys.version_info[:2])}
try:
    import pyrmq
    found["pyrmq"] = pyrmq.__version__
    import spark_ext, pyarrow, pyrmq.engine
except ImportError as error:
    found["missing"] = str(error)
print(json.dumps(found))
"""


def for_source(context: SparkContext) -> str:
    """The Python to register the source with: that of the context. Where nobody chose that one, it
    cannot run the source and Spark runs on this machine alone, the one of this process.
    SparkSetupError where it cannot run the source and was chosen."""
    given: str = context.pythonExec
    trouble = trouble_of(given)
    if trouble is None:
        return given
    if given == UNSET and "PYSPARK_PYTHON" not in os.environ and is_local(str(context.master)):
        return sys.executable
    raise SparkSetupError(trouble)


def is_local(master: str) -> bool:
    """Whether driver and executors are one JVM on this machine."""
    return master == "local" or master.startswith("local[")


def trouble_of(command: str) -> str | None:
    """Why this Python of the workers cannot run the source, and what to do; None if it can."""
    path = shutil.which(command)
    todo = (
        f"It needs pip install 'pyrmq-broker[spark]=={__version__}', on every node; or "
        "set PYSPARK_PYTHON before Spark starts to a Python that has it, here "
        f"{sys.executable}; or choose none (neither PYSPARK_PYTHON nor spark.pyspark.python) and "
        "make the session with spark_ext.session(), which takes this program's."
    )
    if path is None:
        return f"Spark's workers are to run {escape(command)}, which is not there. {todo}"
    # Not resolved: the python of a virtual environment is a link to another one.
    if os.path.abspath(path) == os.path.abspath(sys.executable):
        return None
    where = f"Spark's workers run {escape(path)}, which"
    try:
        found = _look(path, os.environ.get("PYTHONPATH"))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return f"{where} does not start ({escape(str(error))}). {todo}"
    python, own = tuple(found["python"]), sys.version_info[:2]
    if python != own:
        return f"{where} is Python {_dotted(python)}, this program's is {_dotted(own)}. {todo}"
    if found.get("pyrmq", __version__) != __version__:
        version = escape(str(found["pyrmq"]))
        return f"{where} has pyrmq-broker {version}, this program has {__version__}. {todo}"
    if "missing" in found:
        return f"{where} has no pyrmq-broker[spark] ({escape(str(found['missing']))}). {todo}"
    return None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


@lru_cache(maxsize=16)
def _look(path: str, search: str | None) -> dict[str, Any]:
    """What that Python has. It starts in /, as the folder of this program is not on every path."""
    done = subprocess.run(
        [path, "-c", _LOOK], capture_output=True, text=True, timeout=_SECONDS, check=True, cwd="/"
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found
