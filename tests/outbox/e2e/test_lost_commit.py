"""The connection breaks in the COMMIT: whether it has happened is not known to the client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from pyrmq.model.message import Message
from pyrmq.model.transaction import TransactionState
from pyrmq.outbox import Outbox
from tests.outbox.postgres import Server
from tests.outbox.proxy import Loss, Proxy
from tests.outbox.shop import SECONDS, Database, FakeProducer, message, place_order, received

COMMIT, ROLLBACK, UNKNOWN = (
    TransactionState.COMMIT,
    TransactionState.ROLLBACK,
    TransactionState.UNKNOWN,
)


@pytest.fixture
def proxy(pg_server: Server) -> Iterator[Proxy]:
    with Proxy(pg_server.socket) as relay:
        yield relay


@pytest.fixture
def far(postgresql: Database, proxy: Proxy) -> Outbox:
    """An outbox whose engine goes through the proxy."""
    assert postgresql.url_through is not None
    engine = postgresql.engine(postgresql.url_through(*proxy.address))
    return postgresql.outbox(place_order, engine=engine, lock_timeout=SECONDS)


def test_the_answer_is_lost(postgresql: Database, proxy: Proxy, far: Outbox) -> None:
    """It has committed, and the row is found over another connection."""
    sent, proxy.loss = message(), Loss.ANSWER
    assert far.execute_local_transaction(sent, None) is COMMIT
    assert proxy.happened.is_set()
    assert len(postgresql.orders()) == 1


def test_the_request_is_lost(postgresql: Database, proxy: Proxy, far: Outbox) -> None:
    """It has not, which a ROLLBACK row makes final."""
    sent, proxy.loss = message(), Loss.REQUEST
    assert far.execute_local_transaction(sent, None) is ROLLBACK
    assert proxy.happened.is_set()
    assert postgresql.orders() == set()
    assert list(postgresql.rows().values()) == ["ROLLBACK"]


@pytest.mark.parametrize("loss", [Loss.ANSWER, Loss.REQUEST])
def test_the_database_is_out_of_reach(
    postgresql: Database, proxy: Proxy, far: Outbox, loss: Loss
) -> None:
    """Nothing is said before the database can be asked again."""

    def cut(connection: Connection) -> None:
        proxy.accepting = False

    event.listen(far._fence.engine, "commit", cut)
    sent, proxy.loss = message(), loss
    assert far.execute_local_transaction(sent, None) is UNKNOWN
    assert far.check_local_transaction(received(sent)) is UNKNOWN
    proxy.accepting = True
    event.remove(far._fence.engine, "commit", cut)
    final = COMMIT if loss is Loss.ANSWER else ROLLBACK
    assert far.check_local_transaction(received(sent)) is final
    assert len(postgresql.orders()) == (final is COMMIT)


@pytest.mark.parametrize("arrives", [False, True])
def test_a_commit_on_its_way(postgresql: Database, proxy: Proxy, arrives: bool) -> None:
    """The server holds the transaction open and may still get the COMMIT: nobody may say ROLLBACK
    before that is over."""
    assert postgresql.url_through is not None
    engine = postgresql.engine(postgresql.url_through(*proxy.address))
    far, near = postgresql.outbox(place_order, engine=engine), postgresql.outbox()
    sent, proxy.loss = message(), Loss.LATE if arrives else Loss.HELD
    assert far.execute_local_transaction(sent, None) is UNKNOWN
    assert near.check_local_transaction(received(sent)) is UNKNOWN
    assert postgresql.orders() == set()
    (proxy.deliver if arrives else proxy.drop)()
    # The server takes a moment to notice that the client is gone: this check waits for it.
    patient = postgresql.outbox(lock_timeout=SECONDS)
    assert patient.check_local_transaction(received(sent)) is (COMMIT if arrives else ROLLBACK)
    assert len(postgresql.orders()) == arrives


async def test_send_raises_with_a_note_when_the_outcome_is_open(
    postgresql: Database, proxy: Proxy
) -> None:
    assert postgresql.url_through is not None
    engine = postgresql.engine(postgresql.url_through(*proxy.address))
    outbox = postgresql.outbox(place_order, engine=engine)
    producer = FakeProducer(outbox)
    await outbox.half_properties()  # asked for once, before the fault
    proxy.loss = Loss.LATE
    with pytest.raises(OperationalError) as caught:
        await outbox.send(producer, message())
    assert "is open: the check decides it" in caught.value.__notes__[0]
    assert producer.ended == [UNKNOWN]
    proxy.drop()


def test_the_connection_breaks_in_the_work(postgresql: Database) -> None:
    """Before any COMMIT: nothing can be written, which the row makes final."""

    def work(session: Session, sent: Message, arg: object) -> None:
        place_order(session, sent, arg)
        own = session.scalar(text("SELECT pg_backend_pid()"))
        postgresql.run(text(f"SELECT pg_terminate_backend({own})"))
        place_order(session, message(), arg)

    outbox = postgresql.outbox(work, lock_timeout=SECONDS)
    assert outbox.execute_local_transaction(message(), None) is ROLLBACK
    assert postgresql.orders() == set()
