"""Hooks of users into sending and consuming. [SendMessageHook, ConsumeMessageHook]"""

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
    """One call of a producer. In `after` there is a `result` or an `error`, or neither for a
    cancelled call or a one-way send. `seconds`: the duration with all attempts. `memo` is free for
    the hooks."""

    group: str
    topic: str
    messages: Sequence[Message]
    """Several messages for a batch. `before` may add properties to them."""
    oneway: bool = False
    result: SendResult | ReceivedMessage | None = None
    """For `request` a ReceivedMessage."""
    error: Exception | None = None
    seconds: float = 0.0
    memo: dict[str, Any] = field(default_factory=dict)


class ConsumeOutcome(Enum):
    """The outcome of consuming messages. [ConsumeReturnType]"""

    SUCCESS = "consumed"
    TIME_OUT = "the listener took longer than consume_timeout"
    EXCEPTION = "the listener raised an error"
    FAILED = "the listener said that they are to come again"

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True)
class ConsumeContext:
    """Messages of one topic that are consumed together. `status` is set in `after`. `memo` is free
    for the hooks."""

    group: str
    topic: str
    messages: Sequence[ReceivedMessage]
    status: ConsumeOutcome | None = None
    seconds: float = 0.0
    memo: dict[str, Any] = field(default_factory=dict)


class SendMessageHook:
    """Its methods are called before and after a send; derive from it. They are plain functions that
    must not block, because they run in the client's event loop. What they raise is logged; the
    message is sent all the same."""

    def before(self, context: SendContext) -> None:
        """The messages are checked and not sent yet."""

    def after(self, context: SendContext) -> None:
        """The send has succeeded or failed. Hooks are called in reverse order."""


class ConsumeMessageHook:
    """Its methods are called before and after messages are consumed; otherwise as
    SendMessageHook."""

    def before(self, context: ConsumeContext) -> None:
        """A listener or a loop is about to get the messages."""

    def after(self, context: ConsumeContext) -> None:
        """The listener has finished with the messages. Hooks are called in reverse order."""


def check_hooks(hooks: Iterable[object], kind: type[H]) -> tuple[H, ...]:
    """Raises ClientError unless all hooks are of this kind."""
    if isinstance(hooks, str | bytes) or not isinstance(hooks, Iterable):
        raise ClientError(f"hooks is {hooks!r:.80}; it must be a list of {kind.__name__}s")
    found: list[H] = []
    for hook in hooks:
        check_kind("one of hooks", hook, (kind,), f"a {kind.__name__}")
        assert isinstance(hook, kind)
        found.append(hook)
    return tuple(found)


def call_hooks(functions: Iterable[Callable[[C], object]], context: C) -> None:
    """Calls each hook; logs what one raises."""
    for function in functions:
        try:
            function(context)
        except BaseException as e:
            if not isinstance(e, Exception) and in_main_thread():
                raise  # it ends the program
            name = getattr(function, "__qualname__", type(function).__qualname__)
            log.exception("the hook %s failed", escape(name))
