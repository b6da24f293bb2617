"""The records that clients write to the trace topic, as columns. [TraceDataEncoder]

A message's body holds records that end in 0x02, their fields stand between 0x01:

| Type | Fields behind it |
|---|---|
| Pub | time, region, group, topic, msgId, tags, keys, storeHost, bodyLength, cost, msgType, offsetMsgId, success[, clientHost] |
| SubBefore | time, region, group, requestId, msgId, retryTimes, keys |
| SubAfter | requestId, msgId, cost, success, keys[, contextCode[, time, group]] |
| EndTransaction | time, region, group, topic, msgId, tags, keys, storeHost, msgType, transactionId, state, fromCheck |
| Recall | time, region, group, topic, msgId, success |

Old clients write Pub without offsetMsgId. Missing texts are the word `null`.
"""  # noqa: E501

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TYPES = ("Pub", "SubBefore", "SubAfter", "EndTransaction", "Recall")
PLACES: dict[str, dict[str, int]] = {
    "Pub": {
        "time": 1, "group": 3, "topic": 4, "msgId": 5, "keys": 7, "storeHost": 8,
        "bodyLength": 9, "cost": 10, "clientHost": 14,
    },
    "SubBefore": {"time": 1, "group": 3, "requestId": 4, "msgId": 5, "retryTimes": 6, "keys": 7},
    "SubAfter": {
        "requestId": 1, "msgId": 2, "cost": 3, "success": 4, "keys": 5, "contextCode": 6,
        "time": 7, "group": 8,
    },
    "EndTransaction": {
        "time": 1, "group": 3, "topic": 4, "msgId": 5, "keys": 7, "storeHost": 8,
        "transactionId": 10, "state": 11, "fromCheck": 12,
    },
    "Recall": {"time": 1, "group": 3, "topic": 4, "msgId": 5, "success": 6},
}  # fmt: skip
"""Where the fields stand; `success` of Pub depends on the count of fields."""
NUMBERS = {"time": "bigint", "cost": "int", "bodyLength": "int", "retryTimes": "int"}
TEXTS = (
    "group", "topic", "msgId", "requestId", "keys", "storeHost", "clientHost", "transactionId",
    "state",
)  # fmt: skip
NEEDED = {
    "Pub": ("time", "group", "topic", "msgId", "cost"),
    "SubBefore": ("time", "group", "requestId", "msgId"),
    "SubAfter": ("requestId", "msgId", "cost"),
    "EndTransaction": ("time", "group", "topic", "msgId", "state"),
    "Recall": ("time", "group", "topic", "msgId"),
}
"""Fields without which a record is none."""

MAX_TIME = 32_503_680_000_000
"""Times lie in front of the year 3000, in ms: a foreign record's may be any number, and Spark fails
on one that it cannot compute with."""


def _field(name: str) -> Column:
    """A field's text by the record's type; null where the type has no such field."""
    found = F.lit(None).cast("string")
    for kind, places in PLACES.items():
        if name in places:
            found = F.when(F.col("type") == kind, F.get("f", F.lit(places[name]))).otherwise(found)
    return found


def parse(messages: DataFrame) -> DataFrame:
    """One row per trace record of `messages` (columns body, storeTimestamp): type, the fields of
    PLACES, storeTimestamp, and `bad`: it is no record that these rules know."""
    count = F.size("f")
    # Pub: 13 fields end in success; of 14 offsetMsgId stands before it, of 15 clientHost behind.
    pub_success = F.when(count == 13, F.get("f", F.lit(12))).otherwise(F.get("f", F.lit(13)))
    records = (
        messages.select("storeTimestamp", F.col("body").cast("string").alias("text"))
        .select("storeTimestamp", F.explode(F.split("text", "\x02")).alias("record"))
        .where(F.trim("record") != "")
        .select("storeTimestamp", F.split("record", "\x01").alias("f"))
        .withColumn("type", F.get("f", F.lit(0)))
    )
    success = F.when(F.col("type") == "Pub", pub_success).otherwise(_field("success"))
    fields = records.select(
        F.when(F.col("type").isin(*TYPES), F.col("type")).alias("type"),
        "storeTimestamp",
        *[_field(name).try_cast(kind).alias(name) for name, kind in NUMBERS.items()],
        *[F.nullif(F.nullif(_field(name), F.lit("")), F.lit("null")).alias(name) for name in TEXTS],
        _field("contextCode").try_cast("int").alias("contextCode"),
        success.try_cast("boolean").alias("success"),
        _field("fromCheck").try_cast("boolean").alias("fromCheck"),
    )
    complete = F.lit(False)
    for kind, names in NEEDED.items():
        whole = F.lit(True)
        for name in names:
            whole = whole & F.col(name).isNotNull()
        complete = F.when(F.col("type") == kind, whole).otherwise(complete)
    time, cost = F.col("time"), F.col("cost")
    sane = (time.isNull() | time.between(0, MAX_TIME - 1)) & (cost.isNull() | (cost >= 0))
    return fields.withColumn("bad", ~(F.coalesce(complete, F.lit(False)) & sane))
