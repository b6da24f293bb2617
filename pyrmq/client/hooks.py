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
from pyrmq.client.telemetry import ClientTelemetry, Work
from pyrmq.client.user_functions import in_main_thread
from pyrmq.errors import ClientError
from pyrmq.escape import escape
from pyrmq.model.message import Message, SendResult
from pyrmq.model.record import ReceivedMessage

if TYPE_CHECKING:
    # Imported where they are used: most clients have none.
    from pyrmq.client.producer.outgoing import Outgoing
    from pyrmq.client.producer.pending import PendingSend
    from pyrmq.client.producer.send_soon import SoonSender
    from pyrmq.client.trace.tracer import Tracer
    from pyrmq.model.message import MessageQueue

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
    """The hooks of one producer, around its telemetry. Raises ClientError for an object that is not
    a hook."""

    def __init__(
        self,
        group: str,
        hooks: Iterable[SendMessageHook],
        telemetry: ClientTelemetry | None = None,
    ) -> None:
        self._group = group
        self._hooks = check_hooks(hooks, SendMessageHook)
        self.telemetry = telemetry

    async def around(
        self,
        messages: Sequence[Message],
        send: Callable[[Sequence[Message]], Coroutine[Any, Any, R]],
        *,
        work: Work = Work.SEND,
        batch: bool = False,
        oneway: bool = False,
        ordering_key: str | None = None,
    ) -> R:
        """Calls the hooks before and after sending checked messages. `send` gets those, or copies
        with more properties."""
        if not self._hooks:
            return await self._told(messages, send, work, batch, oneway, ordering_key)
        context = SendContext(self._group, messages[0].topic, messages, oneway)
        call_hooks([hook.before for hook in self._hooks], context)
        began = trio.current_time()
        try:
            result = await self._told(messages, send, work, batch, oneway, ordering_key)
        except Exception as e:
            context.error = e
            raise
        else:
            context.result = result
            return result
        finally:
            context.seconds = trio.current_time() - began
            call_hooks([hook.after for hook in reversed(self._hooks)], context)

    async def _told(
        self,
        messages: Sequence[Message],
        send: Callable[[Sequence[Message]], Coroutine[Any, Any, R]],
        work: Work,
        batch: bool,
        oneway: bool,
        ordering_key: str | None,
    ) -> R:
        telemetry = self.telemetry
        if telemetry is None:
            return await send(messages)
        operation = telemetry.begin(
            work,
            messages[0].topic,
            messages,
            batch=batch,
            oneway=oneway,
            ordering_key=ordering_key,
        )
        with telemetry.within(operation):
            operation.result = result = await send(operation.messages)
            return result

    async def soon(
        self, message: Message, queue: MessageQueue | None, sender: SoonSender
    ) -> PendingSend:
        """`send_soon` takes a checked message. Raises ClientError with hooks."""
        if self._hooks:
            raise ClientError("send_soon calls no hooks: use send, or a producer without hooks")
        assert self.telemetry is not None
        with self.telemetry.during(Work.CREATE, message.topic, [message]) as operation:
            copy = operation.messages[0]
            pending = sender.take(copy, queue) or await sender.send(copy, queue)
            operation.keys = (pending.key,)
            return pending

    def soon_batches(
        self,
        deliver: Callable[[Outgoing, MessageQueue | None], Coroutine[Any, Any, SendResult]],
        shown: Callable[[str], str],
    ) -> Callable[[Outgoing, MessageQueue | None], Coroutine[Any, Any, SendResult]]:
        """`deliver`, for batches of what `send_soon` took; `shown` converts a topic for users."""
        telemetry = self.telemetry
        if telemetry is None:
            return deliver

        async def told(request: Outgoing, queue: MessageQueue | None) -> SendResult:
            operation = telemetry.begin(
                Work.SEND,
                shown(request.topic),
                (),
                batch=True,
                keys=request.key.split(","),
                apart=True,
            )
            with telemetry.within(operation):
                operation.result = result = await deliver(request, queue)
                return result

        return told


class Observer(Protocol):
    """What services and loops tell: a `Tracer`, or hooks with one."""

    def consuming(self, messages: Sequence[ReceivedMessage]) -> Any:
        """Messages are about to be consumed together; for `listened`."""
        ...

    def listened(
        self, token: Any, done: bool, *, error: BaseException | None = None, late: bool = False
    ) -> None:
        """Whether all is consumed, what a listener has raised, and whether it took too long."""
        ...

    def polled(self, messages: Sequence[ReceivedMessage], since: float) -> None:
        """Messages were handed to who polls since that time of trio's clock: what comes of them is
        not heard of."""
        ...

    def unseen(self, token: Any) -> None:
        """Nobody has seen the messages of `consuming`: they come again."""
        ...


class ConsumeHooks:
    """Hooks of one consumer, around its tracer and in its telemetry. ClientError for what is no
    hook. `apart`: what follows `consuming` is no listener of ours."""

    def __init__(
        self,
        group: str,
        hooks: Iterable[ConsumeMessageHook],
        tracer: Tracer | None,
        telemetry: ClientTelemetry | None = None,
        *,
        apart: bool = False,
    ) -> None:
        self._group = group
        self._hooks = check_hooks(hooks, ConsumeMessageHook)
        self._tracer = tracer
        self._telemetry = telemetry
        self._apart = apart

    def consuming(self, messages: Sequence[ReceivedMessage]) -> Any:
        telemetry, operation = self._telemetry, None
        if telemetry is not None:
            batch = len(messages) > 1
            operation = telemetry.begin(
                Work.PROCESS, messages[0].topic, messages, batch=batch, apart=self._apart
            )
        return *self._begin(messages), operation

    def _begin(self, messages: Sequence[ReceivedMessage]) -> tuple[ConsumeContext, Any, float]:
        context = ConsumeContext(self._group, messages[0].topic, messages)
        call_hooks([hook.before for hook in self._hooks], context)
        traced = None if self._tracer is None else self._tracer.consuming(messages)
        return context, traced, trio.current_time()

    def listened(
        self, token: Any, done: bool, *, error: BaseException | None = None, late: bool = False
    ) -> None:
        context, traced, began, operation = token
        if self._tracer is not None:
            self._tracer.listened(traced, done, error=error, late=late)
        status = ConsumeOutcome.SUCCESS if done else ConsumeOutcome.FAILED
        if error is not None:
            status = ConsumeOutcome.EXCEPTION
        elif late:
            status = ConsumeOutcome.TIME_OUT
        context.status = status
        context.seconds = trio.current_time() - began
        call_hooks([hook.after for hook in reversed(self._hooks)], context)
        if operation is not None and self._telemetry is not None:
            operation.error = error
            operation.failure = "" if status is ConsumeOutcome.SUCCESS else status.name
            self._telemetry.end(operation)

    def polled(self, messages: Sequence[ReceivedMessage], since: float) -> None:
        if not messages:
            return
        if self._telemetry is not None:
            self._telemetry.received(messages, since)
        if self._hooks or self._tracer is not None:
            self.listened((*self._begin(messages), None), True)

    def unseen(self, token: Any) -> None:
        operation = token[3]
        if operation is not None and self._telemetry is not None:
            self._telemetry.forget(operation)
