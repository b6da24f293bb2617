"""Which Python Spark starts for its workers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support.thorough import THOROUGH


def worker_python() -> str:
    """For PYSPARK_PYTHON. In the long form it is what Spark would take."""
    if THOROUGH:
        return sys.executable
    os.environ["PYRMQ_TEST_PYTHON"] = sys.executable
    return str(Path(__file__).with_suffix(""))
