"""The options of consumers by type: see `option_types`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypedDict

from pyrmq.client.consumer.allocate import Strategy
from pyrmq.client.consumer.call_listener import ConsumeResult
from pyrmq.client.consumer.offsets import ConsumeFrom
from pyrmq.client.consumer.push_options import MessageModel
from pyrmq.client.hooks import ConsumeMessageHook
from pyrmq.model.message import ReceivedMessage

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


class _Both(TypedDict, total=False):
    namesrv: str | None
    namespace: str
    namespace_v2: str
    consume_from: ConsumeFrom
    consume_timestamp: int | None
    strategy: Strategy
    pull_batch_size: int
    max_cached_messages: int
    max_cached_bytes: int
    max_span: int
    rebalance_interval: float
    trace: bool
    trace_topic: str
    hooks: Sequence[ConsumeMessageHook]


class PushConsumerOptions(_Both, total=False):
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


class LitePullConsumerOptions(_Both, total=False):
    """Options of `LitePullConsumer`."""

    auto_commit: bool
    auto_commit_interval: float
    max_cached_total: int
