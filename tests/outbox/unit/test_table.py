"""The table: making it, naming it, and deleting old rows in batches."""

from __future__ import annotations

import logging
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from sqlalchemy import Engine, MetaData, create_engine, event, inspect, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import sessionmaker
from sqlalchemy.pool import NullPool, Pool, StaticPool

from pyrmq.errors import ClientError, ConfigError
from pyrmq.model.message import Message
from pyrmq.model.transaction import TransactionState
from pyrmq.outbox import KEEP, OUTBOX, Outbox, create_table, metadata, outbox_table
from pyrmq.outbox.fence import IDENTITY
from tests.outbox.shop import (
    SECONDS,
    Database,
    FakeProducer,
    FakeResult,
    message,
    place_order,
    received,
)

COMMIT = TransactionState.COMMIT


def test_created_twice_and_by_many_at_once(database: Database) -> None:
    OUTBOX.drop(database.engine())
    engines = [database.engine() for _ in range(4)]
    barrier = threading.Barrier(4)

    def create(engine: Engine) -> None:
        barrier.wait(SECONDS)
        create_table(engine)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, engines))
    create_table(engines[0])
    assert database.rows() == {}
    [index] = inspect(engines[0]).get_indexes("pyrmq_outbox")
    assert index["column_names"] == ["created"]


def test_a_table_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'no' / 'such.db'}")
    with pytest.raises(OperationalError):
        create_table(engine)


def test_metadata_holds_the_table_for_migrations(database: Database) -> None:
    assert list(metadata.tables) == ["pyrmq_outbox"]
    own = MetaData()
    table = outbox_table("shop_outbox", own)
    engine = database.engine()
    own.create_all(engine)
    outbox = database.outbox(place_order, table=table)
    sent = message(outbox=outbox._own_identity())
    assert outbox.execute_local_transaction(sent, None) is COMMIT
    assert outbox.check_local_transaction(received(sent)) is COMMIT
    assert database.rows() == {}
    with engine.connect() as connection:
        names = connection.scalars(select(table.c.transaction_id)).all()
    assert set(names) == {IDENTITY, sent.properties["UNIQ_KEY"]}


def test_the_row_says_what_it_is_of(database: Database) -> None:
    sent = message()
    outbox = database.outbox(place_order, clock=lambda: 1_700_000_000.5)
    outbox.execute_local_transaction(sent, None)
    with database.engine().connect() as connection:
        of = OUTBOX.c.transaction_id == sent.properties["UNIQ_KEY"]
        [row] = connection.execute(select(OUTBOX).where(of)).all()
    assert row == (sent.properties["UNIQ_KEY"], "COMMIT", "Orders", "k1 k2", 1_700_000_000_500)


def test_prune_deletes_old_rows_in_batches(database: Database) -> None:
    now = 1_000_000.0
    engine = database.engine()
    outbox = database.outbox(place_order, engine=engine, clock=lambda: now)
    old, young = [message() for _ in range(7)], [message() for _ in range(2)]
    for sent in old:
        outbox.execute_local_transaction(sent, None)
    now += 1.0
    for sent in young:
        outbox.execute_local_transaction(sent, None)
    commits: list[int] = []
    event.listen(engine, "commit", lambda connection: commits.append(1))
    now += KEEP.total_seconds() - 0.5
    assert outbox.prune(batch=3) == 7
    assert len(commits) == 3
    assert database.rows().keys() == {sent.properties["UNIQ_KEY"] for sent in young}
    assert outbox.prune() == 0
    assert len(database.orders()) == 9


def test_two_may_prune_at_once(database: Database) -> None:
    now = 0.0
    outboxes = [database.outbox(place_order, clock=lambda: now) for _ in range(2)]
    for _ in range(20):
        outboxes[0].execute_local_transaction(message(), None)
    now = KEEP.total_seconds() + 1
    with ThreadPoolExecutor(2) as pool:
        counts = list(pool.map(lambda outbox: outbox.prune(batch=2), outboxes))
    assert sum(counts) == 20
    assert database.rows() == {}


def test_a_half_whose_row_may_be_pruned_is_not_rolled_back(database: Database) -> None:
    """A broker that asks for longer than the rows are kept: the row that is gone said COMMIT."""
    start = 1_000_000.0
    now = start
    outbox = database.outbox(place_order, clock=lambda: now)
    sent = message()
    assert outbox.execute_local_transaction(sent, None) is COMMIT
    now = start + KEEP.total_seconds() * 0.95
    assert outbox.check_local_transaction(received(sent, start)) is COMMIT
    now = start + KEEP.total_seconds() + 1
    assert outbox.prune() == 1
    assert outbox.check_local_transaction(received(sent, start)) is TransactionState.UNKNOWN
    assert database.rows() == {}
    # A clock that is behind by less than a tenth of that time does not change it.
    now = start + KEEP.total_seconds() * 0.91
    assert outbox.check_local_transaction(received(sent, start)) is TransactionState.UNKNOWN
    young = message()
    now = start + KEEP.total_seconds() * 0.89
    assert outbox.check_local_transaction(received(young, start)) is TransactionState.ROLLBACK


