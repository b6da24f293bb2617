"""The outbox table, its SQL statements, and why the database's own rules make them safe.

The table has one row for each local transaction, written once and never changed.

Two transactions insert a row under one primary key: the local one a COMMIT row, the deciding one a
ROLLBACK row. If the first insert is not committed yet, the second one does the following:

- PostgreSQL: it waits for the end of the first one, at any isolation level. Then it fails (the
  first one committed) or continues (rolled back). `lock_timeout` ends the wait with an error.
- SQLite: there is one writer at a time. The second one gets SQLITE_BUSY after `busy_timeout`.

After any error the outcome is still open, so an error is never used as an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Engine,
    Index,
    MetaData,
    String,
    Table,
    Text,
    case,
    func,
    insert,
    inspect,
    select,
)
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from pyrmq.errors import ClientError, ConfigError
from pyrmq.model.transaction import TransactionState

MAX_ID = 255
"""Most characters of a transaction id (clients' UNIQ_KEYs have 32)."""

metadata = MetaData()
"""Contains only OUTBOX. For Alembic: `target_metadata = [Base.metadata, pyrmq.outbox.metadata]`."""


def outbox_table(
    name: str = "pyrmq_outbox", metadata: MetaData = metadata, schema: str | None = None
) -> Table:
    """An outbox table with another name, schema or metadata; give it to `Outbox(table=...)`."""
    return Table(
        name,
        metadata,
        Column("transaction_id", String(MAX_ID), primary_key=True),
        Column("state", String(8), nullable=False),
        Column("topic", String(255), nullable=False),
        Column("keys", Text),
        Column("created", BigInteger, nullable=False, comment="ms since 1970"),
        CheckConstraint("state IN ('COMMIT', 'ROLLBACK')", name=f"{name}_state"),
        Index(f"{name}_created", "created"),
        schema=schema,
    )


OUTBOX = outbox_table()


def create_table(engine: Engine, table: Table = OUTBOX) -> None:
    """Creates the table and its index unless they exist; several processes may do so at once.

    An application with migrations creates the table there and does not call this.
    """
    try:
        with engine.begin() as connection:
            table.create(connection, checkfirst=True)
    except DBAPIError:
        # Another process was faster, or it is a real fault.
        with engine.connect() as connection:
            if not _exists(connection, table):
                raise


def _exists(connection: Connection, table: Table) -> bool:
    return inspect(connection).has_table(table.name, schema=table.schema)


COMMIT, ROLLBACK = TransactionState.COMMIT, TransactionState.ROLLBACK
_OWN_DATABASE = "the outbox needs a database file, with a connection for each thread"
_DURABLE = case(
    (
        func.current_setting("synchronous_commit") == "off",
        func.set_config("synchronous_commit", "on", True),
    )
)
"""Makes PostgreSQL flush this transaction when it commits: the answer must not survive a crash of
the server that loses the row."""


IDENTITY = "pyrmq.outbox.identity"
"""Key of the row that identifies this outbox; no transaction has this id."""
_NEVER = 2**63 - 1
"""The time at which that row becomes old."""


class Fence:
    """The rows of one table. All methods block: call them in a worker thread."""

    def __init__(
        self, engine: Engine, table: Table, lock_timeout: float, clock: Callable[[], float]
    ) -> None:
        self.engine = engine
        self.table = table
        self._wait_ms = max(int(lock_timeout * 1000), 1)
        self._clock = clock
        dialect = engine.dialect
        if dialect.name not in ("sqlite", "postgresql"):
            raise ConfigError(f"the outbox knows sqlite and postgresql, not {dialect.name}")
        if dialect.is_async:
            raise ConfigError(
                f"{dialect.driver} is an asyncio driver; the outbox works in threads: "
                "give it an engine of psycopg or sqlite3"
            )
        if isinstance(engine.pool, StaticPool | SingletonThreadPool):
            raise ConfigError(f"{_OWN_DATABASE}, not a {type(engine.pool).__name__}")
        self._postgresql = dialect.name == "postgresql"

    def now(self) -> int:
        """Milliseconds since 1970."""
        return int(self._clock() * 1000)

    def identity(self) -> str:
        """The identity of this table in halves: the same for all of its users, and different for
        every other table. It is a row of the table; the first call creates it."""
        query = select(self.table.c.topic).where(self.table.c.transaction_id == IDENTITY)
        with self._deciding() as connection:
            with connection.begin():
                found: str | None = connection.execute(query).scalar()
            if found is not None:
                return found
            with suppress(IntegrityError), connection.begin():  # another one was faster
                self._limit_wait(connection)
                row = {"transaction_id": IDENTITY, "state": ROLLBACK.name, "topic": uuid4().hex}
                words = "the identity of this outbox: do not delete it"
                connection.execute(insert(self.table).values(**row, keys=words, created=_NEVER))
            with connection.begin():
                return str(connection.execute(query).scalar_one())

    def begin(self, connection: Connection, key: str, topic: str, keys: str | None) -> None:
        """First statement of a local transaction: inserts its COMMIT row. Raises ClientError if it
        is already decided.

        It comes first so that a check of a running transaction must wait for its end.
        """
        self._check_connection(connection)
        try:
            self._insert(connection, key, COMMIT, topic, keys)
        except IntegrityError as e:
            raise ClientError(f"transaction {key} was decided before it began") from e

    def confirm(self, connection: Connection, key: str) -> None:
        """Last statement before the commit: checks that the row is in this transaction, which can
        commit.

        PostgreSQL treats COMMIT of a failed transaction as ROLLBACK and reports success, and SQLite
        rolls back by itself after some errors. Work that ignored such an error fails here.
        """
        columns = [self.table.c.state, *([_DURABLE] if self._postgresql else [])]
        own = select(*columns).where(self.table.c.transaction_id == key)
        row = connection.execute(own).first()
        if row is None or row[0] != COMMIT.name:
            raise ClientError(
                f"transaction {key} was rolled back by the database or by its own work"
            )

    def decide(self, key: str, topic: str, keys: str | None, complete: bool) -> TransactionState:
        """COMMIT or ROLLBACK, for good; SQLAlchemyError or UNKNOWN while it is not certain.

        complete: no row of that age has been deleted; otherwise a missing row means nothing.
        """
        with self._deciding() as connection:
            state = self._find(connection, key)
            if state is None and complete:
                try:
                    with connection.begin():
                        self._limit_wait(connection)
                        self._insert(connection, key, ROLLBACK, topic, keys)
                    return ROLLBACK
                except IntegrityError:
                    state = self._find(connection, key)
            return TransactionState.UNKNOWN if state is None else state

    def _find(self, connection: Connection, key: str) -> TransactionState | None:
        with connection.begin():
            query = select(self.table.c.state).where(self.table.c.transaction_id == key)
            name = connection.execute(query).scalar()
        return None if name is None else TransactionState[name]

    def _insert(
        self,
        connection: Connection,
        key: str,
        state: TransactionState,
        topic: str,
        keys: str | None,
    ) -> None:
        row = {"transaction_id": key, "state": state.name, "topic": topic, "keys": keys}
        connection.execute(insert(self.table).values(**row, created=self.now()))

    @contextmanager
    def _deciding(self) -> Iterator[Connection]:
        """A connection that sees only committed rows and waits for locks as long as it may."""
        with self.engine.connect() as connection:
            if self._postgresql:
                yield connection.execution_options(isolation_level="READ COMMITTED")
                return
            before = connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one()
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {self._wait_ms}")
            connection.rollback()
            try:
                yield connection
            finally:
                with suppress(SQLAlchemyError):
                    connection.rollback()
                    connection.exec_driver_sql(f"PRAGMA busy_timeout = {before}")

    def _limit_wait(self, connection: Connection) -> None:
        if self._postgresql:
            wait = func.set_config("lock_timeout", str(self._wait_ms), True)
            connection.execute(select(wait, _DURABLE))

    def _check_connection(self, connection: Connection) -> None:
        """Raises ConfigError for a connection that would commit each statement by itself."""
        raw = connection.connection.dbapi_connection
        autocommit = getattr(raw, "autocommit", False) is True
        if not self._postgresql:
            in_transaction = getattr(raw, "in_transaction", True)
            legacy = getattr(raw, "isolation_level", "") is None
            autocommit = autocommit or (legacy and not in_transaction)
            files = connection.exec_driver_sql("PRAGMA database_list").all()
            if not any(row[1] == "main" and row[2] for row in files):
                raise ConfigError(f"{_OWN_DATABASE}, this one is in memory")
        if autocommit:
            raise ConfigError(
                "the engine is in AUTOCOMMIT mode, the outbox needs transactions: "
                "give it engine.execution_options(isolation_level=...) with another level"
            )
