"""Two members of one producer group on two databases, with a real broker that asks both of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from sqlalchemy.orm import Session

import pyrmq.testing
from pyrmq.client import ConsumeFrom, PushConsumer, TransactionalProducer
from pyrmq.errors import TransactionConflictError
from pyrmq.model.message import Message
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.transaction import TransactionState
from pyrmq.outbox import Outbox
from tests.outbox.shop import SECONDS, Database, Gate, place_order
from tests.support.waiting import eventually_trio

QUICK = {"transaction_time_out": 200, "transaction_check_interval": 100}


class Watched:
    """An outbox as a listener; `asked` is set when it has answered a check."""

    def __init__(self, outbox: Outbox) -> None:
        self.execute_local_transaction = outbox.execute_local_transaction
        self.half_properties = outbox.half_properties
        self.asked = threading.Event()
        self.check: Callable[[ReceivedMessage], TransactionState] = outbox.check_local_transaction

    def check_local_transaction(self, message: ReceivedMessage) -> TransactionState:
        answer = self.check(message)
        self.asked.set()
        return answer


async def test_the_other_member_decides_nothing(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The work runs until the other one has been asked; then all that SQL has is delivered."""
    sent = 4
    gate = Gate()

    def work(session: Session, message: Message, arg: object) -> None:
        place_order(session, message, arg)
        gate.stop_here()

    elsewhere = f"sqlite:///{tmp_path / 'other.db'}"
    with Database(elsewhere, identity="other") as other, trio.fail_after(SECONDS):
        own = Watched(database.outbox(work, lock_timeout=0.05))
        stranger = Watched(other.outbox(place_order))
        async with (
            pyrmq.testing.broker(**QUICK) as server,
            TransactionalProducer("orders", own, namesrv=server.namesrv) as producer,
            TransactionalProducer("orders", stranger, namesrv=server.namesrv),
            PushConsumer(
                "reader",
                {"Orders": "*"},
                namesrv=server.namesrv,
                consume_from=ConsumeFrom.FIRST_OFFSET,
            ) as consumer,
        ):
            async with trio.open_nursery() as nursery:

                async def send() -> None:
                    result = await producer.send_in_transaction(Message("Orders", b"order"))
                    assert result.local_state is TransactionState.COMMIT

                for _ in range(sent if database.postgresql else 1):  # SQLite has one writer
                    nursery.start_soon(send)
                await trio.to_thread.run_sync(gate.wait)
                await trio.to_thread.run_sync(stranger.asked.wait, SECONDS)
                gate.open()
            placed = await trio.to_thread.run_sync(database.orders)
            found = {(await anext(aiter(consumer))).msg_id for _ in placed}
            assert found == placed
        assert other.rows() == {}
    assert "of another outbox" in caplog.text


async def test_who_commits_what_another_one_has_rolled_back_is_told(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """A member that answers ROLLBACK for what it does not know, as a listener of its own may."""
    gate = Gate()

    def work(session: Session, message: Message, arg: object) -> None:
        place_order(session, message, arg)
        gate.stop_here()

    outbox = database.outbox(work)
    wrong = Watched(outbox)
    wrong.check = lambda message: TransactionState.ROLLBACK
    with trio.fail_after(SECONDS):
        async with (
            pyrmq.testing.broker(**QUICK) as server,
            TransactionalProducer("orders", outbox, namesrv=server.namesrv) as producer,
            TransactionalProducer("orders", wrong, namesrv=server.namesrv),
            trio.open_nursery() as nursery,
        ):

            async def send() -> None:
                with pytest.raises(TransactionConflictError, match="message is not delivered"):
                    await outbox.send(producer, Message("Orders", b"order"))

            nursery.start_soon(send)
            await trio.to_thread.run_sync(gate.wait)
            transactions = server.broker.transactions
            what = "the half is rolled back"
            await eventually_trio(lambda: transactions.stats()["rollbacks"], what, until=bool)
            gate.open()
    assert len(database.orders()) == 1, "the local transaction has committed all the same"
    lines = [r for r in caplog.records if r.levelname == "ERROR"]
    assert {r.name for r in lines} == {
        "pyrmq.broker.requests.transactions",
        "pyrmq.client.transaction.producer",
    }