async def test_a_transaction_that_slept_past_the_pruning_does_nothing(database: Database) -> None:
    """Its process was stopped for days behind the half; the ROLLBACK row has come and gone."""
    now = time.time()
    outbox = database.outbox(place_order, clock=lambda: now)

    class Slow(FakeProducer):
        async def send_in_transaction(
            self, message: Message, arg: object = None, **options: object
        ) -> FakeResult:
            nonlocal now
            check = database.outbox().check_local_transaction(received(message))
            assert check is TransactionState.ROLLBACK
            now += KEEP.total_seconds() + 60
            assert outbox.prune() == 1
            return await super().send_in_transaction(message, arg, **options)

    with pytest.raises(ClientError, match="begins so late"):
        await outbox.send(Slow(outbox), message())
    assert database.orders() == set()


@pytest.mark.parametrize("options", [{"binds": {"x": 1}}, {"twophase": True}])
def test_sessions_of_several_transactions_are_refused(
    sqlite: Database, options: dict[str, object]
) -> None:
    with pytest.raises(ConfigError, match="one transaction"):
        sqlite.outbox(session=sessionmaker(**options))


def test_keeping_rows_too_short_is_refused(sqlite: Database) -> None:
    with pytest.raises(ConfigError, match="10:00 at least"):
        sqlite.outbox(keep=timedelta(minutes=9))
    with pytest.raises(ConfigError, match="at least 1 row"):
        sqlite.outbox(keep=timedelta(minutes=10)).prune(batch=0)


@pytest.mark.parametrize(
    ("options", "pool"), [({}, "SingletonThreadPool"), ({"poolclass": StaticPool}, "StaticPool")]
)
def test_databases_in_memory_are_refused(options: dict[str, type[Pool]], pool: str) -> None:
    """Threads would have one database each, or one transaction for all."""
    with pytest.raises(ConfigError, match=pool):
        Outbox(create_engine("sqlite://", **options))


def test_databases_that_nobody_tried_are_refused() -> None:
    engine = SimpleNamespace(dialect=SimpleNamespace(name="mysql"))
    with pytest.raises(ConfigError, match="not mysql"):
        Outbox(cast(Engine, engine))


def test_an_asyncio_driver_is_refused() -> None:
    with pytest.raises(ConfigError, match="asyncio driver"):
        Outbox(create_engine("postgresql+psycopg_async://localhost/x"))


def test_a_shared_database_in_memory_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    url = "sqlite:///file:shop?mode=memory&cache=shared&uri=true"
    engine = create_engine(url, poolclass=NullPool)
    keep = engine.connect()
    create_table(engine)
    with caplog.at_level(logging.WARNING):
        Outbox(engine, place_order).execute_local_transaction(message(), None)
    assert "this one is in memory" in caplog.text
    keep.close()
    engine.dispose()


def test_autocommit_is_refused(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """The work would be written piece by piece, whatever becomes of the rest."""
    engine = database.engine(isolation_level="AUTOCOMMIT")
    with caplog.at_level(logging.WARNING):
        state = database.outbox(place_order, engine=engine).execute_local_transaction(
            message(), None
        )
    assert state is TransactionState.ROLLBACK
    assert "AUTOCOMMIT" in caplog.text
    assert database.orders() == set()


def test_sqlite_with_transactions_begun_by_hand(sqlite: Database) -> None:
    """SQLAlchemy's recipe: the driver in autocommit mode, BEGIN by an event."""
    engine = sqlite.engine()

    @event.listens_for(engine, "connect")
    def on_connect(raw: object, record: object) -> None:
        raw.isolation_level = None  # type: ignore[attr-defined]

    @event.listens_for(engine, "begin")
    def on_begin(connection: object) -> None:
        connection.exec_driver_sql("BEGIN")  # type: ignore[attr-defined]

    sent, outbox = message(), sqlite.outbox(place_order, engine=engine)
    assert outbox.execute_local_transaction(sent, None) is COMMIT
    assert outbox.check_local_transaction(received(sent)) is COMMIT
    assert outbox.check_local_transaction(received(message())) is TransactionState.ROLLBACK
    assert len(sqlite.orders()) == 1


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 has no autocommit attribute")
def test_sqlite_with_transactions_of_pep_249(sqlite: Database) -> None:
    sent = message()
    outbox = sqlite.outbox(place_order, engine=sqlite.engine(connect_args={"autocommit": False}))
    assert outbox.execute_local_transaction(sent, None) is COMMIT
    assert outbox.check_local_transaction(received(sent)) is COMMIT
    assert outbox.check_local_transaction(received(message())) is TransactionState.ROLLBACK
    assert len(sqlite.orders()) == 1
    outbox = sqlite.outbox(place_order, engine=sqlite.engine(connect_args={"autocommit": True}))
    assert outbox.execute_local_transaction(message(), None) is TransactionState.ROLLBACK
    assert len(sqlite.orders()) == 1


def test_a_connection_comes_back_with_its_own_busy_timeout(sqlite: Database) -> None:
    engine = sqlite.engine(pool_size=1, max_overflow=0, connect_args={"timeout": 7})
    outbox = sqlite.outbox(engine=engine)
    outbox.check_local_transaction(received(message()))
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one() == 7000
