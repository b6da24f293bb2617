"""The sample store of the examples, for tests: written once, by a real broker."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[4] / "examples" / "spark"


def sample_module() -> ModuleType:
    """examples/spark/sample.py, which is in no package."""
    if "spark_sample" not in sys.modules:
        spec = importlib.util.spec_from_file_location("spark_sample", EXAMPLES / "sample.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["spark_sample"] = module
        spec.loader.exec_module(module)
    return sys.modules["spark_sample"]
