"""Functions that decide about the transactions of a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from trio.testing import MockClock

from pyrmq.client import TransactionState
from pyrmq.errors import (
    ClientError,
    InvalidParameterError,
)
from pyrmq.model.message import Message, MessageQueue
from pyrmq.model.record import ReceivedMessage
from tests.client.listeners import COMMIT, ROLLBACK, Scripted
from tests.client.unit.transactional import producer
from tests.support.scripted.streams import (
    StreamBroker,
    StreamCluster,
)

ONE = MessageQueue("T", "broker-a", 1)


async def test_functions_by_topic(
    cluster: StreamCluster, broker: StreamBroker, mock_clock: MockClock
) -> None:
    sender = producer(None)
    ran: list[Any] = []

    @sender.transaction("T")
    async def orders(message: Message, arg: Any) -> TransactionState:
        """Places an order."""
        ran.append(("orders", arg))
        return COMMIT

    @sender.transaction()
    def others(message: Message, arg: Any) -> TransactionState:
        ran.append(("others", arg))
        return ROLLBACK

    @orders.check
    def check(message: ReceivedMessage) -> TransactionState:
        return COMMIT

    @others.check
    async def _(message: ReceivedMessage) -> TransactionState:
        return COMMIT

    assert (orders.__name__, orders.__doc__) == ("orders", "Places an order.")
    assert isinstance(check, Callable), "the check is still a function"
    async with sender:
        first = await orders(Message("T", b"x"), 1, queue=ONE, check_immunity=3)
        second = await others(Message("U", b"x"), 2)
        third = await sender.send_in_transaction(Message("T", b"x"), 3)
        with pytest.raises(ClientError, match="topic U is not one of transaction orders"):
            await orders(Message("U", b"x"))
    assert ran == [("orders", 1), ("others", 2), ("orders", 3)]
    assert [r.local_state for r in (first, second, third)] == [COMMIT, ROLLBACK, COMMIT]


async def test_a_topic_without_a_function(cluster: StreamCluster, mock_clock: MockClock) -> None:
    sender = producer(None)
    orders = sender.transaction("T")(Scripted().execute_local_transaction)
    orders.check(Scripted().check_local_transaction)
    async with sender:
        with pytest.raises(ClientError, match="topic U"):
            await sender.send_in_transaction(Message("U", b"x"))


async def test_functions_that_are_missing_or_too_many(
    cluster: StreamCluster, clock: MockClock
) -> None:
    with pytest.raises(ClientError, match="no listener"):
        async with producer(None):
            pass
    sender = producer(None)

    @sender.transaction
    async def place(message: Message, arg: Any) -> TransactionState:
        return COMMIT

    with pytest.raises(ClientError, match=r"@place\.check"):
        async with sender:
            pass
    with pytest.raises(ClientError, match="name its topic"):
        sender.transaction(place.__wrapped__)
    sender.transaction("T")(place.__wrapped__)
    with pytest.raises(ClientError, match="T has a transaction"):
        sender.transaction("T")(place.__wrapped__)
    with pytest.raises(InvalidParameterError):
        sender.transaction("bad topic")
