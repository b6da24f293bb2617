"""Transactions: a message that is delivered if, and only if, a local transaction commits.

    python examples/transaction.py [--namesrv HOST:PORT]

Three orders in a shop with a database: one is stored, one is refused, and for the third the broker
gets no outcome. So it asks for it, in its default configuration after 6 to 40 seconds. With an SQL
database `pyrmq.outbox` does most of this (examples/outbox.py).
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from pyrmq.aio import (
    ConsumeFrom,
    Message,
    PushConsumer,
    ReceivedMessage,
    TransactionalProducer,
    TransactionState,
)

STOCK = 10


class Orders:
    """The listener. Plain functions run in worker threads, so they may block."""

    def __init__(self, database: Path) -> None:
        self.database = database
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, books INTEGER)")

    def execute_local_transaction(self, message: Message, books: int) -> TransactionState:
        if books > STOCK:
            return TransactionState.ROLLBACK  # nothing was or will be written
        with closing(sqlite3.connect(self.database)) as connection, connection:
            row = (message.transaction_id, books)
            connection.execute("INSERT INTO orders VALUES (?, ?)", row)
        if message.keys == "order-3":
            return TransactionState.UNKNOWN  # as if this process had died here
        return TransactionState.COMMIT

    def check_local_transaction(self, message: ReceivedMessage) -> TransactionState:
        """The broker asks any producer of the group, so the answer must come from the database."""
        with closing(sqlite3.connect(self.database)) as connection:
            query = "SELECT 1 FROM orders WHERE id = ?"
            found = connection.execute(query, (message.transaction_id,)).fetchone()
        print(f"{message.keys[0]}: the broker asks; {'stored' if found else 'not known'}")
        # A missing row does not mean rolled back: the transaction may still be running.
        return TransactionState.COMMIT if found else TransactionState.UNKNOWN


async def main(namesrv: str) -> None:
    missing = set()
    with TemporaryDirectory(prefix="pyrmq-") as folder:
        listener = Orders(Path(folder) / "shop.db")
        async with (
            TransactionalProducer("order-service", listener, namesrv=namesrv) as producer,
            PushConsumer(
                "shipping", {"Shop": "*"}, namesrv=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
            ) as consumer,
        ):
            for number, books in enumerate((2, 500, 1), 1):
                order = Message("Shop", b"%d books" % books, keys=f"order-{number}")
                result = await producer.send_in_transaction(order, books)
                print(f"order-{number}: {books} books, {result.local_state.name}")
                if books <= STOCK:
                    missing.add(result.msg_id)
            print("order-3: waiting until the broker asks ...")
            async for message in consumer:
                print(f"{message.keys[0]}: delivered")
                missing.discard(message.msg_id)
                if not missing:
                    await consumer.acknowledge(message)
                    break


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
