"""Sending an archive by Spark, through the sink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pyrmq.model.properties import SYSTEM_PROPERTIES
from spark_ext.jobs.choice import activate
from spark_ext.jobs.engine import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def send(
    spark: SparkSession,
    archived: DataFrame,
    options: Mapping[str, str],
    to: str | None,
    keep_queues: bool,
) -> None:
    activate(spark)
    writer = messages(archived, to, keep_queues).write.format(FORMAT).mode("append")
    writer.options(**options).save()


def messages(archived: DataFrame, to: str | None = None, keep_queues: bool = False) -> DataFrame:
    """Rows for the sink, of all messages with a body: topic (`to` or its own), tags, keys,
    properties, body, flag, with `keep_queues` queueId; the rows of a queue in one partition and in
    order."""
    own = F.map_filter("properties", lambda name, _: ~name.isin("", *sorted(SYSTEM_PROPERTIES)))
    columns = [
        (F.lit(to) if to else F.col("topic")).alias("topic"),
        F.col("tags"),
        F.col("keys"),
        own.alias("properties"),
        F.col("body"),
        F.col("flag"),
    ]
    if keep_queues:
        columns.append(F.col("queueId"))
    return (
        archived.where("coalesce(octet_length(body), 0) > 0")
        .repartition("topic", "brokerName", "queueId")
        .sortWithinPartitions("topic", "brokerName", "queueId", "commitLogOffset", "queueOffset")
        .select(columns)
    )
