"""All options of `format("rocketmq")`, of reads and writes: one table.

Names and defaults follow Spark's Kafka source and rocketmq-spark. Parsing, checks, the parameters
of `pyrmq.segments`, the rules of jobs, and the table of docs/spark.md all use it.
"""

from __future__ import annotations

from functools import partial

from pyrmq.segments.offsets import parse_assign, parse_offsets
from pyrmq.segments.parameters import (
    ON_CORRUPTION,
    PLAN,
    PROPERTIES,
    TIMESTAMP_STRATEGY,
    VERIFY_CRC,
)
from pyrmq.segments.selection import parse_tags
from spark_ext.broker import access_options
from spark_ext.broker import options as broker_options
from spark_ext.option import (
    BATCHES,
    FILES,
    READS,
    STREAMS,
    WRITES,
    Option,
    Query,
    boolean,
    choice,
    integer,
    names,
    paths,
    pattern,
    size,
    storage,
    text,
)
from spark_ext.times import duration, moment, queue_times

OPTIONS: tuple[Option, ...] = (
    Option(
        "path",
        text,
        FILES,
        None,
        "Store folder (it contains `commitlog/`), commit-log folder or segment file; local, or a "
        "URI of a file system that pyarrow or fsspec knows. `load(p)` sets it; `location` is the "
        "same.",
        group="path",
    ),
    Option(
        "paths",
        paths,
        FILES,
        None,
        "Several paths, as a JSON list; each store is a broker. `load([..])` sets it.",
        group="path",
    ),
    Option(
        "brokerName",
        names,
        FILES,
        None,
        "Broker names, one per store, with commas. It is the value of the column `brokerName` and "
        "the key in offsets and checkpoints, so it must stay the same. Default: the name in the "
        "store, or that of its folder.",
        parameter="broker_names",
    ),
    Option(
        "storageOptions",
        storage,
        FILES,
        None,
        "JSON object with arguments for the file system of a remote `path` (fsspec's "
        "`storage_options`).",
        parameter="storage_options",
    ),
    Option(
        "subscribe",
        names,
        READS,
        None,
        "Topics, with commas. Give at most one of subscribe, subscribePattern, assign and topic; "
        "without any, all user topics are read.",
        parameter="topics",
        group="topics",
        selects=True,
    ),
    Option(
        "subscribePattern",
        pattern,
        READS,
        None,
        "Regular expression that the whole topic name must match.",
        parameter="pattern",
        group="topics",
        selects=True,
    ),
    Option(
        "assign",
        parse_assign,
        READS,
        None,
        'Queues as JSON: `{"topic": {"broker": [0, 1]}}`.',
        parameter="assign",
        group="topics",
        selects=True,
    ),
    Option(
        "topic",
        text,
        READS | WRITES,
        None,
        "Read: one topic, as `subscribe`. Write: the topic of all rows; has precedence over the "
        "column.",
        parameter="topic",
        group="topics",
        selects=True,
    ),
    Option(
        "includeSystemTopics",
        boolean,
        READS,
        "false",
        "Whether patterns and all topics include the broker's own topics (delayed messages, "
        "halves, ops, traces, timers). A topic that you name is always read.",
        parameter="include_system_topics",
        selects=True,
    ),
    Option(
        "subExpression",
        parse_tags,
        READS,
        "*",
        "`*`, or tags joined by `||`. Messages are selected before they are decoded.",
        parameter="tags",
        selects=True,
    ),
    Option(
        "key",
        text,
        frozenset({Query.BATCH}),
        None,
        "Only messages with this key (one of `keys`, or the unique key). Uses the store's index "
        "files, if they exist.",
        parameter="key",
        selects=True,
    ),
    Option(
        "startingOffsets",
        partial(parse_offsets, parameter="starting_offsets"),
        READS,
        "earliest",
        "`earliest`, `latest` (streams only), or JSON topic -> broker -> queue -> queue offset, "
        "with -2 for earliest and -1 for latest; other queues start at earliest.",
        stream_default="latest",
        parameter="starting_offsets",
        selects=True,
    ),
    Option(
        "endingOffsets",
        partial(parse_offsets, parameter="ending_offsets"),
        BATCHES,
        "latest",
        "`latest`, or JSON as above, exclusive; -2 is not allowed.",
        parameter="ending_offsets",
        selects=True,
    ),
    Option(
        "startingTimestamp",
        moment,
        READS,
        None,
        "First store time: ms since 1970, or ISO 8601 (`2026-01-31T12:00:00+01:00`; without a "
        "zone: UTC). Has precedence over startingOffsetsByTimestamp, and that over "
        "startingOffsets. A stream over files starts there and reads all later records, whatever "
        "their time.",
        parameter="start_time",
        selects=True,
    ),
    Option(
        "endingTimestamp",
        moment,
        BATCHES,
        None,
        "Store time, as above, exclusive. Has precedence over endingOffsetsByTimestamp, and that "
        "over endingOffsets.",
        parameter="end_time",
        selects=True,
    ),
    Option(
        "startingOffsetsByTimestamp",
        queue_times,
        READS,
        None,
        'Times as JSON: `{"topic": {"broker": {"0": time}}}`, or one time for all queues: '
        '`{"topic": time}`, `{"topic": {"broker": time}}`. Each queue starts at its first message '
        "of that time or later; other queues start at earliest.",
        parameter="starting_times",
        selects=True,
    ),
    Option(
        "endingOffsetsByTimestamp",
        queue_times,
        BATCHES,
        None,
        "The same for the ends, exclusive; a time behind all messages is the end of the queue.",
        parameter="ending_times",
        selects=True,
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        choice(*TIMESTAMP_STRATEGY),
        READS,
        "error",
        "If startingTimestamp, or a time of startingOffsetsByTimestamp, is later than every "
        "message of its queues: `error`, or start at `latest`.",
        parameter="timestamp_strategy",
        selects=True,
    ),
    Option(
        "maxOffsetsPerTrigger",
        integer(1),
        STREAMS,
        None,
        "Most messages of a micro-batch, in log order.",
        parameter="max_offsets",
        pyspark=(4, 2),
    ),
    Option(
        "maxBytesPerTrigger",
        size(1),
        frozenset({Query.STREAM}),
        "1g",
        "Most bytes of log of a micro-batch, but at least one message.",
        parameter="max_bytes",
        pyspark=(4, 2),
    ),
    Option(
        "minOffsetsPerTrigger",
        integer(1),
        STREAMS,
        None,
        "Fewest messages of a micro-batch: with fewer it waits, up to maxTriggerDelay. Does not "
        "apply to the first micro-batch of a query and to Trigger.AvailableNow.",
        pyspark=(4, 2),
    ),
    Option(
        "maxTriggerDelay",
        duration,
        STREAMS,
        "15m",
        "Longest wait of minOffsetsPerTrigger, since the last micro-batch: `30s`, `15m`.",
        pyspark=(4, 2),
    ),
    Option(
        "splitBytes",
        size(64 << 10),
        FILES,
        "256m",
        "Bytes of log that one task reads. Without queues a task reads at least a segment.",
        parameter="split_bytes",
    ),
    Option(
        "minPartitions",
        integer(1, 100_000),
        READS,
        None,
        "Hint: lowers splitBytes, down to 16 MiB, until there are about so many tasks.",
        parameter="min_partitions",
    ),
    Option(
        "maxRecordsPerPartition",
        integer(1),
        READS,
        None,
        "Most messages of a task, including those that tags and times exclude. For files the "
        "driver reads the headers of the log for it.",
        parameter="max_records",
    ),
    Option(
        "plan",
        choice(*PLAN),
        FILES,
        "auto",
        "`scan`: ranges of bytes; `index`: the records of the consume queues; `file`: a task per "
        "segment. `auto`: index if the selected queues have less than 30 % of the bytes.",
        parameter="plan",
    ),
    Option(
        "batchRows",
        integer(1, 1_000_000),
        READS,
        "10000",
        "Most rows of one Arrow batch.",
        parameter="batch_rows",
    ),
    Option(
        "batchBytes",
        size(1 << 10, 1 << 30),
        READS,
        "1m",
        "Bytes at which an Arrow batch is closed.",
        parameter="batch_bytes",
    ),
    Option(
        "columns",
        names,
        READS,
        None,
        "Columns to build, with commas, in any case; `*`: all. `.schema(...)` does the same.",
        parameter="columns",
    ),
    Option(
        "properties",
        choice(*PROPERTIES),
        READS,
        "none",
        "Form of the column `properties`: `map`, a JSON object as text (`json`), the text as "
        "stored (`raw`), or no such column (`none`). A map takes a third of a scan. If only "
        "`columns` or the schema names the column, it is a map.",
        parameter="properties",
        group="properties",
    ),
    Option(
        "includeHeaders",
        boolean,
        READS,
        None,
        "Kafka's name: true is properties=map, false is properties=none.",
        group="properties",
    ),
    Option(
        "decompress",
        boolean,
        READS,
        "true",
        "Whether to decompress bodies that the producer compressed.",
        parameter="decompress",
    ),
    Option(
        "verifyCrc",
        choice(*VERIFY_CRC),
        FILES,
        "tail",
        "Bodies whose CRC is checked: `none`, the last one of each log (`tail`), `all`.",
        parameter="verify_crc",
    ),
    Option(
        "failOnDataLoss",
        boolean,
        READS,
        "true",
        "If the first messages are deleted, or a segment is missing: an error, or (false) a "
        "warning, and reading continues with the earliest available record. A missing store is "
        "always an error.",
        parameter="fail_on_data_loss",
    ),
    Option(
        "onCorruption",
        choice(*ON_CORRUPTION),
        FILES,
        "fail",
        "A damaged record is an error with file and offset (`fail`), or is skipped, counted and "
        "logged (`skip`).",
        parameter="on_corruption",
    ),
    *broker_options.OPTIONS,
    *access_options.OPTIONS,
)

TABLE: dict[str, Option] = {option.name.lower(): option for option in OPTIONS}
"""By name in lower case, as Spark gives names."""

GROUPS: dict[str, tuple[str, ...]] = {
    group: tuple(o.name for o in OPTIONS if o.group == group)
    for group in dict.fromkeys(o.group for o in OPTIONS if o.group)
}
"""Groups of options; a query takes one option of each."""

SELECTING: tuple[str, ...] = tuple(option.name for option in OPTIONS if option.selects)
"""Options that select messages."""

NAME_OF: dict[str, str] = {o.parameter: o.name for o in OPTIONS if o.parameter}
"""The option that sets each parameter of `pyrmq.segments`."""
