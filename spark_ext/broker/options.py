"""Rows of the table of options for reads through a broker and for the sink. Names are those of
RocketMQ's clients, of rocketmq-spark, and of Spark's Kafka source."""

from __future__ import annotations

from pyrmq.errors import ConfigError, InvalidParameterError
from pyrmq.model.names import check_group
from pyrmq.net.address import Address, parse_addresses
from spark_ext.option import BROKER, WRITES, Option, boolean, choice, integer, size

MAX_BODY = 15 << 20
"""A frame on the wire has at most 16 MiB with its header. [NettyDecoder]"""


def _name_servers(value: str) -> tuple[Address, ...]:
    try:
        found = tuple(parse_addresses(value, "name server address"))
    except ConfigError as error:
        raise ValueError(f"is not HOST:PORT[;HOST:PORT]: {error}") from None
    if not found:
        raise ValueError("is empty: give HOST:PORT[;HOST:PORT]")
    return found


def _group(value: str) -> str:
    try:
        check_group(value.strip())
    except InvalidParameterError:
        raise ValueError(
            f"is no group name: {value!r}; 1 to 255 of the characters %|a-zA-Z0-9_-"
        ) from None
    return value.strip()


OPTIONS: tuple[Option, ...] = (
    Option(
        "nameServer",
        _name_servers,
        BROKER | WRITES,
        None,
        "Name servers, `host:port` with `;` between several. A read without `path` goes through "
        "brokers; a write always needs it.",
        required=BROKER | WRITES,
    ),
    Option(
        "pullBatchSize",
        integer(1, 100_000),
        BROKER,
        "256",
        "Messages requested by one pull. Brokers may return fewer: Apache's 32 from memory and 8 "
        "from disk, unless its `maxTransferCountOnMessageInMemory` and `...InDisk` are higher.",
    ),
    Option(
        "pullTimeoutMs",
        integer(1, 3_600_000),
        BROKER,
        "10000",
        "Milliseconds without an answer after which a request is repeated.",
    ),
    Option(
        "fetchOffset.numRetries",
        integer(0, 1000),
        BROKER,
        "3",
        "Further tries of a request that failed temporarily; then the query fails and names the "
        "broker.",
    ),
    Option(
        "fetchOffset.retryIntervalMs",
        integer(1, 3_600_000),
        BROKER,
        "100",
        "Milliseconds before the first of these; the pause doubles up to 2 seconds, or up to this "
        "value if it is longer.",
    ),
    Option(
        "producerGroup",
        _group,
        WRITES,
        None,
        "Producer group of the messages. Default: a generated name.",
    ),
    Option(
        "sendMsgTimeout",
        integer(1, 3_600_000),
        WRITES,
        "10000",
        "Milliseconds without an acknowledgement after which a request has failed.",
    ),
    Option(
        "retryTimesWhenSendFailed",
        integer(0, 1000),
        WRITES,
        "5",
        "Further tries of a request that was not acknowledged, on another broker if the rows "
        "allow it; pauses grow from 0.1 to 2 seconds.",
    ),
    Option(
        "retryAnotherBrokerWhenNotStoreOK",
        boolean,
        WRITES,
        "false",
        "If a broker stored the messages but could not flush or replicate them in time: true "
        "tries again (messages may be stored twice), false counts and logs it.",
    ),
    Option(
        "waitStoreMsgOK",
        boolean,
        WRITES,
        "true",
        "Whether a broker with SYNC_FLUSH or SYNC_MASTER acknowledges only after flush or "
        "replication.",
    ),
    Option(
        "maxMessageSize",
        size(1, MAX_BODY),
        WRITES,
        "4m",
        "Longest body. Brokers have a setting of the same name.",
    ),
    Option(
        "sendBatchBytes",
        size(1, MAX_BODY),
        WRITES,
        "1m",
        "Size at which a batch of messages is sent. Never more than maxMessageSize.",
    ),
    Option(
        "sendInFlight",
        integer(1, 1024),
        WRITES,
        "4",
        "Most unacknowledged requests of a task.",
    ),
    Option(
        "systemProperties",
        choice("error", "drop"),
        WRITES,
        "error",
        "Properties in the map that brokers and clients act on (DELAY, TRAN_MSG, RETRY_TOPIC, "
        "...): `error` refuses the row, `drop` removes them.",
    ),
)
