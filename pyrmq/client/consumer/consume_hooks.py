"""Who looks on while messages are consumed: message trace, and hooks of users."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import trio

from pyrmq.client.hooks import (
    ConsumeContext,
    ConsumeMessageHook,
    ConsumeOutcome,
    call_hooks,
    check_hooks,
)
from pyrmq.model.record import ReceivedMessage

if TYPE_CHECKING:
    from pyrmq.client.trace.trace import Tracer


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
