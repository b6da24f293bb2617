"""Spark on raw segments, beside Parquet and other ways to the same rows."""
