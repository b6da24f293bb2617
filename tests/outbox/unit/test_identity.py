"""Whose outbox a half is of: members of one producer group may work on several databases."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

import pytest
from sqlalchemy import create_engine, delete, select, update
from sqlalchemy.exc import OperationalError

from pyrmq.errors import ClientError
from pyrmq.model.message import Message
from pyrmq.model.transaction import TransactionState
from pyrmq.outbox import OUTBOX, Outbox, create_table, outbox_table
from pyrmq.outbox.fence import IDENTITY
from tests.outbox.shop import Database, FakeProducer, message, place_order, received

COMMIT, ROLLBACK = TransactionState.COMMIT, TransactionState.ROLLBACK
UNKNOWN = TransactionState.UNKNOWN


def without_identity(sent: Message) -> Message:
    del sent.properties["PYRMQ_OUTBOX"]
    return sent


async def identity(outbox: Outbox) -> str:
    return (await outbox.half_properties())["PYRMQ_OUTBOX"]


def test_an_outbox_decides_nothing_for_another_one(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    sent, outbox = message(outbox="elsewhere"), database.outbox(place_order)
    assert outbox.check_local_transaction(received(sent)) is UNKNOWN
    assert database.rows() == {}
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert sent.properties["UNIQ_KEY"] in record.message
    assert "identity elsewhere, this one is shop" in record.message
    own = message(sent.properties["UNIQ_KEY"])
    assert outbox.check_local_transaction(received(own)) is ROLLBACK, "it would have done this"


def test_foreign_text_is_escaped_and_bounded(
    sqlite: Database, caplog: pytest.LogCaptureFixture
) -> None:
    sent = message(outbox="\x1b[31m\n" + "x" * 5000)
    assert sqlite.outbox().check_local_transaction(received(sent)) is UNKNOWN
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert "\x1b" not in record.message
    assert "\n" not in record.message
    assert len(record.message) < 1000


@pytest.mark.parametrize("committed", [True, False])
def test_a_half_that_does_not_say_whose_it_is(
    database: Database, caplog: pytest.LogCaptureFixture, committed: bool
) -> None:
    """Of a version that knew no identities, or of another client: what has a row is answered."""
    sent, outbox = without_identity(message()), database.outbox(place_order)
    if committed:
        assert outbox.execute_local_transaction(sent, None) is COMMIT
    answer = database.outbox(place_order).check_local_transaction(received(sent))
    assert answer is (COMMIT if committed else UNKNOWN)
    assert bool(database.rows()) is committed
    assert any("PYRMQ_OUTBOX" in r.message for r in caplog.records) is not committed


async def test_the_identity_is_that_of_the_table(database: Database) -> None:
    engine = database.engine()
    other = outbox_table("other_outbox", metadata=OUTBOX.metadata.__class__())
    create_table(engine, other)
    first, second = database.outbox(), database.outbox(engine=engine)
    apart, again = (Outbox(engine, table=other) for _ in range(2))
    assert await identity(first) == await identity(second) == "shop"
    assert await identity(apart) == await identity(again) != "shop"
    assert len(await identity(apart)) == 32


async def test_the_first_ones_agree(database: Database) -> None:
    """Whoever comes first makes it."""
    database.run(delete(OUTBOX).where(OUTBOX.c.transaction_id == IDENTITY))
    found: list[str] = []
    barrier = threading.Barrier(6)

    def ask() -> None:
        outbox = database.outbox(lock_timeout=20)
        barrier.wait()
        found.append(outbox._own_identity())

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1


async def test_the_identity_is_never_pruned(database: Database) -> None:
    outbox = database.outbox(keep=timedelta(days=1), clock=lambda: 4e9)
    assert outbox.prune() == 0
    assert await identity(outbox) == "shop"


async def test_it_is_asked_for_once(sqlite: Database) -> None:
    outbox = sqlite.outbox()
    assert await identity(outbox) == "shop"
    sqlite.run(update(OUTBOX).values(topic="renamed"))
    assert await identity(outbox) == "shop"


async def test_send_says_whose_it_is(database: Database) -> None:
    sent, outbox = without_identity(message()), database.outbox(place_order)
    seen: list[dict[str, str]] = []

    class Producer(FakeProducer):
        async def send_in_transaction(self, half: Message, *rest: object, **more: object) -> object:  # type: ignore[override]
            seen.append(half.properties)
            return await super().send_in_transaction(half, *rest, **more)

    await outbox.send(Producer(outbox), sent)  # type: ignore[arg-type]
    assert [p["PYRMQ_OUTBOX"] for p in seen] == ["shop"]
    assert "PYRMQ_OUTBOX" not in sent.properties, "the caller's message stays as it is"


async def test_without_a_database_nothing_is_sent(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("gone")
    engine = create_engine(f"sqlite:///{folder / 'none' / 'shop.db'}")
    outbox = Outbox(engine, place_order)
    producer = FakeProducer(outbox)
    with pytest.raises(OperationalError):
        await outbox.send(producer, message())  # type: ignore[arg-type]
    assert producer.ended == []
    assert outbox.check_local_transaction(received(message())) is UNKNOWN
    engine.dispose()


def test_no_transaction_is_called_like_that(sqlite: Database) -> None:
    with pytest.raises(ClientError, match="no usable UNIQ_KEY"):
        sqlite.outbox().check_local_transaction(received(message(IDENTITY)))
    with sqlite.engine().connect() as connection:
        query = select(OUTBOX.c.topic).where(OUTBOX.c.transaction_id == IDENTITY)
        assert connection.execute(query).scalar_one() == "shop"
