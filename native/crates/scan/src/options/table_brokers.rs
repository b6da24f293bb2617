//! Rows of the table of options for reads through a broker and for the sink, and how to connect:
//! names are those of RocketMQ's clients, of rocketmq-spark, and of Spark's Kafka source. Names of
//! options with a secret match `spark.redaction.regex` (secret, password, token, access key), so that
//! Spark itself does not show their values.

use super::row::{BROKER, Form, Queries, Query, Row, WRITES};

pub(super) const ROWS: &[Row] = &[
    Row::new("nameServer", Form::AsGiven, BROKER.and(WRITES))
        .required()
        .doc(
            "Name servers, `host:port` with `;` between several. A read without `path` \
             goes through brokers; a write always needs it.",
        ),
    Row::new("pullBatchSize", Form::Integer(1, 100000), BROKER)
        .default("256")
        .doc(
            "Messages requested by one pull. Brokers may return fewer: Apache's 32 from \
             memory and 8 from disk, unless its `maxTransferCountOnMessageInMemory` and \
             `...InDisk` are higher.",
        ),
    Row::new("pullTimeoutMs", Form::Integer(1, 3600000), BROKER)
        .default("10000")
        .doc("Milliseconds without an answer after which a request is repeated."),
    Row::new("fetchOffset.numRetries", Form::Integer(0, 1000), BROKER)
        .default("3")
        .doc(
            "Further tries of a request that failed temporarily; then the query fails \
             and names the broker.",
        ),
    Row::new(
        "fetchOffset.retryIntervalMs",
        Form::Integer(1, 3600000),
        BROKER,
    )
    .default("100")
    .doc(
        "Milliseconds before the first of these; the pause doubles up to 2 seconds, \
             or up to this value if it is longer.",
    ),
    Row::new("producerGroup", Form::Group, WRITES)
        .doc("Producer group of the messages. Default: a generated name."),
    Row::new("sendMsgTimeout", Form::Integer(1, 3600000), WRITES)
        .default("10000")
        .doc("Milliseconds without an acknowledgement after which a request has failed."),
    Row::new("retryTimesWhenSendFailed", Form::Integer(0, 1000), WRITES)
        .default("5")
        .doc(
            "Further tries of a request that was not acknowledged, on another broker if \
             the rows allow it; pauses grow from 0.1 to 2 seconds.",
        ),
    Row::new("retryAnotherBrokerWhenNotStoreOK", Form::Boolean, WRITES)
        .default("false")
        .doc(
            "If a broker stored the messages but could not flush or replicate them in \
             time: true tries again (messages may be stored twice), false counts and \
             logs it.",
        ),
    Row::new("waitStoreMsgOK", Form::Boolean, WRITES)
        .default("true")
        .doc(
            "Whether a broker with SYNC_FLUSH or SYNC_MASTER acknowledges only after \
             flush or replication.",
        ),
    Row::new("maxMessageSize", Form::Size(1, 15728640), WRITES)
        .default("4m")
        .doc("Longest body. Brokers have a setting of the same name."),
    Row::new("sendBatchBytes", Form::Size(1, 15728640), WRITES)
        .default("1m")
        .doc("Size at which a batch of messages is sent. Never more than maxMessageSize."),
    Row::new("sendInFlight", Form::Integer(1, 1024), WRITES)
        .default("4")
        .doc("Most unacknowledged requests of a task."),
    Row::new("txnAppId", Form::App, Queries::of(Query::Write)).doc(
        "With txnVersion: makes a write idempotent (see below), as Delta's options of these \
             names do. A name for the program that writes; in foreachBatch one that the query keeps.",
    ),
    Row::new(
        "txnVersion",
        Form::Integer(0, i64::MAX),
        Queries::of(Query::Write),
    )
    .doc(
        "Which of the program's writes this is; a repeated write has the same number. In \
             foreachBatch: the id of the micro-batch.",
    ),
    Row::new("idempotent", Form::Boolean, Queries::of(Query::WriteStream))
        .default("false")
        .doc(
            "Whether a micro-batch that Spark runs again leaves out what is stored already (see \
             below). The application is then the query, the version its micro-batch.",
        ),
    Row::new("systemProperties", Form::Choice(&["error", "drop"]), WRITES)
        .default("error")
        .doc(
            "Properties in the map that brokers and clients act on (DELAY, TRAN_MSG, \
             RETRY_TOPIC, ...): `error` refuses the row, `drop` removes them.",
        ),
    Row::new("accessKey", Form::Text, BROKER.and(WRITES)).doc(
        "Account (ACL 1.0) or user (2.0) that signs all requests. Goes with \
             secretKeyFile or secretKey.",
    ),
    Row::new("secretKeyFile", Form::Text, BROKER.and(WRITES))
        .group("secretKey")
        .doc(
            "File with its secret key, which only its owner may read (`chmod 600`). The \
             driver reads it; tasks get the key from the driver.",
        ),
    Row::new("secretKey", Form::Secret, BROKER.and(WRITES))
        .group("secretKey")
        .secret()
        .doc(
            "The key itself. Spark redacts it where it shows options. Not allowed in \
             CREATE TABLE and on command lines.",
        ),
    Row::new("securityToken", Form::Secret, BROKER.and(WRITES))
        .secret()
        .doc("Token of temporary keys."),
    Row::new("tls", Form::Boolean, BROKER.and(WRITES)).doc(
        "Whether to connect with TLS. The options below turn it on as well. Their \
             files must be at the same path on the driver and on all executors.",
    ),
    Row::new("tlsCaFile", Form::Text, BROKER.and(WRITES))
        .doc("Certificates that are trusted (PEM). Default: the system's."),
    Row::new("tlsCertFile", Form::Text, BROKER.and(WRITES))
        .doc("Own certificate with its chain (PEM)."),
    Row::new("tlsKeyFile", Form::Text, BROKER.and(WRITES)).doc("Its key (PEM)."),
    Row::new("tlsKeyPassword", Form::Secret, BROKER.and(WRITES))
        .secret()
        .doc("Password of the key."),
    Row::new("tlsServerName", Form::Text, BROKER.and(WRITES))
        .doc("Name in the certificates of servers, instead of the host of each address."),
    Row::new("tlsAnyName", Form::Boolean, BROKER.and(WRITES))
        .default("false")
        .doc("Whether to accept any name in a trusted certificate."),
    Row::new("tlsInsecure", Form::Boolean, BROKER.and(WRITES))
        .default("false")
        .doc(
            "Whether to verify nothing. Then everybody on the way can read and change \
             messages.",
        ),
];
