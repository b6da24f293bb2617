"""Found by PySpark by its name: makes `spark.read.format("pyrmq")` work without a call."""
