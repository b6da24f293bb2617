//! Rows of the table of options for reads: of files, and what reads through a broker take as well.
//! Names and defaults follow Spark's Kafka source and rocketmq-spark.

use super::row::{BATCHES, FILES, Form, Queries, Query, READS, Row, STREAMS, WRITES};

pub(super) const ROWS: &[Row] = &[
    Row::new("path", Form::Text, FILES).group("path").doc(
        "Store folder (it contains `commitlog/`), commit-log folder or segment \
             file; local, or a URI of a file system that pyarrow or fsspec knows. A pattern \
             (`/data/store-*`, `?`, `[ab]`, `{a,b}`) names several. `load(p)` sets it; \
             `location` is the same.",
    ),
    Row::new("paths", Form::Paths, FILES).group("path").doc(
        "Several paths or patterns, as a JSON list; each store is a broker. `load([..])` \
             sets it.",
    ),
    Row::new("brokerName", Form::Names, FILES)
        .parameter("broker_names")
        .doc(
            "Broker names, one per store, with commas; those of a pattern are sorted by \
             path. It is the value of the column \
             `brokerName` and the key in offsets and checkpoints, so it must stay the \
             same. Default: the name in the store, or that of its folder.",
        ),
    Row::new("storageOptions", Form::Storage, FILES)
        .parameter("storage_options")
        .doc(
            "JSON object with arguments for the file system of a remote `path` \
             (fsspec's `storage_options`).",
        ),
    Row::new("subscribe", Form::Names, READS)
        .parameter("topics")
        .group("topics")
        .selects()
        .doc(
            "Topics, with commas. Give at most one of subscribe, subscribePattern, \
             assign and topic; without any, all user topics are read.",
        ),
    Row::new("subscribePattern", Form::Pattern, READS)
        .parameter("pattern")
        .group("topics")
        .selects()
        .doc("Regular expression that the whole topic name must match."),
    Row::new("assign", Form::Assign, READS)
        .parameter("assign")
        .group("topics")
        .selects()
        .doc("Queues as JSON: `{\"topic\": {\"broker\": [0, 1]}}`."),
    Row::new("topic", Form::Text, READS.and(WRITES))
        .parameter("topic")
        .group("topics")
        .selects()
        .doc(
            "Read: one topic, as `subscribe`. Write: the topic of all rows; has \
             precedence over the column.",
        ),
    Row::new("includeSystemTopics", Form::Boolean, READS)
        .default("false")
        .parameter("include_system_topics")
        .selects()
        .doc(
            "Whether patterns and all topics include the broker's own topics (delayed \
             messages, halves, ops, traces, timers). A topic that you name is always \
             read.",
        ),
    Row::new("subExpression", Form::Tags, READS)
        .default("*")
        .parameter("tags")
        .selects()
        .doc(
            "`*`, or tags joined by `||`. Messages are selected before they are \
             decoded.",
        ),
    Row::new("key", Form::Text, Queries::of(Query::Batch))
        .parameter("key")
        .selects()
        .doc(
            "Only messages with this key (one of `keys`, or the unique key). Uses the \
             store's index files, if they exist.",
        ),
    Row::new("startingOffsets", Form::Offsets, READS)
        .default("earliest")
        .stream_default("latest")
        .parameter("starting_offsets")
        .selects()
        .doc(
            "`earliest`, `latest` (streams only), or JSON topic -> broker -> queue -> \
             queue offset, with -2 for earliest and -1 for latest; other queues start \
             at earliest.",
        ),
    Row::new("endingOffsets", Form::Offsets, BATCHES)
        .default("latest")
        .parameter("ending_offsets")
        .selects()
        .doc("`latest`, or JSON as above, exclusive; -2 is not allowed."),
    Row::new("startingTimestamp", Form::Moment, READS)
        .parameter("start_time")
        .selects()
        .doc(
            "First store time: ms since 1970, or ISO 8601 (`2026-01-31T12:00:00+01:00`; \
             without a zone: UTC). Has precedence over startingOffsetsByTimestamp, and \
             that over startingOffsets. A stream over files starts there and reads all \
             later records, whatever their time.",
        ),
    Row::new("endingTimestamp", Form::Moment, BATCHES)
        .parameter("end_time")
        .selects()
        .doc(
            "Store time, as above, exclusive. Has precedence over \
             endingOffsetsByTimestamp, and that over endingOffsets.",
        ),
    Row::new("startingOffsetsByTimestamp", Form::QueueTimes, READS)
        .parameter("starting_times")
        .selects()
        .doc(
            "Times as JSON: `{\"topic\": {\"broker\": {\"0\": time}}}`, or one time for \
             all queues: `{\"topic\": time}`, `{\"topic\": {\"broker\": time}}`. Each \
             queue starts at its first message of that time or later; other queues \
             start at earliest.",
        ),
    Row::new("endingOffsetsByTimestamp", Form::QueueTimes, BATCHES)
        .parameter("ending_times")
        .selects()
        .doc(
            "The same for the ends, exclusive; a time behind all messages is the end of \
             the queue.",
        ),
    Row::new(
        "startingOffsetsByTimestampStrategy",
        Form::Choice(&["error", "latest"]),
        READS,
    )
    .default("error")
    .parameter("timestamp_strategy")
    .selects()
    .doc(
        "If startingTimestamp, or a time of startingOffsetsByTimestamp, is later \
             than every message of its queues: `error`, or start at `latest`.",
    ),
    Row::new("maxOffsetsPerTrigger", Form::Integer(1, i64::MAX), STREAMS)
        .parameter("max_offsets")
        .since(4, 2)
        .doc("Most messages of a micro-batch, in log order."),
    Row::new(
        "maxBytesPerTrigger",
        Form::Size(1, 1125899906842624),
        Queries::of(Query::Stream),
    )
    .default("1g")
    .parameter("max_bytes")
    .since(4, 2)
    .doc("Most bytes of log of a micro-batch, but at least one message."),
    Row::new("minOffsetsPerTrigger", Form::Integer(1, i64::MAX), STREAMS)
        .since(4, 2)
        .doc(
            "Fewest messages of a micro-batch: with fewer it waits, up to \
             maxTriggerDelay. Does not apply to the first micro-batch of a query and to \
             Trigger.AvailableNow.",
        ),
    Row::new("maxTriggerDelay", Form::Duration, STREAMS)
        .default("15m")
        .since(4, 2)
        .doc(
            "Longest wait of minOffsetsPerTrigger, since the last micro-batch: `30s`, \
             `15m`.",
        ),
    Row::new("splitBytes", Form::Size(65536, 1125899906842624), FILES)
        .default("256m")
        .parameter("split_bytes")
        .doc(
            "Bytes of log that one task reads. Without queues a task reads at least a \
             segment.",
        ),
    Row::new("minPartitions", Form::Integer(1, 100000), READS)
        .parameter("min_partitions")
        .doc(
            "Hint: lowers splitBytes, down to 16 MiB, until there are about so many \
             tasks.",
        ),
    Row::new("maxRecordsPerPartition", Form::Integer(1, i64::MAX), READS)
        .parameter("max_records")
        .doc(
            "Most messages of a task, including those that tags and times exclude. For \
             files the driver reads the headers of the log for it.",
        ),
    Row::new(
        "plan",
        Form::Choice(&["auto", "scan", "index", "file"]),
        FILES,
    )
    .default("auto")
    .parameter("plan")
    .doc(
        "`scan`: ranges of bytes; `index`: the records of the consume queues; \
             `file`: a task per segment. `auto`: index if the selected queues have less \
             than 30 % of the bytes.",
    ),
    Row::new("batchRows", Form::Integer(1, 1000000), READS)
        .default("10000")
        .parameter("batch_rows")
        .doc("Most rows of one Arrow batch."),
    Row::new("batchBytes", Form::Size(1024, 1073741824), READS)
        .default("1m")
        .parameter("batch_bytes")
        .doc("Bytes at which an Arrow batch is closed."),
    Row::new("columns", Form::Names, READS)
        .parameter("columns")
        .doc(
            "Columns to build, with commas, in any case; `*`: all. `.schema(...)` does \
             the same.",
        ),
    Row::new(
        "properties",
        Form::Choice(&["map", "json", "raw", "none"]),
        READS,
    )
    .default("none")
    .parameter("properties")
    .group("properties")
    .doc(
        "Form of the column `properties`: `map`, a JSON object as text (`json`), \
             the text as stored (`raw`), or no such column (`none`). A map takes a \
             third of a scan. If only `columns` or the schema names the column, it is a \
             map.",
    ),
    Row::new("includeHeaders", Form::Boolean, READS)
        .group("properties")
        .doc("Kafka's name: true is properties=map, false is properties=none."),
    Row::new("decompress", Form::Boolean, READS)
        .default("true")
        .parameter("decompress")
        .doc("Whether to decompress bodies that the producer compressed."),
    Row::new("verifyCrc", Form::Choice(&["none", "tail", "all"]), FILES)
        .default("tail")
        .parameter("verify_crc")
        .doc(
            "Bodies whose CRC is checked: `none`, the last one of each log (`tail`), \
             `all`.",
        ),
    Row::new("failOnDataLoss", Form::Boolean, READS)
        .default("true")
        .parameter("fail_on_data_loss")
        .doc(
            "If the first messages are deleted, or a segment is missing: an error, or \
             (false) a warning, and reading continues with the earliest available \
             record. A missing store is always an error.",
        ),
    Row::new("onCorruption", Form::Choice(&["fail", "skip"]), FILES)
        .default("fail")
        .parameter("on_corruption")
        .doc(
            "A damaged record is an error with file and offset (`fail`), or is skipped, \
             counted and logged (`skip`).",
        ),
    Row::new("reader", Form::Choice(&["auto", "jvm", "python"]), READS)
        .default("auto")
        .doc(
            "Which reader: the one in the JVM (`jvm`), the one in Python (`python`), or \
             the one in the JVM where its jar is there and can do what is asked \
             (`auto`).",
        ),
    Row::new("history", Form::Text, BATCHES).doc(
        "Iceberg table of the topic, such as `mq.orders`: its messages, and from the log only \
             those that it does not have yet. The reader in Python reads it.",
    ),
    Row::new("historyCatalog", Form::Text, BATCHES).doc(
        "Catalog of that table, as `pyrmq pipeline table write --catalog` takes it. \
             Credentials belong into `.pyiceberg.yaml`.",
    ),
    Row::new("historyOnError", Form::Choice(&["fail", "skip"]), BATCHES)
        .default("fail")
        .doc(
            "If the table has columns of decoded bodies, and a body of the log does not fit its \
             schema: an error, or the message is left out.",
        ),
    Row::new("body", Form::Choice(&["binary", "utf8", "json"]), FILES)
        .default("binary")
        .doc(
            "Form of the column `body`: bytes (`binary`), a text (`utf8`), or the columns of \
             bodySchema (`json`), as `from_json` makes them.",
        ),
    Row::new("bodySchema", Form::Ddl, FILES).doc(
        "With `body=json`: the columns of the JSON objects, as in CREATE TABLE, \
             such as `id BIGINT, items ARRAY<STRING>`.",
    ),
];
