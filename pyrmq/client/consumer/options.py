"""The options of consumers: their types for type checkers (see `option_types`), and their checks.
[DefaultMQPushConsumer, DefaultMQPushConsumerImpl, DefaultLitePullConsumer]"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any, TypedDict

from pyrmq.client.checks import check_function, check_kind, check_seconds, check_whole
from pyrmq.client.consumer.allocate import BROKER_STRATEGIES, Strategy
from pyrmq.client.consumer.consume_service import ConsumeResult
from pyrmq.client.consumer.offsets import ConsumeFrom
from pyrmq.client.consumer.pop.pop_options import PopOptions
from pyrmq.client.consumer.process_queue import Limits
from pyrmq.client.consumer.send_back import MAX_RECONSUME_TIMES
from pyrmq.client.hooks import ConsumeMessageHook
from pyrmq.errors import ClientError
from pyrmq.model.message import ReceivedMessage
from pyrmq.model.pop import MAX_POP
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls

INVISIBLE_TIME = 60.0
POP_BATCH = 32
MAX_POPPED = 96
"""popInvisibleTime, popBatchNums, popThresholdForQueue."""
POP_DEFAULTS = {
    "invisible_time": INVISIBLE_TIME,
    "pop_batch_size": POP_BATCH,
    "max_popped_messages": MAX_POPPED,
}
UNLIMITED = 2**31 - 1
"""Deliveries of a message that is consumed in order, unless the user sets a limit."""


class MessageModel(Enum):
    """Whether the members of a group share the messages, or each member gets all. Its text is its
    name. [MessageModel]"""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"

    def __str__(self) -> str:
        return self.name


def check_start(consume_from: ConsumeFrom, timestamp: int | None) -> None:
    """Where a new group begins. Raises ClientError if that is invalid."""
    check_kind("consume_from", consume_from, (ConsumeFrom,), "a ConsumeFrom")
    if timestamp is not None:
        check_whole("consume_timestamp", timestamp, 0, 2**63 - 1)
    if (timestamp is not None) != (consume_from is ConsumeFrom.TIMESTAMP):
        raise ClientError("consume_timestamp goes with ConsumeFrom.TIMESTAMP, and only with it")


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOptions:
    """Options of PushConsumer. `check` raises ClientError if one is invalid."""

    listener: Callable[[Any], Any] | None
    concurrency: int
    consume_from: ConsumeFrom
    consume_timestamp: int | None
    strategy: Strategy
    message_model: MessageModel
    orderly: bool
    batch_size: int
    max_reconsume_times: int | None
    consume_timeout: float
    suspend_time: float
    close_grace: float
    pull_batch_size: int
    pull_interval: float
    max_cached_messages: int
    max_cached_bytes: int
    max_span: int
    persist_interval: float
    rebalance_interval: float
    instance_name: str | None
    offset_folder: Path | str | None
    client_rebalance: bool
    pop: bool
    invisible_time: float
    pop_batch_size: int
    max_popped_messages: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> PushOptions:
        """From the arguments of PushConsumer, which are checked."""
        options = cls(**{field.name: given[field.name] for field in fields(cls)})
        options.check()
        return options

    def check(self) -> None:
        check_start(self.consume_from, self.consume_timestamp)
        check_kind("message_model", self.message_model, (MessageModel,), "a MessageModel")
        check_kind("orderly", self.orderly, (bool,), "True or False")
        check_function("strategy", self.strategy, "a function such as pyrmq.average")
        self._check_listener()
        self._check_numbers()
        self._check_pop()
        check_kind("instance_name", self.instance_name, (str, type(None)), "str")
        if self.instance_name is not None:
            _check_instance_name(self.instance_name)
        check_kind("offset_folder", self.offset_folder, (str, Path, type(None)), "a path")
        if self.offset_folder is not None and not self.broadcasting:
            raise ClientError(
                "offset_folder goes with MessageModel.BROADCASTING: in clustering the brokers keep "
                "the offsets"
            )

    def _check_listener(self) -> None:
        if self.listener is not None:
            check_function("listener", self.listener, "a function of a message, async or plain")
        elif self.orderly:
            raise ClientError("orderly needs a listener: a loop says nothing of failures")
        elif self.batch_size != 1:
            raise ClientError("batch_size goes with a listener: a loop gets single messages")

    def _check_pop(self) -> None:
        check_kind("client_rebalance", self.client_rebalance, (bool,), "True or False")
        check_kind("pop", self.pop, (bool,), "True or False")
        check_seconds("invisible_time", self.invisible_time, 5, 300)
        check_whole("pop_batch_size", self.pop_batch_size, 1, MAX_POP)
        check_whole("max_popped_messages", self.max_popped_messages, 1, 65535)
        if self.pop and (self.orderly or self.broadcasting):
            kind = "orderly" if self.orderly else "MessageModel.BROADCASTING"
            raise ClientError(f"pop=True and {kind} exclude each other: queues are popped by many")
        if self.pop and not self.client_rebalance:
            raise ClientError(
                "with client_rebalance=False the broker says whether queues are popped: leave "
                "pop=True away"
            )
        if self.by_broker and self.strategy not in BROKER_STRATEGIES:
            raise ClientError(
                "with client_rebalance=False the broker shares the queues: its strategies are "
                "average and average_by_circle"
            )
        if not self.may_pop:
            for name, usual in POP_DEFAULTS.items():
                if getattr(self, name) != usual:
                    raise ClientError(f"{name} goes with pop=True or client_rebalance=False")

    @property
    def by_broker(self) -> bool:
        """Whether a broker shares the queues, and says how they are read. (Consumers that are
        orderly or broadcast never ask it.)"""
        return not (self.client_rebalance or self.orderly or self.broadcasting)

    @property
    def may_pop(self) -> bool:
        """Whether queues may be popped."""
        return self.pop or self.by_broker

    @property
    def pops(self) -> PopOptions | None:
        """How queues are popped, if any may be."""
        if not self.may_pop:
            return None
        return PopOptions(
            invisible=self.invisible_time,
            batch=self.pop_batch_size,
            interval=self.pull_interval,
            most=self.max_popped_messages,
        )

    def _check_numbers(self) -> None:
        check_whole("concurrency", self.concurrency, 1, 1000)
        check_whole("batch_size", self.batch_size, 1, 1024)
        if self.max_reconsume_times is not None:
            check_whole("max_reconsume_times", self.max_reconsume_times, 0, UNLIMITED)
        check_whole("pull_batch_size", self.pull_batch_size, 1, 1024)
        check_whole("max_cached_messages", self.max_cached_messages, 1, 65535)
        check_whole("max_cached_bytes", self.max_cached_bytes, 1, 1 << 30)
        check_whole("max_span", self.max_span, 1, 65535)
        check_seconds("consume_timeout", self.consume_timeout, 1)
        check_seconds("suspend_time", self.suspend_time, 0.01, 30)
        check_seconds("close_grace", self.close_grace, 0)
        check_seconds("pull_interval", self.pull_interval, 0, 65.535)
        check_seconds("persist_interval", self.persist_interval, 0.1)
        check_seconds("rebalance_interval", self.rebalance_interval, 0.1)

    @property
    def broadcasting(self) -> bool:
        return self.message_model is MessageModel.BROADCASTING

    @property
    def max_times(self) -> int:
        """Further deliveries before a message goes to the dead-letter topic."""
        if self.max_reconsume_times is not None:
            return self.max_reconsume_times
        return UNLIMITED if self.orderly else MAX_RECONSUME_TIMES

    @property
    def limits(self) -> Limits:
        span = None if self.orderly else self.max_span
        return Limits(self.max_cached_messages, self.max_cached_bytes, span)

    def texts(self) -> dict[str, object]:
        """The options as text, under the names that RocketMQ's tools show."""
        return {
            "PROP_THREADPOOL_CORE_SIZE": self.concurrency,
            "clientRebalance": self.client_rebalance,
            "popBatchNums": self.pop_batch_size,
            "popInvisibleTime": int(self.invisible_time * 1000),
            "popThresholdForQueue": self.max_popped_messages,
            "allocateMessageQueueStrategy": getattr(
                self.strategy, "__name__", type(self.strategy).__name__
            ),
            "consumeConcurrentlyMaxSpan": self.max_span,
            "consumeFromWhere": self.consume_from.value,
            "consumeMessageBatchMaxSize": self.batch_size,
            "consumeThreadMax": self.concurrency,
            "consumeThreadMin": self.concurrency,
            "consumeTimeout": self.consume_timeout / 60,
            "maxReconsumeTimes": self.max_times,
            "messageModel": self.message_model.value,
            "pullBatchSize": self.pull_batch_size,
            "pullInterval": int(self.pull_interval * 1000),
            "pullThresholdForQueue": self.max_cached_messages,
            "pullThresholdSizeForQueue": self.max_cached_bytes >> 20,
            "suspendCurrentQueueTimeMillis": int(self.suspend_time * 1000),
        }


