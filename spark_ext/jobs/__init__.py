"""The pipeline: what operators ask of a log, answered from its segments, here or by Spark.

Each module is one job: a function for programs, a command for `pyrmq pipeline NAME` and
`python -m spark_ext.jobs.NAME`. Reading (`Source`) and computing (`compute`, on tables with the
source's columns) are apart, so that any table with these columns will do.
"""

JOBS = {
    "archive": "Topics to Parquet by topic and day, exactly once and resumable.",
    "table": "Topics as Iceberg tables: each message once, for any engine.",
    "restore": "Messages of an archive back into a topic.",
    "lag": "Backlog of consumer groups, by group and queue.",
    "trace": "Latencies and success rates from the trace topic.",
    "transactions": "What became of half messages.",
    "deadletters": "Dead letters by group, topic and cause, with their originals.",
    "hot": "Counts, bytes and skew by topic, queue, tag and key.",
}
"""Name of each job and what it is for."""
