"""Found by PySpark by its name: makes `spark.read.format("rocketmq")` work without a call."""
