"""What users hook into sending and consuming, and who calls it.
[SendMessageHook, ConsumeMessageHook]"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import trio

from pyrmq.client.checks import check_kind
from pyrmq.client.user_functions import in_main_thread
from pyrmq.errors import ClientError
from pyrmq.escape import escape
from pyrmq.model.message import Message, SendResult
from pyrmq.model.record import ReceivedMessage

if TYPE_CHECKING:
    # Imported where it is used: most clients have none.
    from pyrmq.client.trace.tracer import Tracer

log = logging.getLogger(__name__)
C = TypeVar("C", bound="SendContext | ConsumeContext")
R = TypeVar("R", bound="SendResult | ReceivedMessage | None")
H = TypeVar("H", bound="SendMessageHook | ConsumeMessageHook")


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


class SendHooks:
    """The hooks of one producer. Raises ClientError for an object that is not a hook."""

    def __init__(self, group: str, hooks: Iterable[SendMessageHook]) -> None:
        self._group = group
        self._hooks = check_hooks(hooks, SendMessageHook)

    async def around(
        self,
        messages: Sequence[Message],
        send: Callable[[], Coroutine[Any, Any, R]],
        *,
        oneway: bool = False,
    ) -> R:
        """Calls the hooks before and after sending checked messages."""
        context = SendContext(self._group, messages[0].topic, messages, oneway)
        call_hooks([hook.before for hook in self._hooks], context)
        began = trio.current_time()
        try:
            result = await send()
        except Exception as e:
            context.error = e
            raise
        else:
            context.result = result
            return result
        finally:
            context.seconds = trio.current_time() - began
            call_hooks([hook.after for hook in reversed(self._hooks)], context)


class Observer(Protocol):
    """What services and loops tell: a `Tracer`, or hooks with one."""

    def consuming(self, messages: Sequence[ReceivedMessage]) -> Any:
        """Messages are about to be consumed together; for `listened`."""
        ...

    def listened(self, token: Any, done: bool, *, raised: bool, late: bool = False) -> None:
        """Whether all is consumed, a listener has raised, or took too long."""
        ...

    def polled(self, messages: Sequence[ReceivedMessage]) -> None:
        """Messages were handed to who polls: what comes of them is not heard of."""
        ...


class ConsumeHooks:
    """Hooks of one consumer, around its tracer. ClientError for what is no hook."""

    def __init__(
        self, group: str, hooks: Iterable[ConsumeMessageHook], tracer: Tracer | None
    ) -> None:
        self._group = group
        self._hooks = check_hooks(hooks, ConsumeMessageHook)
        self._tracer = tracer

    def consuming(self, messages: Sequence[ReceivedMessage]) -> Any:
        context = ConsumeContext(self._group, messages[0].topic, messages)
        call_hooks([hook.before for hook in self._hooks], context)
        traced = None if self._tracer is None else self._tracer.consuming(messages)
        return context, traced, trio.current_time()

    def listened(self, token: Any, done: bool, *, raised: bool, late: bool = False) -> None:
        context, traced, began = token
        if self._tracer is not None:
            self._tracer.listened(traced, done, raised=raised, late=late)
        status = ConsumeOutcome.SUCCESS if done else ConsumeOutcome.FAILED
        if raised:
            status = ConsumeOutcome.EXCEPTION
        elif late:
            status = ConsumeOutcome.TIME_OUT
        context.status = status
        context.seconds = trio.current_time() - began
        call_hooks([hook.after for hook in reversed(self._hooks)], context)

    def polled(self, messages: Sequence[ReceivedMessage]) -> None:
        if messages:
            self.listened(self.consuming(messages), True, raised=False)
