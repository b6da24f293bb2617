"""Calling the hooks of a producer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import trio

from pyrmq.client.hooks import SendContext, SendMessageHook, call_hooks, check_hooks
from pyrmq.model.message import Message, SendResult
from pyrmq.model.record import ReceivedMessage

R = TypeVar("R", bound="SendResult | ReceivedMessage | None")


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
