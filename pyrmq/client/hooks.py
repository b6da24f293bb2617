"""What users hook into sending and consuming. [SendMessageHook, ConsumeMessageHook]"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from pyrmq.client.producer.refusals import check_kind
from pyrmq.client.transaction.listener import in_main_thread
from pyrmq.errors import ClientError
from pyrmq.escape import escape
from pyrmq.model.message import Message, SendResult
from pyrmq.model.record import ReceivedMessage

log = logging.getLogger(__name__)
H = TypeVar("H", bound="SendMessageHook | ConsumeMessageHook")
C = TypeVar("C", bound="SendContext | ConsumeContext")


@dataclass(slots=True)
class SendContext:
    """One call of a producer. `result` or `error` is there in `after`, neither if the call was
    cancelled, or was a one-way send. `seconds`: what it took, with all attempts. `memo` is the
    hooks' own."""

    group: str
    topic: str
    messages: Sequence[Message]
    """Several for a batch. `before` may give them properties."""
    oneway: bool = False
    result: SendResult | ReceivedMessage | None = None
    """A ReceivedMessage for `request`."""
    error: Exception | None = None
    seconds: float = 0.0
    memo: dict[str, Any] = field(default_factory=dict)


class ConsumeOutcome(Enum):
    """What came of messages. [ConsumeReturnType]"""

    SUCCESS = "consumed"
    TIME_OUT = "the listener took longer than consume_timeout"
    EXCEPTION = "the listener raised an error"
    FAILED = "the listener said that they are to come again"

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True)
class ConsumeContext:
    """Messages of one topic that are consumed together. `status` is there in `after`, `memo` is the
    hooks' own."""

    group: str
    topic: str
    messages: Sequence[ReceivedMessage]
    status: ConsumeOutcome | None = None
    seconds: float = 0.0
    memo: dict[str, Any] = field(default_factory=dict)


class SendMessageHook:
    """Is called before and after a send; derive from it. Plain functions, which must not block:
    they run in the client's event loop. What they raise is logged, and costs no message."""

    def before(self, context: SendContext) -> None:
        """The messages are checked, nothing was sent."""

    def after(self, context: SendContext) -> None:
        """Sent, or failed. Hooks are called in the opposite order."""


class ConsumeMessageHook:
    """Is called before and after messages are consumed; otherwise as SendMessageHook."""

    def before(self, context: ConsumeContext) -> None:
        """A listener is about to have them, or a loop."""

    def after(self, context: ConsumeContext) -> None:
        """The listener is through with them. Hooks are called in the opposite order."""


def check_hooks(hooks: Iterable[object], kind: type[H]) -> tuple[H, ...]:
    """ClientError unless all are of this kind."""
    if isinstance(hooks, str | bytes) or not isinstance(hooks, Iterable):
        raise ClientError(f"hooks is {hooks!r:.80}; it must be a list of {kind.__name__}s")
    found: list[H] = []
    for hook in hooks:
        check_kind("one of hooks", hook, (kind,), f"a {kind.__name__}")
        assert isinstance(hook, kind)
        found.append(hook)
    return tuple(found)


def call_hooks(functions: Iterable[Callable[[C], object]], context: C) -> None:
    """Each of them; what one raises is logged."""
    for function in functions:
        try:
            function(context)
        except BaseException as e:
            if not isinstance(e, Exception) and in_main_thread():
                raise  # it ends the program
            name = getattr(function, "__qualname__", type(function).__qualname__)
            log.exception("the hook %s failed", escape(name))
