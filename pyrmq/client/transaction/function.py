"""A local transaction as a decorated function."""

from __future__ import annotations

from typing import Any, Protocol

from pyrmq.client.transaction.listener import (
    Check,
    Execute,
    TransactionListener,
    TransactionSendResult,
)
from pyrmq.errors import ClientError
from pyrmq.model.message import Message, MessageQueue
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.transaction import TransactionState


class TransactionSender(Protocol):
    """The methods of `TransactionalProducer` that a transaction function uses."""

    def listener_of(self, topic: str) -> TransactionListener | None:
        """The listener for transactions of a topic."""

    async def send_in_transaction(
        self,
        message: Message,
        arg: Any = None,
        *,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
        check_immunity: int | None = None,
    ) -> TransactionSendResult:
        """Sends a half, runs the local transaction and sends its outcome."""


class TransactionFunction:
    """A local transaction as a function: call it to send a message in it.

    `TransactionalProducer.transaction` creates it; its `check` decorates the function that answers
    for it later.
    """

    def __init__(self, producer: TransactionSender, execute: Execute) -> None:
        self.__name__: str = getattr(execute, "__name__", type(execute).__name__)
        self.__doc__ = execute.__doc__
        self.__wrapped__ = execute
        self._producer = producer
        self.execute_local_transaction: Execute = execute
        self.check_local_transaction: Check = self._no_check

    def check(self, function: Check) -> Check:
        """Decorates the function that returns the state of a transaction."""
        self.check_local_transaction = function
        return function

    @property
    def has_check(self) -> bool:
        return self.check_local_transaction != self._no_check

    def _no_check(self, message: ReceivedMessage) -> TransactionState:
        return TransactionState.UNKNOWN

    async def __call__(
        self,
        message: Message,
        arg: Any = None,
        *,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
        check_immunity: int | None = None,
    ) -> TransactionSendResult:
        """As `TransactionalProducer.send_in_transaction` with this function."""
        if self._producer.listener_of(message.topic) is not self:
            raise ClientError(
                f"topic {message.topic} is not one of transaction {self.__name__}: "
                "its checks would go elsewhere"
            )
        return await self._producer.send_in_transaction(
            message, arg, queue=queue, timeout=timeout, check_immunity=check_immunity
        )
