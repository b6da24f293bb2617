"""Listeners that do as a test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from pyrmq.client.transaction.listener import State
from pyrmq.model.message import Message
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.transaction import TransactionState

COMMIT = TransactionState.COMMIT
ROLLBACK = TransactionState.ROLLBACK
UNKNOWN = TransactionState.UNKNOWN


class Scripted:
    """`execute` and `check` give the outcome (or raise); what they got is kept."""

    def __init__(
        self,
        execute: Callable[[], State] = lambda: COMMIT,
        check: Callable[[], State] = lambda: COMMIT,
    ) -> None:
        self.executed: list[tuple[Message, Any]] = []
        self.checked: list[ReceivedMessage] = []
        self._execute, self._check = execute, check

    def execute_local_transaction(self, message: Message, arg: Any) -> State:
        self.executed.append((message, arg))
        return self._execute()

    def check_local_transaction(self, message: ReceivedMessage) -> State:
        self.checked.append(message)
        return self._check()


class Async(Scripted):
    """The same as coroutines."""

    async def execute_local_transaction(self, message: Message, arg: Any) -> State:  # type: ignore[override]
        await trio.lowlevel.checkpoint()
        return super().execute_local_transaction(message, arg)

    async def check_local_transaction(self, message: ReceivedMessage) -> State:  # type: ignore[override]
        await trio.lowlevel.checkpoint()
        return super().check_local_transaction(message)


class Held(Async):
    """Checks wait for `release`."""

    def __init__(self) -> None:
        super().__init__()
        self.started, self.release = trio.Event(), trio.Event()

    async def check_local_transaction(self, message: ReceivedMessage) -> State:  # type: ignore[override]
        self.started.set()
        await self.release.wait()
        return await super().check_local_transaction(message)
