"""SQL on the segments of a store: no broker, no consumer.

    python examples/spark/batch.py [STORE]

Without STORE it creates one in a temporary folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import sample
from pyspark.sql import SparkSession

import spark_ext


def run(spark: SparkSession, store: str) -> None:
    # The source builds only the named columns: name those that you need.
    messages = (
        spark.read.format("rocketmq")
        .schema("topic string, queueId int, queueOffset bigint, tags string, bodyLength int")
        .load(store)
    )
    messages.createOrReplaceTempView("messages")
    spark.sql(
        """
        SELECT topic, tags, count(*) AS messages, sum(bodyLength) AS bytes
        FROM messages GROUP BY topic, tags ORDER BY topic, tags
        """
    ).show()

    # Options select messages before they are decoded.
    large = (
        spark.read.format("rocketmq")
        .option("subscribe", "Orders")
        .option("subExpression", "large")
        .schema("keys string, body binary")
        .load(store)
    )
    print("large orders:", large.count())
    for row in large.selectExpr("keys", "decode(body, 'UTF-8') AS text").take(3):
        print(" ", row["keys"], row["text"][:20])


def main() -> None:
    spark = spark_ext.session(SparkSession.builder.appName("batch example"))
    if len(sys.argv) > 1:
        run(spark, sys.argv[1])
        return
    with TemporaryDirectory(prefix="pyrmq-") as folder:
        run(spark, str(sample.make(Path(folder) / "broker-a").store))


if __name__ == "__main__":
    main()
