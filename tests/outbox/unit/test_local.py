"""The local transaction: the row and the work commit together or not at all, and the answer says
which."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from sqlalchemy import insert, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from pyrmq.errors import ClientError
from pyrmq.model.message import Message
from pyrmq.model.transaction import TransactionState
from tests.outbox.shop import ORDERS, Database, message, on_commit, place_order, received

COMMIT, ROLLBACK = TransactionState.COMMIT, TransactionState.ROLLBACK


def key_of(sent: Message) -> str:
    return sent.properties["UNIQ_KEY"]


def write(session: Session, key: str) -> None:
    session.execute(insert(ORDERS).values(id=key, amount=1))


def test_work_and_row_commit_together(database: Database) -> None:
    sent, outbox = message(), database.outbox(place_order)
    assert outbox.execute_local_transaction(sent, None) is COMMIT
    assert database.orders() == {key_of(sent)}
    assert database.rows() == {key_of(sent): "COMMIT"}
    assert outbox.check_local_transaction(received(sent)) is COMMIT


def test_work_that_raises_leaves_only_the_rollback(database: Database) -> None:
    def work(session: Session, sent: Message, arg: object) -> None:
        place_order(session, sent, arg)
        raise ValueError("out of stock")

    sent, outbox = message(), database.outbox(work)
    assert outbox.execute_local_transaction(sent, None) is ROLLBACK
    assert database.orders() == set()
    assert database.rows() == {key_of(sent): "ROLLBACK"}
    assert outbox.check_local_transaction(received(sent)) is ROLLBACK


def test_without_work_the_argument_is_called(database: Database) -> None:
    sent, outbox = message(), database.outbox()
    assert outbox.execute_local_transaction(sent, lambda s: write(s, "by-arg")) is COMMIT
    assert database.orders() == {"by-arg"}
    assert outbox.execute_local_transaction(message(), "not callable") is ROLLBACK


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    amount: Mapped[int]


def test_objects_of_the_session_are_written(database: Database) -> None:
    factory = sessionmaker(expire_on_commit=False)

    def work(session: Session, sent: Message, arg: object) -> None:
        session.add(Order(id=key_of(sent), amount=3))

    sent, outbox = message(), database.outbox(work, session=factory)
    assert outbox.execute_local_transaction(sent, None) is COMMIT
    assert database.orders() == {key_of(sent)}
    # The same order again: the error comes with the flush at the end.
    outbox = database.outbox(lambda session, _, arg: session.add(Order(id=arg, amount=3)))
    assert outbox.execute_local_transaction(message(), key_of(sent)) is ROLLBACK


def test_a_commit_inside_of_the_work_does_not_end_the_transaction(database: Database) -> None:
    def work(session: Session, sent: Message, arg: object) -> None:
        write(session, "before")
        session.commit()
        write(session, "after")
        if arg:
            raise ValueError("too late for a part of it")

    outbox = database.outbox(work)
    assert outbox.execute_local_transaction(message(), True) is ROLLBACK
    assert database.orders() == set()
    assert outbox.execute_local_transaction(message(), False) is COMMIT
    assert database.orders() == {"before", "after"}


def test_a_rollback_inside_of_the_work_is_one(database: Database) -> None:
    def work(session: Session, sent: Message, again: object) -> None:
        write(session, "before")
        session.rollback()
        if again:
            write(session, "behind")

    for again in (False, True):
        sent, outbox = message(), database.outbox(work)
        assert outbox.execute_local_transaction(sent, again) is ROLLBACK
        assert database.rows()[key_of(sent)] == "ROLLBACK"
    assert database.orders() == set()


@pytest.mark.parametrize("way", ["connection", "statement", "driver"])
@pytest.mark.parametrize("raising", [False, True])
def test_work_that_commits_by_itself_has_committed(
    database: Database, way: str, raising: bool
) -> None:
    def work(session: Session, sent: Message, arg: object) -> None:
        place_order(session, sent, arg)
        connection = session.connection()
        if way == "connection":
            connection.commit()
        elif way == "statement":
            connection.execute(text("COMMIT"))
        else:
            connection.connection.dbapi_connection.commit()  # type: ignore[union-attr]
        if raising:
            raise ValueError("too late")

    sent = message()
    assert database.outbox(work).execute_local_transaction(sent, None) is COMMIT
    assert database.orders() == {key_of(sent)}


@pytest.mark.parametrize("statement", ["ROLLBACK", "ROLLBACK; BEGIN"])
def test_work_that_rolls_back_in_sql_has_not_committed(database: Database, statement: str) -> None:
    def work(session: Session, sent: Message, arg: object) -> None:
        place_order(session, sent, arg)
        for part in statement.split(";"):
            session.execute(text(part))

    sent = message()
    assert database.outbox(work).execute_local_transaction(sent, None) is ROLLBACK
    assert database.orders() == set()


def test_a_swallowed_error_that_spoils_the_transaction_is_no_commit(database: Database) -> None:
    """PostgreSQL rolls back a failed transaction that is asked to commit, and reports success."""

    def work(session: Session, sent: Message, arg: object) -> None:
        write(session, "first")
        with contextlib.suppress(IntegrityError):
            write(session, "first")

    sent = message()
    state = database.outbox(work).execute_local_transaction(sent, None)
    # SQLite undoes the failed statement only; PostgreSQL the whole transaction.
    assert state is (ROLLBACK if database.postgresql else COMMIT)
    assert database.orders() == (set() if database.postgresql else {"first"})
    assert database.rows() == {key_of(sent): state.name}


def test_an_error_in_a_savepoint_is_undone_alone(database: Database) -> None:
    def work(session: Session, sent: Message, arg: object) -> None:
        write(session, "first")
        with contextlib.suppress(IntegrityError), session.begin_nested():
            write(session, "second")
            write(session, "first")

    assert database.outbox(work).execute_local_transaction(message(), None) is COMMIT
    assert database.orders() == {"first"}


def test_sqlite_rolling_back_by_itself_is_no_commit(sqlite: Database) -> None:
    """ON CONFLICT ROLLBACK ends the transaction below SQLAlchemy, which notices nothing."""

    def work(session: Session, sent: Message, arg: object) -> None:
        write(session, "first")
        try:
            session.execute(text("INSERT OR ROLLBACK INTO orders VALUES ('first', 1)"))
        except IntegrityError:
            write(session, "second")

    sent = message()
    assert sqlite.outbox(work).execute_local_transaction(sent, None) is ROLLBACK
    assert sqlite.orders() == set()


def test_an_async_function_is_refused(database: Database) -> None:
    async def work(session: Session, sent: Message, arg: object) -> None:
        raise AssertionError("never awaited")

    sent = message()
    assert database.outbox(work).execute_local_transaction(sent, None) is ROLLBACK
    assert database.rows() == {key_of(sent): "ROLLBACK"}


def test_one_id_is_one_transaction(database: Database) -> None:
    """A message sent again under its id: what was committed stays, the work runs once."""
    calls: list[Any] = []

    def work(session: Session, sent: Message, arg: object) -> None:
        calls.append(arg)
        place_order(session, sent, arg)

    sent, outbox = message(), database.outbox(work)
    assert outbox.execute_local_transaction(sent, 1) is COMMIT
    assert outbox.execute_local_transaction(sent, 2) is COMMIT
    assert calls == [1]


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_every_isolation_level_works(postgresql: Database, level: str) -> None:
    engine = postgresql.engine(isolation_level=level)
    for raising in (False, True):

        def work(session: Session, sent: Message, arg: object, raising: bool = raising) -> None:
            place_order(session, sent, arg)
            if raising:
                raise ValueError("no")

        sent = message()
        outbox = postgresql.outbox(work, engine=engine)
        wanted = ROLLBACK if raising else COMMIT
        assert outbox.execute_local_transaction(sent, None) is wanted
        assert outbox.check_local_transaction(received(sent)) is wanted


def test_a_deferred_constraint_that_fails_in_the_commit_is_a_rollback(
    postgresql: Database,
) -> None:
    postgresql.run(
        text("ALTER TABLE orders ADD CONSTRAINT once UNIQUE (amount) DEFERRABLE INITIALLY DEFERRED")
    )
    outbox = postgresql.outbox(place_order)
    first, second = message(), message()
    assert outbox.execute_local_transaction(first, None) is COMMIT
    assert outbox.execute_local_transaction(second, None) is ROLLBACK
    assert postgresql.orders() == {key_of(first)}


def test_what_is_answered_is_flushed_on_the_server(postgresql: Database) -> None:
    """The database's own setting may be off; rows that a message depends on are not."""
    engine = postgresql.engine(connect_args={"options": "-c synchronous_commit=off"})
    seen: list[str] = []
    outbox = postgresql.outbox(place_order, engine=engine)

    def look(connection: Any) -> None:
        seen.append(connection.exec_driver_sql("SHOW synchronous_commit").scalar_one())

    with on_commit(engine, look):
        assert outbox.execute_local_transaction(message(), None) is COMMIT
        assert seen == ["on"]
        assert outbox.check_local_transaction(received(message())) is ROLLBACK
    # The look-up before the ROLLBACK row commits nothing.
    assert seen[-1] == "on"
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "off"


@pytest.mark.parametrize("key", ["", "x" * 256, "a\0b"])
def test_a_message_without_a_usable_id_is_refused(database: Database, key: str) -> None:
    sent = message("x")
    sent.properties["UNIQ_KEY"] = key
    with pytest.raises(ClientError, match="UNIQ_KEY"):
        database.outbox(place_order).execute_local_transaction(sent, None)
    with pytest.raises(ClientError, match="UNIQ_KEY"):
        database.outbox(place_order).check_local_transaction(received(sent))


def test_a_database_that_cannot_be_asked_leaves_it_open(database: Database) -> None:
    sent, outbox = message(), database.outbox(place_order)
    database.run(text("ALTER TABLE pyrmq_outbox RENAME TO away"))
    assert outbox.check_local_transaction(received(sent)) is TransactionState.UNKNOWN
    assert outbox.execute_local_transaction(sent, None) is TransactionState.UNKNOWN
    database.run(text("ALTER TABLE away RENAME TO pyrmq_outbox"))
    assert database.orders() == set()
    assert outbox.check_local_transaction(received(sent)) is ROLLBACK
