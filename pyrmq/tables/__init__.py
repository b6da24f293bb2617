"""Topics as Iceberg tables: the catalog, the schema, the files, and the commit that adds files and
queue offsets in one step.

This package uses pyiceberg (extra `tables`), imported where it is needed. It does not know Spark.
"""
