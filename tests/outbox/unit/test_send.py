"""`Outbox.send`: what the caller of a transactional send gets to know."""

from __future__ import annotations

import subprocess
import sys

import pytest
from sqlalchemy.orm import Session

from pyrmq.errors import ClientError
from pyrmq.model.message import Message, SendStatus
from pyrmq.model.transaction import TransactionState
from tests.outbox.shop import Database, FakeProducer, message, place_order, received


async def test_returns_the_result_of_a_commit(database: Database) -> None:
    outbox = database.outbox(place_order)
    producer = FakeProducer(outbox)
    result = await outbox.send(producer, message("m1"), timeout=2.0)
    assert result.local_state is TransactionState.COMMIT
    assert result.msg_id == "m1"
    assert producer.options == {"timeout": 2.0}
    assert database.orders() == {"m1"}


async def test_raises_what_the_work_raised(database: Database) -> None:
    def work(session: Session, sent: Message, arg: object) -> None:
        place_order(session, sent, arg)
        raise LookupError(arg)

    outbox = database.outbox(work)
    producer = FakeProducer(outbox)
    with pytest.raises(LookupError, match="out of stock") as caught:
        await outbox.send(producer, message(), "out of stock")
    assert not hasattr(caught.value, "__notes__")
    assert producer.ended == [TransactionState.ROLLBACK]
    assert database.orders() == set()


async def test_says_that_the_work_has_rolled_back(database: Database) -> None:
    def work(session: Session, sent: Message, arg: object) -> None:
        place_order(session, sent, arg)
        session.rollback()

    outbox = database.outbox(work)
    with pytest.raises(ClientError, match="ended the SQL transaction m1 itself"):
        await outbox.send(FakeProducer(outbox), message("m1"))
    assert database.rows() == {"m1": "ROLLBACK"}


async def test_says_when_the_work_was_not_run(sqlite: Database) -> None:
    outbox = sqlite.outbox(place_order)
    producer = FakeProducer(outbox, SendStatus.FLUSH_DISK_TIMEOUT)
    with pytest.raises(ClientError, match=r"not run.*FLUSH_DISK_TIMEOUT"):
        await outbox.send(producer, message())
    assert sqlite.orders() == set()


async def test_a_transaction_that_was_decided_before(database: Database) -> None:
    outbox = database.outbox(place_order)
    sent = message("m1")
    assert outbox.check_local_transaction(received(sent)) is TransactionState.ROLLBACK
    with pytest.raises(ClientError, match="m1 was decided before it began"):
        await outbox.send(FakeProducer(outbox), sent)


def test_without_sqlalchemy_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['sqlalchemy'] = None\nimport pyrmq.client, pyrmq.outbox"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'pyrmq-broker[outbox]'" in done.stderr.splitlines()[-1]


def test_an_old_sqlalchemy_is_reported() -> None:
    code = (
        "import sys, types; old = types.ModuleType('sqlalchemy'); old.__version__ = '1.4.54'\n"
        "sys.modules['sqlalchemy'] = old\nimport pyrmq.outbox"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "needs SQLAlchemy 2, this is 1.4.54" in done.stderr.splitlines()[-1]
