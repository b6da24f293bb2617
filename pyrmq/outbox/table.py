"""The outbox table: one row for each local transaction, written once and never changed."""

from __future__ import annotations

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
    inspect,
)
from sqlalchemy.exc import DBAPIError

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
