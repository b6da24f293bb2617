"""The options of a lite pull consumer, checked. [DefaultLitePullConsumer]"""

from __future__ import annotations

from dataclasses import dataclass

from pyrmq.client.consumer.allocate import Strategy
from pyrmq.client.consumer.offsets import ConsumeFrom
from pyrmq.client.consumer.process_queue import Limits
from pyrmq.client.option_checks import check_function, check_seconds, check_whole
from pyrmq.client.producer.refusals import check_kind
from pyrmq.errors import ClientError


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePullOptions:
    """Options of LitePullConsumer. `check` raises ClientError if one is invalid."""

    consume_from: ConsumeFrom
    consume_timestamp: int | None
    strategy: Strategy
    auto_commit: bool
    auto_commit_interval: float
    pull_batch_size: int
    max_cached_messages: int
    max_cached_bytes: int
    max_span: int
    max_cached_total: int
    rebalance_interval: float

    def check(self) -> None:
        check_kind("consume_from", self.consume_from, (ConsumeFrom,), "a ConsumeFrom")
        if self.consume_timestamp is not None:
            check_whole("consume_timestamp", self.consume_timestamp, 0, 2**63 - 1)
        if (self.consume_timestamp is not None) != (self.consume_from is ConsumeFrom.TIMESTAMP):
            raise ClientError("consume_timestamp goes with ConsumeFrom.TIMESTAMP, and only with it")
        check_function("strategy", self.strategy, "a function such as pyrmq.average")
        check_kind("auto_commit", self.auto_commit, (bool,), "True or False")
        check_seconds("auto_commit_interval", self.auto_commit_interval, 1)
        check_whole("pull_batch_size", self.pull_batch_size, 1, 1024)
        check_whole("max_cached_messages", self.max_cached_messages, 1, 65535)
        check_whole("max_cached_bytes", self.max_cached_bytes, 1, 1 << 30)
        check_whole("max_span", self.max_span, 1, 65535)
        check_whole("max_cached_total", self.max_cached_total, 1, 6_553_500)
        check_seconds("rebalance_interval", self.rebalance_interval, 0.1)

    @property
    def limits(self) -> Limits:
        return Limits(self.max_cached_messages, self.max_cached_bytes, self.max_span)

    def texts(self) -> dict[str, object]:
        """The options as text, under the names that RocketMQ's tools show."""
        return {
            "autoCommit": self.auto_commit,
            "autoCommitIntervalMillis": int(self.auto_commit_interval * 1000),
            "consumeFromWhere": self.consume_from.value,
            "consumeMaxSpan": self.max_span,
            "messageModel": "CLUSTERING",
            "pullBatchSize": self.pull_batch_size,
            "pullThresholdForAll": self.max_cached_total,
            "pullThresholdForQueue": self.max_cached_messages,
            "pullThresholdSizeForQueue": self.max_cached_bytes >> 20,
        }
