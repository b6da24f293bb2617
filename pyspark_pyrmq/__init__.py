"""Found by PySpark by its name: makes `spark.read.format("pyrmq")` work without a call.

PySpark imports every module whose name begins with pyspark_ when the first format is looked up, so
this must be light, and must not raise where PySpark itself is missing.
"""

import importlib.util

if importlib.util.find_spec("pyspark") is not None:
    from spark_ext.source import PyrmqDataSource as DefaultSource

    __all__ = ["DefaultSource"]
