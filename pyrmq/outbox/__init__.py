"""Transactional outbox: a message is delivered exactly if a local SQL transaction commits.

    outbox = Outbox(engine)
    async with TransactionalProducer("orders", outbox, namesrv=...) as producer:
        await outbox.send(producer, Message("Orders", body), partial(place_order, order))

`place_order(order, session)` writes through a SQLAlchemy session. One row per transaction decides.
It is in a table of the same database, with the message's UNIQ_KEY as its primary key:

- The local transaction inserts the row as COMMIT at its beginning; the row becomes visible with its
  commit. Nobody changes it afterwards.
- A check that wants to answer ROLLBACK first inserts a ROLLBACK row under the same key and commits
  it.

The primary key admits only one of the two. So the answer is COMMIT if a COMMIT row is committed,
ROLLBACK if a ROLLBACK row is, and UNKNOWN as long as neither is certain: while the local
transaction runs (the database makes the other insert wait, at most `lock_timeout`), or while the
database cannot be asked. A local transaction that comes too late finds the ROLLBACK row and does
nothing. Time matters in one place: rows older than `keep` are deleted, so for halves of that age a
missing row means nothing.
"""

from __future__ import annotations

try:
    import sqlalchemy
except ModuleNotFoundError as missing:
    if missing.name != "sqlalchemy":
        raise
    raise ModuleNotFoundError(
        "pyrmq.outbox needs SQLAlchemy 2: pip install 'pyrmq-broker[outbox]', "
        "or 'pyrmq-broker[outbox-postgresql]' for PostgreSQL as well",
        name="sqlalchemy",
    ) from missing
if int(sqlalchemy.__version__.partition(".")[0]) < 2:
    raise ImportError(
        f"pyrmq.outbox needs SQLAlchemy 2, this is {sqlalchemy.__version__}: "
        "pip install --upgrade 'sqlalchemy>=2.0.36'"
    )

from pyrmq.outbox.fence import OUTBOX, create_table, metadata, outbox_table
from pyrmq.outbox.outbox import KEEP, Outbox, Work

__all__ = [
    "KEEP",
    "OUTBOX",
    "Outbox",
    "Work",
    "create_table",
    "metadata",
    "outbox_table",
]