def _check_instance_name(name: str) -> None:
    """It ends the client id, which is the name of a folder when broadcasting."""
    if not 0 < len(name) <= 128:
        raise ClientError("instance_name must have 1 to 128 characters")
    if not name.isprintable() or "/" in name:
        raise ClientError(f"instance_name is {name!r}; it may hold what is printed, and no '/'")


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
        check_start(self.consume_from, self.consume_timestamp)
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


Result = ConsumeResult | int | None
"""The allowed results of a listener; a number only if it gets lists."""
AsyncListener = (
    Callable[[ReceivedMessage], Awaitable[Result]]
    | Callable[[list[ReceivedMessage]], Awaitable[Result]]
)
"""An async function of a message, or, with `batch_size` above 1, of a list of messages."""
PlainListener = Callable[[ReceivedMessage], Result] | Callable[[list[ReceivedMessage]], Result]
"""The same as a plain function."""
Listener = AsyncListener | PlainListener


class _All(TypedDict, total=False):
    """Options of all consumers."""

    namesrv: str | None
    credentials: Credentials | None
    tls: Tls | None
    namespace: str
    namespace_v2: str
    consume_from: ConsumeFrom
    consume_timestamp: int | None
    trace: bool
    trace_topic: str
    hooks: Sequence[ConsumeMessageHook]


class SimpleConsumerOptions(_All, total=False):
    """Options of `SimpleConsumer`."""

    fifo: bool


class _Pulling(_All, total=False):
    strategy: Strategy
    pull_batch_size: int
    max_cached_messages: int
    max_cached_bytes: int
    max_span: int
    rebalance_interval: float


class PushConsumerOptions(_Pulling, total=False):
    """Options of `PushConsumer` except its listener."""

    concurrency: int
    message_model: MessageModel
    orderly: bool
    batch_size: int
    max_reconsume_times: int | None
    consume_timeout: float
    suspend_time: float
    close_grace: float
    pull_interval: float
    persist_interval: float
    instance_name: str | None
    offset_folder: Path | str | None
    client_rebalance: bool
    pop: bool
    invisible_time: float
    pop_batch_size: int
    max_popped_messages: int


class LitePullConsumerOptions(_Pulling, total=False):
    """Options of `LitePullConsumer`."""

    auto_commit: bool
    auto_commit_interval: float
    max_cached_total: int
